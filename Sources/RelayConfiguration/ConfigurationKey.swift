/// One key of the configuration, as operators meet it: in the file, in the environment, and in docs/configuration.md.
package struct ConfigurationKey: Sendable, Equatable {
  package enum Secrecy: Sendable {
    /// Shown as it is.
    case open
    /// A URL whose password is hidden.
    case password
    /// Hidden whole.
    case secret
  }

  /// Dotted: `client.port`.
  package let name: String
  /// What a value is, for people: `port`, `whole number`.
  package let type: String
  /// What holds when nothing is given; nil when there is nothing.
  package let defaultText: String?
  /// One sentence.
  package let meaning: String
  package let secrecy: Secrecy
  /// Whether its value is several, comma-separated; in the file a list as well.
  package let isList: Bool
  /// Whether it is a section whose own keys are not the configuration's: names with dots, perhaps, or secrets. In the
  /// environment it is YAML or JSON.
  package let isTree: Bool

  init(
    _ name: String, type: String, default defaultText: String?, secrecy: Secrecy = .open, isList: Bool = false,
    isTree: Bool = false,
    _ meaning: String
  ) {
    self.name = name
    self.type = type
    self.defaultText = defaultText
    self.secrecy = secrecy
    self.isList = isList
    self.isTree = isTree
    self.meaning = meaning
  }

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

/// A key that always has a value.
struct Setting<Value: Sendable>: Sendable {
  let key: ConfigurationKey
  let type: ValueType<Value>
  let defaultValue: Value

  /// - Precondition: `text` is a value of `type`; the tests read every default.
  init(
    _ name: String, _ type: ValueType<Value>, default text: String, secrecy: ConfigurationKey.Secrecy = .open,
    _ meaning: String
  ) {
    key = ConfigurationKey(
      name, type: type.name, default: text, secrecy: secrecy, isList: type.isList, meaning)
    self.type = type
    do throws(Malformed) {
      defaultValue = try type.parse(text)
    } catch {
      preconditionFailure("default of \(name): expects \(error.expected)")
    }
  }
}

/// A key that may be without a value.
struct OptionalSetting<Value: Sendable>: Sendable {
  let key: ConfigurationKey
  let type: ValueType<Value>

  /// - Parameter note: what holds when nothing is given, in words.
  init(
    _ name: String, _ type: ValueType<Value>, default note: String? = nil, secrecy: ConfigurationKey.Secrecy = .open,
    _ meaning: String
  ) {
    key = ConfigurationKey(
      name, type: type.name, default: note, secrecy: secrecy, isList: type.isList, meaning)
    self.type = type
  }
}

/// A key whose value is a tree, which another reads than we.
struct TreeSetting: Sendable {
  let key: ConfigurationKey

  /// - Parameter type: what stands in it.
  init(_ name: String, type: String, _ meaning: String) {
    key = ConfigurationKey(name, type: type, default: nil, isTree: true, meaning)
  }
}
