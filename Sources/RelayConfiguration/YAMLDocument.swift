import RelayCore
import Yams

/// A YAML text from which trees are taken before it is read as flat keys.
struct YAMLDocument {
  private var root: Node?
  /// The keys of the trees that were taken, one for each place where one stood.
  private(set) var removed: [String] = []

  init(_ text: String) throws { root = try Yams.compose(yaml: text) }

  /// - Returns: the trees that there are, by key; of one that is given twice the first.
  mutating func removeTrees(_ keys: [String]) throws(YAMLComplaint) -> [String: JSONValue] {
    // Anything else is swift-configuration's to refuse.
    guard case .mapping(let mapping)? = root else { return [:] }
    var trees: [String: JSONValue] = [:]
    for key in keys {
      var nodes: [Node] = []
      let rest = Self.without(key, mapping: root?.mapping ?? mapping, prefix: "", taken: &nodes)
      guard let first = nodes.first else { continue }
      root = .mapping(rest)
      removed += nodes.map { _ in key }
      trees[key] = try YAMLTree.value(of: first)
    }
    return trees
  }

  /// The part that is left.
  func bytes() throws -> [UInt8] {
    guard let root else { return [] }
    return Array(try Yams.serialize(node: root, width: -1, allowUnicode: true).utf8)
  }

  /// A key may stand as sections, or with dots on one line.
  private static func without(
    _ key: String, mapping: Node.Mapping, prefix: String, taken: inout [Node]
  ) -> Node.Mapping {
    var pairs: [(Node, Node)] = []
    for (name, value) in mapping {
      let path = prefix + (name.scalar?.string ?? "")
      if path == key {
        taken.append(value)
      } else if let inner = value.mapping, key.hasPrefix(path + ".") {
        pairs.append((name, .mapping(without(key, mapping: inner, prefix: path + ".", taken: &taken))))
      } else {
        pairs.append((name, value))
      }
    }
    return Node.Mapping(pairs, mapping.tag, mapping.style, mapping.mark)
  }
}
