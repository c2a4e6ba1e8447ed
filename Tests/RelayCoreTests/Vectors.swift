import Foundation
import RelayCore
import Testing

/// The published vectors of the protocol (`Vectors/textsecure-vectors.json`).
enum Vectors {
  static func load<Value: Decodable>(_ key: String, as type: [Value].Type) throws -> [Value] {
    let url = try #require(
      Bundle.module.url(forResource: "textsecure-vectors", withExtension: "json", subdirectory: "Vectors"))
    let all = try JSONSerialization.jsonObject(with: Data(contentsOf: url)) as? [String: Any]
    let section = try #require(all?[key])
    let decoder = JSONDecoder()
    decoder.keyDecodingStrategy = .convertFromSnakeCase
    return try decoder.decode(type, from: JSONSerialization.data(withJSONObject: section))
  }
}

extension Array where Element == UInt8 {
  init(hex: String) {
    let digits = Array<UInt8>(hex.utf8)
    self = stride(from: 0, to: digits.count, by: 2).compactMap {
      UInt8(String(decoding: digits[$0..<$0 + 2], as: UTF8.self), radix: 16)
    }
  }
}

/// Runs a decoder over text.
func decode<Value>(_ text: String, _ body: (RawSpan) throws(JSONError) -> Value) throws(JSONError) -> Value {
  let bytes = Array(text.utf8)
  return try body(bytes.span.bytes)
}
