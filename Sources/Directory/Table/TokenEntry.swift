package import RelayCore

/// The table's entry for one token, in 16 bits.
package struct TokenEntry: Sendable, Hashable {
  /// 0 for this relay; else a number that whoever fills the table has given to a peer, at most `relayMax`.
  package let relay: Int
  package let supportsSMS: Bool
  package let voice: Bool

  package static let relayMax = 0x0FFF

  /// - Precondition: `relay` is in 0...relayMax: numbers are given out by us.
  package init(relay: Int, supportsSMS: Bool, voice: Bool) {
    precondition((0...Self.relayMax).contains(relay))
    self.relay = relay
    self.supportsSMS = supportsSMS
    self.voice = voice
  }

  init(bits: UInt16) {
    relay = Int(bits & Self.relayBits)
    supportsSMS = bits & Self.smsBit != 0
    voice = bits & Self.voiceBit != 0
  }

  /// Never 0, which is a free slot.
  var bits: UInt16 {
    Self.usedBit | (supportsSMS ? Self.smsBit : 0) | (voice ? Self.voiceBit : 0) | UInt16(truncatingIfNeeded: relay)
  }

  /// Whether there is an entry with these bits, apart from those of a relay that nobody has given out.
  static func isEntry(_ bits: UInt16) -> Bool { bits & usedBit != 0 && bits & removedBit == 0 }

  private static let usedBit: UInt16 = 0x8000
  /// Set in what was removed: its token keeps the slot until the table is laid out anew.
  static let removedBit: UInt16 = 0x4000
  private static let smsBit: UInt16 = 0x2000
  private static let voiceBit: UInt16 = 0x1000
  private static let relayBits: UInt16 = 0x0FFF
}

/// One change of the table.
package struct TokenChange: Sendable, Equatable {
  package let token: ContactToken
  /// nil: the token is removed.
  package let entry: TokenEntry?
  package init(_ token: ContactToken, _ entry: TokenEntry?) {
    self.token = token
    self.entry = entry
  }
}
