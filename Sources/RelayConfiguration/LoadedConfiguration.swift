import RelayCore

/// A configuration without faults, and what `relay check` tells of it.
package struct LoadedConfiguration: Sendable {
  package let configuration: RelayConfiguration
  /// Settings that work but are likely not meant. Same shape as faults.
  package let warnings: [ConfigurationFault]
  /// Every key of `ConfigurationKey.all`, in its order; secrets hidden.
  package let effective: [EffectiveSetting]
  /// By key.
  let values: [String: SettingValue]

  /// Keys that hold something else than in `former`, in the order of `ConfigurationKey.all`.
  package func changes(since former: LoadedConfiguration) -> [ConfigurationKey] {
    ConfigurationKey.all.filter { values[$0.name] != former.values[$0.name] }
  }
}

/// The value of one key, to be compared with the former one. It may be a secret.
struct SettingValue: Sensitive, Sendable, Equatable {
  static let kind: StaticString = "setting"
  /// nil when the key has neither value nor default.
  let text: String?
  /// In place of `text`, for a key that is a tree.
  var tree: JSONValue?
}

/// The value that holds for one key.
package struct EffectiveSetting: Sendable, Equatable {
  package enum Origin: String, Sendable { case `default`, file, environment }

  package let key: String
  /// nil when the key has neither value nor default. Secrets, and passwords inside URLs, are `***`.
  package let value: String?
  package let origin: Origin
  /// nil for a default.
  package let place: ConfigurationPlace?
}

extension RelayConfiguration {
  /// Reads the configuration in one pass: environment over file over default.
  ///
  /// - Parameters:
  ///   - file: a YAML file; nil takes the one that `RELAY_CONFIG` names, if it does.
  ///   - environment: all variables of the process; those without `RELAY_` are not looked at.
  ///   - readers: who says whether the trees can be used.
  /// - Throws: every fault there is.
  package static func load(
    file: String?, environment: [String: String], readers: TreeReaders = .none
  ) throws(ConfigurationFaults) -> LoadedConfiguration {
    let named = environment[ConfigurationSources.fileVariable].flatMap { $0.isEmpty ? nil : $0 }
    var faults: [ConfigurationFault] = []
    var opened: ConfigurationFile?
    if let path = file ?? named {
      do throws(ConfigurationFault) {
        opened = try ConfigurationFile(path: path)
      } catch {
        faults.append(error)
      }
    }
    var reader = ConfigurationReader(ConfigurationSources(file: opened, environment: environment), faults: faults)
    let configuration = read(&reader, readers)
    guard reader.faults.isEmpty else { throw ConfigurationFaults(reader.faults) }
    return LoadedConfiguration(
      configuration: configuration, warnings: reader.warnings, effective: reader.effective, values: reader.values)
  }

  /// Reads every key, and checks what looks at several.
  static func read(_ reader: inout ConfigurationReader, _ readers: TreeReaders) -> RelayConfiguration {
    let configuration = RelayConfiguration(&reader, readers)
    // A key that one configuration reads and another does not would be unknown where it is not read.
    precondition(
      reader.keys.map(\.name) == ConfigurationKey.all.map(\.name), "which keys are read depends on values")
    configuration.crossCheck(&reader)
    reader.noteUnknownNames()
    return configuration
  }
}
