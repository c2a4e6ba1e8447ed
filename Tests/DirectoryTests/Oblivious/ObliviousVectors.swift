import Foundation
import RelayCore
import Testing

@testable import Directory

/// docs/vectors/oblivious.json, as far as tests need it.
struct ObliviousVectors: Decodable {
  struct Key: Decodable {
    let seedHex: String
    let info: String
    let publicHex: String
    let `public`: String
    let idHex: String
  }
  struct Output: Decodable {
    let number: String
    let token: String
    let tokenHex: String
    let outputHex: String
    let truncatedHex: String
  }
  struct Evaluation: Decodable {
    let tokens: [String]
    let blindsHex: [String]
    let elements: [String]
    let evaluations: [String]
    let proof: String
  }
  struct Page: Decodable {
    let prefix: String
    let outputs: String
  }
  struct Suggestion: Decodable {
    let registered: Int
    let digits: Int
  }

  let key: Key
  let outputs: [Output]
  let evaluation: Evaluation
  let pages: [Page]
  let suggestedDigits: [Suggestion]

  static func load() throws -> ObliviousVectors {
    let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent().deletingLastPathComponent()
    let decoder = JSONDecoder()
    decoder.keyDecodingStrategy = .convertFromSnakeCase
    return try decoder.decode(
      Self.self, from: Data(contentsOf: root.appending(path: "docs/vectors/oblivious.json")))
  }
}

extension [UInt8] {
  init(hex: String) {
    let digits = [UInt8](hex.utf8)
    self = stride(from: 0, to: digits.count - 1, by: 2).compactMap {
      UInt8(String(decoding: digits[$0..<$0 + 2], as: UTF8.self), radix: 16)
    }
  }
}

extension ObliviousKey {
  /// The key of docs/vectors/oblivious.json, and another one.
  static func test(_ number: UInt8 = 1) throws -> ObliviousKey {
    try #require(ObliviousKey(secret: SecretBytes((0..<32).map { number + $0 })))
  }
}
