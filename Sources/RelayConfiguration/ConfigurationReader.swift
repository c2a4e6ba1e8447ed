import OrderedCollections
import RelayCore

/// Reads typed values and notes every fault on the way, so that one pass finds them all.
///
/// A key is declared where it is read: a section's initialiser reads each of its fields once, whatever the others hold,
/// with the key's name, type, default and meaning. Checks name keys by their names; a name that was not read ends the
/// process, as every mistake in a declaration does.
struct ConfigurationReader {
  private(set) var faults: [ConfigurationFault]
  private(set) var warnings: [ConfigurationFault] = []
  private let sources: ConfigurationSources
  private var declared: OrderedDictionary<String, ConfigurationKey> = [:]
  private var given: [String: ConfigurationSources.Given] = [:]
  private var trees: [String: JSONValue] = [:]
  private var faulty: Set<String> = []
  private var computed: [String: String] = [:]

  init(_ sources: ConfigurationSources, faults: [ConfigurationFault] = []) {
    self.sources = sources
    self.faults = faults
  }

  // MARK: Fields

  /// A key that always has a value.
  /// - Parameter text: a value of `type`, which holds when none is given, or a faulty one.
  mutating func value<Value>(
    _ name: String, _ type: ValueType<Value>, default text: String, secrecy: ConfigurationKey.Secrecy = .open,
    taking: ConfigurationKey.Taking = .onRestart, _ meaning: String
  ) -> Value {
    let found = read(name, type, default: .value(text), secrecy, taking, meaning)
    if let found { return found }
    do throws(Malformed) {
      return try type.parse(text)
    } catch {
      preconditionFailure("default of \(name): expects \(error.expected)")
    }
  }

  /// A key that may be without a value.
  /// - Parameter words: what holds when nothing is given.
  /// - Returns: nil when nothing is given, or a faulty value.
  mutating func optional<Value>(
    _ name: String, _ type: ValueType<Value>, default words: String? = nil, secrecy: ConfigurationKey.Secrecy = .open,
    taking: ConfigurationKey.Taking = .onRestart, _ meaning: String
  ) -> Value? {
    read(name, type, default: .words(words), secrecy, taking, meaning)
  }

  /// A key whose value is a tree, which is judged by another reader.
  /// - Parameters:
  ///   - type: what stands in it.
  ///   - check: shows what stands in it without its secrets, and finds its faults.
  /// - Returns: the given tree as it is; nil when there is none, or none that is YAML.
  mutating func tree(
    _ name: String, type: String, _ meaning: String, _ check: (JSONValue) -> TreeReport
  ) -> JSONValue? {
    let key = declare(
      ConfigurationKey(
        name: name, type: type, bounds: nil, default: .words(nil), meaning: meaning, secrecy: .open,
        taking: .onRestart, isList: false, isTree: true))
    do throws(ConfigurationFault) {
      guard let found = try sources.tree(key) else { return nil }
      let report = check(found.tree)
      given[name] = .init(text: report.summary, origin: found.origin, place: found.place)
      trees[name] = found.tree
      for finding in report.findings {
        let place = sources.place(of: finding.path, in: found, of: key)
        let subject = ([name] + finding.path).joined(separator: ".")
        let fault = ConfigurationFault(place: place, text: "\(subject): \(finding.text)")
        if finding.isWarning { warnings.append(fault) } else { faults.append(fault) }
      }
      return found.tree
    } catch {
      note(error, of: name)
      return nil
    }
  }

  private mutating func read<Value>(
    _ name: String, _ type: ValueType<Value>, default: ConfigurationKey.Default, _ secrecy: ConfigurationKey.Secrecy,
    _ taking: ConfigurationKey.Taking, _ meaning: String
  ) -> Value? {
    let key = declare(
      ConfigurationKey(
        name: name, type: type.name, bounds: type.bounds, default: `default`, meaning: meaning, secrecy: secrecy,
        taking: taking, isList: type.isList, isTree: false))
    do throws(ConfigurationFault) {
      guard let found = try sources.given(key) else { return nil }
      given[name] = found
      do throws(Malformed) {
        return try type.parse(found.text)
      } catch {
        let subject = if case .file = found.place { "\(name): " } else { "" }
        let shown = secrecy == .open ? ", not \(Masking.quoted(found.text))" : ""
        throw ConfigurationFault(place: found.place, text: "\(subject)expects \(error.expected)\(shown)")
      }
    } catch {
      note(error, of: name)
      return nil
    }
  }

  private mutating func declare(_ key: ConfigurationKey) -> ConfigurationKey {
    precondition(declared.updateValue(key, forKey: key.name) == nil, "\(key.name) is declared twice")
    return key
  }

  private mutating func note(_ fault: ConfigurationFault, of name: String) {
    faults.append(fault)
    faulty.insert(name)
  }

  // MARK: Checks

  func isGiven(_ name: String) -> Bool { given[key(name).name] != nil || faulty.contains(name) }

  /// The file of its own that the value stands in; nil where it stands elsewhere.
  func file(of name: String) -> String? { given[key(name).name]?.file }

  /// Notes that `name` is missing. Says nothing when it is there but faulty: that is a fault already.
  mutating func miss(_ name: String, because reason: String, of cause: String) {
    guard !isGiven(name) else { return }
    let also = key(name).mayComeFromFile ? " (or \(key(name).fileKeyName))" : ""
    fault("\(reason): \(name)\(also) is needed", at: cause)
  }

  mutating func fault(_ text: String, at name: String) {
    faults.append(ConfigurationFault(place: place(of: name), text: text))
  }

  mutating func warn(_ text: String, at name: String) {
    warnings.append(ConfigurationFault(place: place(of: name), text: text))
  }

  /// Says what holds for a key where nothing is given.
  mutating func holds(_ text: String, for name: String) { computed[key(name).name] = text }

  /// Notes the keys and variables that nothing reads.
  /// - Precondition: every field has been read.
  mutating func noteUnknownNames() { faults += sources.unknownNames(known: keys) }

  private func place(of name: String) -> ConfigurationPlace { given[key(name).name]?.place ?? .defaults }

  private func key(_ name: String) -> ConfigurationKey {
    guard let key = declared[name] else { preconditionFailure("\(name) has not been read") }
    return key
  }

  // MARK: What was read

  /// In the order of reading.
  var keys: [ConfigurationKey] { Array(declared.values) }

  var values: [String: SettingValue] {
    let values = keys.map { key in
      (key.name, SettingValue(text: given[key.name]?.text ?? key.default.text, tree: trees[key.name]))
    }
    return Dictionary(uniqueKeysWithValues: values)
  }

  /// Every key with what holds for it, in the order of reading.
  var effective: [EffectiveSetting] {
    keys.map { key in
      let given = given[key.name]
      let text = given.map { Masking.masked($0.text, key.secrecy) } ?? computed[key.name] ?? key.default.text
      return EffectiveSetting(key: key.name, value: text, origin: given?.origin ?? .default, place: given?.place)
    }
  }
}
