/// The ten words of a CA: what two operators read to each other to know that no one stands between them.
///
/// They follow from the CA's key alone. An attacker who wants a CA of his own to have the words of another one needs a
/// second preimage of 110 bits.
package struct AuthorityWords: Sendable, Equatable, CustomStringConvertible {
  package static let count = 10
  private static let bitsPerWord = 11

  package let words: [String]

  /// The first 110 bits of `fingerprint`, 11 bits a word, the highest bit first.
  /// - Parameter fingerprint: SHA-256 of the CA's SubjectPublicKeyInfo in DER, 32 bytes.
  package init(_ fingerprint: [UInt8]) {
    var words: [String] = []
    var (bits, bitCount) = (0, 0)
    for byte in fingerprint where words.count < Self.count {
      bits = bits << 8 | Int(byte)
      bitCount += 8
      if bitCount >= Self.bitsPerWord {
        bitCount -= Self.bitsPerWord
        words.append(WordList.words[bits >> bitCount])
        bits &= (1 << bitCount) - 1
      }
    }
    self.words = words
  }

  package var description: String { words.joined(separator: " ") }
}
