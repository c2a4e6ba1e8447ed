import Crypto

/// What two operators read to each other to know that no one stands between them: the same on both sides exactly
/// when both see the same two CAs.
package struct SixWords: Sendable, Equatable, CustomStringConvertible {
  package let words: [String]

  /// The first six bytes of SHA-256 over both CA fingerprints, the smaller one first; a word a byte.
  package init(_ one: [UInt8], _ other: [UInt8]) {
    let sorted = one.lexicographicallyPrecedes(other) ? one + other : other + one
    words = SHA256.hash(data: sorted).prefix(6).map { String(WordList.words[Int($0)]) }
  }

  package var description: String { words.joined(separator: " ") }
}
