import Configuration
import Synchronization

/// The YAML file: its values through swift-configuration, and where each key stands.
struct ConfigurationFile: Sendable {
  let path: String
  /// The dotted path of every value, in no order; a key that is given twice stands here twice.
  let keys: [String]
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
      (keys, snapshot) = ([], nil)
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
      snapshot = try YAMLSnapshot(data: bytes.span.bytes, providerName: path, parsingOptions: options)
    } catch {
      let complaint = YAMLComplaint(String(describing: error))
      let line = complaint.line ?? complaint.key.flatMap { lines.line(of: $0) }
      throw ConfigurationFault(place: .file(path, line: line), text: "cannot be understood: \(complaint.text)")
    }
    keys = found.keys.withLock { $0 }
  }

  enum Value: Sendable {
    /// A scalar's text; nil for one that says "nothing": `key:`, `key: ~`, `key: null`, `key: ""`.
    case text(String?)
    case list
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
      return .list
    }
  }

  func place(of key: String) -> ConfigurationPlace { .file(path, line: lines.line(of: key)) }
}

private final class KeyList: Sendable {
  let keys = Mutex<[String]>([])
}

/// What the YAML parser said, without the excerpt of the file that it adds: the excerpt could hold a secret.
struct YAMLComplaint {
  let line: Int?
  /// Dotted; there when the complaint has it in the place of a line.
  let key: String?
  let text: String

  /// - Parameter description: `LINE:COLUMN: error: STAGE: [CONTEXT\n]PROBLEM:\nEXCERPT`, or one line with
  ///   `in line LINE, column COLUMN` or `in array at KEY` somewhere behind it, or with neither.
  init(_ description: String) {
    let parts = description.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
    let head = parts[0].split(separator: ":", maxSplits: 4, omittingEmptySubsequences: false)
    if head.count == 5, let line = Int(head[0]), Int(head[1]) != nil {
      (self.line, key) = (line, nil)
      let isWhole = parts[0].hasSuffix(":")
      let problem = isWhole || parts.count < 2 ? String(head[4]) : "\(head[4]), \(parts[1])"
      var text = problem.drop { $0 == " " }
      while text.hasSuffix(":") { text.removeLast() }
      self.text = String(text)
      return
    }
    line = description.word(behind: "in line ").flatMap { Int($0) }
    key = description.word(behind: "in array at ")
    text = parts[0].hasPrefix("Parser: ") ? String(parts[0].dropFirst("Parser: ".count)) : parts[0]
  }
}

extension String {
  /// What follows `mark` up to the next space, comma or line's end.
  fileprivate func word(behind mark: String) -> String? {
    firstRange(of: mark).map { String(self[$0.upperBound...].prefix { !$0.isWhitespace && $0 != "," }) }
  }
}
