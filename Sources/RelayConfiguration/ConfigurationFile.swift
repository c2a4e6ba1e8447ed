import Configuration
import RelayCore
import Synchronization
import Yams

/// The YAML file: its values through swift-configuration, its trees as they are, and where each key stands.
struct ConfigurationFile: Sendable {
  let path: String
  /// The dotted path of every value and of every tree, in no order; a key that is given twice stands here twice.
  let keys: [String]
  /// By key, those of `ConfigurationKey.all` that are trees.
  let trees: [String: JSONValue]
  private let snapshot: YAMLSnapshot?
  private let lines: KeyLines

  static let bytesMax = 1 << 20

  /// - Throws: what is wrong with the file as a whole.
  init(path: String) throws(ConfigurationFault) {
    let bytes: [UInt8]
    do throws(BoundedFile.Failure) {
      bytes = try BoundedFile.read(path, bytesMax: Self.bytesMax)
    } catch {
      throw ConfigurationFault(place: .file(path, line: nil), text: "cannot be read: \(error.reason)")
    }
    guard let text = String(validating: bytes, as: UTF8.self) else {
      throw ConfigurationFault(place: .file(path, line: nil), text: "is not UTF-8")
    }
    let lines = KeyLines(text)
    (self.path, self.lines) = (path, lines)
    // An empty document is no mapping to YAML; to an operator it is a file that leaves everything at its default.
    guard KeyLines.hasContent(text) else {
      (keys, trees, snapshot) = ([], [:], nil)
      return
    }
    // The specifier is asked about every value's key: the one way to learn which keys there are.
    let found = KeyList()
    let options = YAMLSnapshot.ParsingOptions(
      secretsSpecifier: .dynamic { key, _ in
        found.keys.withLock { $0.append(key) }
        return true
      })
    do {
      var document = try YAMLDocument(text)
      trees = try document.removeTrees(ConfigurationKey.all.filter(\.isTree).map(\.name))
      let flat = document.removed.isEmpty ? bytes : try document.bytes()
      snapshot = try YAMLSnapshot(data: flat.span.bytes, providerName: path, parsingOptions: options)
      keys = found.keys.withLock { $0 } + document.removed
    } catch {
      let complaint = YAMLComplaint(error)
      let line = complaint.line ?? complaint.key.flatMap { lines.line(of: $0) }
      throw ConfigurationFault(place: .file(path, line: line), text: "cannot be understood: \(complaint.text)")
    }
  }

  enum Value: Sendable {
    /// A scalar's text; nil for one that says "nothing": `key:`, `key: ~`, `key: null`, `key: ""`.
    case text(String?)
    /// nil for what is neither a scalar nor a list of scalars.
    case list([String]?)
  }

  /// - Returns: nil when the file does not have `key`.
  func value(_ key: String) -> Value? {
    guard let snapshot else { return nil }
    let components = key.split(separator: ".", omittingEmptySubsequences: false).map(String.init)
    do {
      let result = try snapshot.value(forKey: AbsoluteConfigKey(components), type: .string)
      guard let value = result.value, case .string(let text) = value.content else { return nil }
      return .text(["", "~", "null"].contains(text) ? nil : text)
    } catch {
      // The only reason: what stands there is no scalar.
      return .list(list(components))
    }
  }

  private func list(_ components: [String]) -> [String]? {
    // A value that is no list of scalars throws here: nil says so.
    let result = try? snapshot?.value(forKey: AbsoluteConfigKey(components), type: .stringArray)
    guard case .stringArray(let texts)? = result?.value?.content else { return nil }
    return texts
  }

  func place(of key: String) -> ConfigurationPlace { .file(path, line: lines.line(of: key)) }
}

private final class KeyList: Sendable {
  let keys = Mutex<[String]>([])
}
