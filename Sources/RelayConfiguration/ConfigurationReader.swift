import RelayCore

/// Reads typed values and notes every fault on the way, so that one pass finds them all.
struct ConfigurationReader {
  private let sources: ConfigurationSources
  private(set) var faults: [ConfigurationFault]
  private(set) var warnings: [ConfigurationFault] = []
  private var given: [String: ConfigurationSources.Given] = [:]
  private var trees: [String: JSONValue] = [:]
  private var faulty: Set<String> = []

  init(_ sources: ConfigurationSources, faults: [ConfigurationFault]) {
    self.sources = sources
    self.faults = faults + sources.unknownNames()
    for key in ConfigurationKey.all where !key.isTree {
      do throws(ConfigurationFault) {
        given[key.name] = try sources.given(key)
      } catch {
        self.faults.append(error)
        faulty.insert(key.name)
      }
    }
  }

  /// The given value, or the default when there is none or a faulty one.
  mutating func value<Value>(_ setting: Setting<Value>) -> Value {
    parse(setting.key, setting.type) ?? setting.defaultValue
  }

  /// The given value, or nil when there is none or a faulty one.
  mutating func value<Value>(_ setting: OptionalSetting<Value>) -> Value? { parse(setting.key, setting.type) }

  /// The given tree as it is, judged by who reads it; nil when there is none, or none that is YAML.
  /// - Parameter check: shows what stands in it without its secrets, and finds its faults.
  mutating func tree(_ setting: TreeSetting, _ check: (JSONValue) -> TreeReport) -> JSONValue? {
    let key = setting.key
    do throws(ConfigurationFault) {
      guard let found = try sources.tree(key) else { return nil }
      let report = check(found.tree)
      given[key.name] = .init(text: report.summary, origin: found.origin, place: found.place)
      trees[key.name] = found.tree
      for finding in report.findings {
        let place = sources.place(of: finding.path, in: found, of: key)
        let subject = [key.name + (finding.path.isEmpty ? "" : "." + finding.path.joined(separator: "."))]
        let fault = ConfigurationFault(place: place, text: "\(subject.joined()): \(finding.text)")
        if finding.isWarning { warnings.append(fault) } else { faults.append(fault) }
      }
      return found.tree
    } catch {
      faults.append(error)
      faulty.insert(key.name)
      return nil
    }
  }

  private mutating func parse<Value>(_ key: ConfigurationKey, _ type: ValueType<Value>) -> Value? {
    guard let given = given[key.name] else { return nil }
    do throws(Malformed) {
      return try type.parse(given.text)
    } catch {
      let subject = if case .file = given.place { "\(key.name): " } else { "" }
      let shown = key.secrecy == .open ? ", not \(Masking.quoted(given.text))" : ""
      faults.append(ConfigurationFault(place: given.place, text: "\(subject)expects \(error.expected)\(shown)"))
      faulty.insert(key.name)
      return nil
    }
  }

  func isGiven(_ key: ConfigurationKey) -> Bool { given[key.name] != nil || faulty.contains(key.name) }

  /// The file of its own that the value stands in; nil where it stands elsewhere.
  func file(of key: ConfigurationKey) -> String? { given[key.name]?.file }

  /// Notes that `key` is missing. Says nothing when it is there but faulty: that is a fault already.
  mutating func miss(_ key: ConfigurationKey, because reason: String, of cause: ConfigurationKey) {
    guard !isGiven(key) else { return }
    let also = key.mayComeFromFile ? " (or \(key.fileKeyName))" : ""
    fault("\(reason): \(key.name)\(also) is needed", at: cause)
  }

  mutating func fault(_ text: String, at key: ConfigurationKey) {
    faults.append(ConfigurationFault(place: given[key.name]?.place ?? .defaults, text: text))
  }

  mutating func warn(_ text: String, at key: ConfigurationKey) {
    warnings.append(ConfigurationFault(place: given[key.name]?.place ?? .defaults, text: text))
  }

  var values: [String: SettingValue] {
    let values = ConfigurationKey.all.map { key in
      (key.name, SettingValue(text: given[key.name]?.text ?? key.defaultText, tree: trees[key.name]))
    }
    return Dictionary(uniqueKeysWithValues: values)
  }

  /// Every key with what holds for it, in the order of the table.
  func effective(computed: [String: String]) -> [EffectiveSetting] {
    ConfigurationKey.all.map { key in
      let given = given[key.name]
      let text = given.map { Masking.masked($0.text, key.secrecy) } ?? computed[key.name] ?? key.defaultText
      return EffectiveSetting(key: key.name, value: text, origin: given?.origin ?? .default, place: given?.place)
    }
  }
}
