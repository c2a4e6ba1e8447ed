import Foundation
import OrderedCollections
import PushGateway
import RelayCore
import Testing

/// The recorded exchanges of the reference gateway (`Vectors/push-gateway-vectors.json`).
struct Vectors {
  private let root: JSONObject

  /// - Parameter replacements: for what stands between two `@` in the file.
  init(_ replacements: [String: String] = [:]) throws {
    let url = try #require(
      Bundle.module.url(forResource: "push-gateway-vectors", withExtension: "json", subdirectory: "Vectors"))
    var text = try String(contentsOf: url, encoding: .utf8)
    for (name, value) in replacements { text = text.replacing("@\(name)@", with: value) }
    root = try #require(try JSONValue(parsing: text.utf8).object)
  }

  func list(_ key: String) throws -> [JSONObject] { try #require(root[JSONName(key)]?.list).compactMap(\.object) }
  func object(_ key: String) throws -> JSONValue { try #require(root[JSONName(key)]) }
  func function(_ name: String) throws -> [JSONObject] {
    try #require(root["functions"]?.object?[JSONName(name)]?.list).compactMap(\.object)
  }
}

extension JSONObject {
  func text(_ key: String) throws -> String { try #require(self[JSONName(key)]?.text, "\(key)") }
  func object(_ key: String) throws -> JSONObject { try #require(self[JSONName(key)]?.object, "\(key)") }
  func integer(_ key: String) throws -> Int { Int(try #require(self[JSONName(key)]?.integer, "\(key)")) }
  /// The name of a recorded exchange.
  var id: String { self["id"]?.text ?? "?" }
}

extension JSONValue {
  init(_ text: String) throws { try self.init(parsing: text.utf8) }

  /// Whether both say the same: the order of keys is free.
  func says(_ other: JSONValue) -> Bool {
    switch (self, other) {
    case (.object(let a), .object(let b)):
      a.count == b.count && a.allSatisfy { key, value in b[key].map { value.says($0) } ?? false }
    case (.list(let a), .list(let b)): a.count == b.count && zip(a, b).allSatisfy { $0.says($1) }
    default: self == other
    }
  }

  var json: String { String(decoding: bytes(.compact), as: UTF8.self) }
}
