import OrderedCollections

@testable import RelayConfiguration
@testable import RelayCore

/// Configuration files: as a tree, and as flat keys behind the trees that are taken out.
func fuzzYAML(_ bytes: [UInt8]) {
  guard let text = String(validating: bytes, as: UTF8.self) else { return }
  let lines = KeyLines(text)
  demand((lines.line(of: "push-gateway.apps") ?? 1) >= 1, "lines are counted from 1")
  guard KeyLines.hasContent(text) else { return }
  if let tree = try? YAMLTree.read(text) { demand(values(in: tree) <= YAMLTree.valuesMax, "a tree is bounded") }
  guard var document = try? YAMLDocument(text) else { return }
  _ = try? document.removeTrees(["push-gateway.apps", "a", "a.b"])
  _ = try? document.bytes()
}

private func values(in tree: JSONValue) -> Int {
  switch tree {
  case .list(let list): list.reduce(1) { $0 + values(in: $1) }
  case .object(let object): object.values.reduce(1) { $0 + values(in: $1) }
  default: 1
  }
}
