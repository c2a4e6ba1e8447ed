/// The hash a contact is looked up by: the first 10 bytes of SHA-1 of the number (reference 2.1).
package struct ContactToken: Sensitive, Sendable, Hashable, Comparable {
  package static let kind: StaticString = "token"
  package static let byteCount = 10
  /// Bytes 0...7, big-endian, and bytes 8...9, big-endian.
  package let high: UInt64
  package let low: UInt16

  /// - Returns: nil unless there are exactly 10 bytes.
  package init?(bytes: some Collection<UInt8>) {
    guard bytes.count == Self.byteCount else { return nil }
    self.init(firstBytesOf: bytes)
  }

  /// The first 10 bytes of a digest, which has more.
  package init(firstBytesOf digest: some Collection<UInt8>) {
    var high: UInt64 = 0
    var low: UInt16 = 0
    for (index, byte) in digest.prefix(Self.byteCount).enumerated() {
      if index < 8 { high = high << 8 | UInt64(byte) } else { low = low << 8 | UInt16(byte) }
    }
    self.high = high
    self.low = low
  }

  /// Always 10 bytes.
  package var bytes: [UInt8] {
    (0..<8).map { UInt8(truncatingIfNeeded: high >> UInt64(56 - 8 * $0)) }
      + [UInt8(truncatingIfNeeded: low >> 8), UInt8(truncatingIfNeeded: low)]
  }
  /// The form of every answer: 14 characters, standard alphabet, no padding (reference 1.11).
  package var base64: String { Base64.encode(bytes, padded: false) }

  package static func < (a: Self, b: Self) -> Bool { (a.high, a.low) < (b.high, b.low) }
}

/// What the directory knows of one token.
package struct DirectoryEntry: Sendable, Equatable {
  package let token: ContactToken
  /// nil for an account of this relay.
  package let relay: RelayName?
  package let supportsSMS: Bool
  package let voice: Bool
  package init(token: ContactToken, relay: RelayName?, supportsSMS: Bool, voice: Bool) {
    self.token = token
    self.relay = relay
    self.supportsSMS = supportsSMS
    self.voice = voice
  }
}

/// One account in the listing that peers read (reference 1.13.2, `user_tokens`).
package struct ListedAccount: Sendable, Equatable {
  package let token: ContactToken
  package let isInactive: Bool
  package let supportsSMS: Bool
  package let voice: Bool
  package init(token: ContactToken, isInactive: Bool, supportsSMS: Bool, voice: Bool) {
    self.token = token
    self.isInactive = isInactive
    self.supportsSMS = supportsSMS
    self.voice = voice
  }
}
