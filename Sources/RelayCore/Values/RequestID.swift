/// By which operators speak of one request: it stands in the answer, in the log, and in what is asked of a peer for
/// it.
///
/// Made by the first relay that takes the request, never by a client: nobody else chooses what the log holds. Written
/// as 13 letters and digits (RFC 4648, base32 without its upper case), which say nothing of the request.
package struct RequestID: Hashable, Sendable {
  /// Never 0, which means none on the wire.
  package let bits: UInt64

  /// - Returns: nil for 0.
  package init?(bits: UInt64) {
    guard bits != 0 else { return nil }
    self.bits = bits
  }

  /// Another one.
  package init() { bits = UInt64.random(in: 1...UInt64.max) }

  /// The id of the request that the present task serves.
  @TaskLocal package static var current: RequestID?
}

extension RequestID: LosslessStringConvertible {
  package var description: String {
    String(unsafeUninitializedCapacity: Self.length) { text in
      for index in 0..<Self.length {
        // The last letter has four bits only.
        let shift = 64 - 5 * (index + 1)
        let five = shift >= 0 ? bits >> UInt64(shift) : bits << 1
        text[index] = Self.alphabet[Int(five & 31)]
      }
      return Self.length
    }
  }

  /// - Returns: nil for anything that `description` does not write.
  package init?(_ text: String) {
    guard text.utf8.count == Self.length else { return nil }
    var bits: UInt64 = 0
    for (index, letter) in text.utf8.enumerated() {
      let five: UInt64
      switch letter {
      case UInt8(ascii: "a")...UInt8(ascii: "z"): five = UInt64(letter - UInt8(ascii: "a"))
      case UInt8(ascii: "2")...UInt8(ascii: "7"): five = UInt64(letter - UInt8(ascii: "2")) + 26
      default: return nil
      }
      guard index == Self.length - 1 else {
        bits = bits << 5 | five
        continue
      }
      guard five & 1 == 0 else { return nil }
      bits = bits << 4 | five >> 1
    }
    self.init(bits: bits)
  }

  private static let length = 13
  private static let alphabet = Array("abcdefghijklmnopqrstuvwxyz234567".utf8)
}
