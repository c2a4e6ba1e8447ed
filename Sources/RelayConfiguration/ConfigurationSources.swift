import Configuration
import RelayCore

/// The places values come from, the environment before the file.
struct ConfigurationSources: Sendable {
  /// nil when there is none, or none that can be read.
  let file: ConfigurationFile?
  /// Only the variables that are ours, without those that are empty: an empty variable counts as unset, since compose
  /// files and unit files have no other way to unset one.
  private let environment: any ConfigSnapshot
  private let variables: Set<String>

  init(file: ConfigurationFile?, environment: [String: String]) {
    self.file = file
    let ours = environment.filter { $0.key.hasPrefix(ConfigurationKey.variablePrefix) }
    variables = Set(ours.keys)
    self.environment = EnvironmentVariablesProvider(environmentVariables: ours.filter { !$0.value.isEmpty }).snapshot()
  }

  /// A value as it was given.
  struct Given: Sendable {
    let text: String
    let origin: EffectiveSetting.Origin
    let place: ConfigurationPlace
    /// The file of its own that `text` stands in, where it does.
    var file: String?
  }

  /// The value that is given for `key`. One place gives it directly or as the path of a file, not both; a variable of
  /// either kind takes the place of what the file says.
  /// - Returns: nil when the default holds.
  func given(_ key: ConfigurationKey) throws(ConfigurationFault) -> Given? {
    if let variable = try pick(
      key, direct: variable(key.name).map { ($0, .variable(key.variable)) },
      indirect: key.mayComeFromFile ? variable(key.fileKeyName).map { ($0, .variable(key.fileVariable)) } : nil,
      origin: .environment)
    {
      return variable
    }
    return try pick(
      key, direct: try fileValue(key.name, isList: key.isList),
      indirect: key.mayComeFromFile ? try fileValue(key.fileKeyName) : nil,
      origin: .file)
  }

  /// A tree as it was given; the environment's takes the place of the file's as a whole.
  struct GivenTree: Sendable {
    let tree: JSONValue
    let origin: EffectiveSetting.Origin
    let place: ConfigurationPlace
  }

  /// - Returns: nil when there is none.
  func tree(_ key: ConfigurationKey) throws(ConfigurationFault) -> GivenTree? {
    if let text = variable(key.name) {
      do throws(YAMLComplaint) {
        return GivenTree(tree: try YAMLTree.read(text), origin: .environment, place: .variable(key.variable))
      } catch {
        throw ConfigurationFault(place: .variable(key.variable), text: "cannot be understood: \(error.text)")
      }
    }
    return file?.trees[key.name].flatMap { tree in
      GivenTree(tree: tree, origin: .file, place: file?.place(of: key.name) ?? .defaults)
    }
  }

  /// The place of an entry of a tree.
  func place(of path: [String], in tree: GivenTree, of key: ConfigurationKey) -> ConfigurationPlace {
    guard tree.origin == .file, let file else { return tree.place }
    return file.place(of: ([key.name] + path).joined(separator: "."))
  }

  private typealias Found = (text: String, place: ConfigurationPlace)

  private func pick(
    _ key: ConfigurationKey, direct: Found?, indirect: Found?, origin: EffectiveSetting.Origin
  ) throws(ConfigurationFault) -> Given? {
    switch (direct, indirect) {
    case (nil, nil): return nil
    case (let found?, nil): return Given(text: found.text, origin: origin, place: found.place)
    case (nil, let found?):
      return Given(text: try secret(in: found, of: key), origin: origin, place: found.place, file: found.text)
    case (let found?, _?):
      let (one, other) =
        origin == .file ? (key.name, key.fileKeyName) : (key.variable, key.fileVariable)
      throw ConfigurationFault(place: found.place, text: "\(one) and \(other) are both given: keep one of them")
    }
  }

  private func variable(_ name: String) -> String? {
    let key = AbsoluteConfigKey(["relay"] + name.split(separator: ".").map(String.init))
    do {
      guard case .string(let text)? = try environment.value(forKey: key, type: .string).value?.content else {
        return nil
      }
      return text
    } catch {
      // Every variable is a string: there is nothing that could fail to convert.
      return nil
    }
  }

  private func fileValue(_ name: String, isList: Bool = false) throws(ConfigurationFault) -> Found? {
    guard let file, let value = file.value(name) else { return nil }
    let place = file.place(of: name)
    switch value {
    case .text(let text?): return (text, place)
    case .text(nil): throw ConfigurationFault(place: place, text: "\(name): has no value: give one or remove the line")
    case .list(let texts?) where isList:
      guard !texts.isEmpty else {
        throw ConfigurationFault(place: place, text: "\(name): the list is empty: name something or remove the line")
      }
      return (texts.joined(separator: ","), place)
    case .list: throw ConfigurationFault(place: place, text: "\(name): expects one value, not a list")
    }
  }

  private func secret(in found: Found, of key: ConfigurationKey) throws(ConfigurationFault) -> String {
    do throws(BoundedFile.Failure) {
      return try SecretFile.read(found.text)
    } catch {
      let subject = if case .file = found.place { "\(key.fileKeyName): " } else { "" }
      throw ConfigurationFault(place: found.place, text: "\(subject)the file \(found.text) \(error.reason)")
    }
  }
}

extension ConfigurationSources {
  /// The variable that names the file, as `--config` does.
  static let fileVariable = "RELAY_CONFIG"

  /// Keys and variables that are none of `keys`.
  func unknownNames(known keys: [ConfigurationKey]) -> [ConfigurationFault] {
    let known =
      keys.flatMap { $0.mayComeFromFile ? [$0.variable, $0.fileVariable] : [$0.variable] } + [Self.fileVariable]
    return variables.subtracting(known).map { name in
      let near = Spelling.nearest(to: name.uppercased(), among: known)
      return ConfigurationFault(place: .variable(name), text: "unknown variable" + Self.hint(near))
    } + (file.map { unknownKeys(of: $0, keys) } ?? [])
  }

  private func unknownKeys(of file: ConfigurationFile, _ keys: [ConfigurationKey]) -> [ConfigurationFault] {
    let names = keys.flatMap { $0.mayComeFromFile ? [$0.name, $0.fileKeyName] : [$0.name] }
    let known = Set(names)
    let counts = Dictionary(file.keys.map { ($0, 1) }, uniquingKeysWith: +)
    return counts.compactMap { key, count in
      let place = file.place(of: key)
      if known.contains(key) {
        return count == 1 ? nil : ConfigurationFault(place: place, text: "\(key): given more than once")
      }
      let inside = names.filter { $0.hasPrefix(key + ".") }
      if !inside.isEmpty {
        // A section whose lines are all commented out.
        if case .text(nil)? = file.value(key) { return nil }
        let examples = inside.prefix(3).joined(separator: ", ") + (inside.count > 3 ? ", ..." : "")
        return ConfigurationFault(place: place, text: "\(key): expects a section (\(examples)), not a value")
      }
      if let outer = names.first(where: { key.hasPrefix($0 + ".") }) {
        if keys.contains(where: { $0.name == outer && $0.isTree }) {
          return ConfigurationFault(place: place, text: "\(outer): expects its entries as a section of their own")
        }
        return ConfigurationFault(place: place, text: "\(outer): expects one value, not a section")
      }
      let near = Spelling.nearest(to: key, among: names)
      return ConfigurationFault(place: place, text: "\(key): unknown key" + Self.hint(near))
    }
  }

  private static func hint(_ near: String?) -> String {
    near.map { ": did you mean \($0)?" } ?? ": docs/configuration.md lists them all"
  }
}
