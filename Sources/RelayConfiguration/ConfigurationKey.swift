/// One key of the configuration, as operators meet it: in the file, in the environment, and in docs/configuration.md.
///
/// A section says all of this as it reads the key. The table of keys follows from reading (`ConfigurationReader`).
package struct ConfigurationKey: Sendable {
  package enum Secrecy: Sendable {
    /// Shown as it is.
    case open
    /// A URL whose password is hidden.
    case password
    /// Hidden whole.
    case secret
  }

  /// How a running process takes a change of the value.
  package enum Taking: Sendable {
    /// With SIGHUP.
    case onReload
    /// With its next connection, if the value stands in the file that it stood in when the process started: the closure
    /// is given what holds since then, and what is read now.
    case onConnection(@Sendable (_ started: RelayConfiguration, _ next: RelayConfiguration) -> Bool)
    case onRestart
  }

  /// The value that holds when nothing is given.
  package enum Default: Sendable, Equatable {
    case value(String)
    /// In words, for a key that is then without a value; nil when nothing holds.
    case words(String?)

    package var text: String? {
      switch self {
      case .value(let text): text
      case .words(let text): text
      }
    }
  }

  /// Dotted: `client.port`.
  package let name: String
  /// The kind of a value, for people: `port`, `whole number`.
  package let type: String
  /// The bounds of a number, for people: `1 to 3650`.
  package let bounds: String?
  package let `default`: Default
  /// One plain sentence, the meaning in docs/configuration.md.
  package let meaning: String
  package let secrecy: Secrecy
  package let taking: Taking
  /// Whether its value is several, comma-separated; in the file a list as well.
  package let isList: Bool
  /// Whether it is a section whose own keys are not the configuration's: names with dots, perhaps, or secrets. In the
  /// environment it is YAML or JSON.
  package let isTree: Bool

  /// `RELAY_CLIENT_PORT`: dots and dashes become underscores.
  package var variable: String { Self.variable(for: name) }
  /// Whether the value may be kept in a file of its own, named by `fileKeyName` or `fileVariable`.
  package var mayComeFromFile: Bool { secrecy != .open }
  package var fileKeyName: String { name + "-file" }
  package var fileVariable: String { Self.variable(for: fileKeyName) }

  static let variablePrefix = "RELAY_"

  private static func variable(for name: String) -> String {
    variablePrefix + String(name.uppercased().map { $0 == "." || $0 == "-" ? "_" : $0 })
  }
}

extension ConfigurationKey {
  /// Every key, in the order of `relay check`: the keys that an empty configuration reads. `RelayConfiguration.load`
  /// makes sure that every other configuration reads the same.
  package static let all: [ConfigurationKey] = {
    var reader = ConfigurationReader(ConfigurationSources(file: nil, environment: [:]))
    _ = RelayConfiguration(&reader, .none)
    return reader.keys
  }()
}
