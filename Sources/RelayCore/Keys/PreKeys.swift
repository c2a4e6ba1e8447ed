/// A prekey of version 1: the texts are opaque and returned as uploaded (reference 1.6).
package struct PreKey: Sendable, Equatable {
  /// 0 is an ordinary id; clients may run past 24 bits (reference Part 4).
  package let keyID: Int64
  package let publicKey: String
  package init(keyID: Int64, publicKey: String) {
    self.keyID = keyID
    self.publicKey = publicKey
  }
}

/// A prekey that outlives its use and proves whose it is (reference 1.7).
package struct SignedPreKey: Sendable, Equatable {
  package let keyID: Int64
  package let publicKey: String
  /// Over the public key's bytes, by the account's identity key.
  package let signature: String
  package init(keyID: Int64, publicKey: String, signature: String) {
    self.keyID = keyID
    self.publicKey = publicKey
    self.signature = signature
  }
}

/// Everything a device uploads at once. Replaces the one-time keys that the device had; the others only if it brings
/// them.
package struct PreKeyUpload: Sendable, Equatable {
  package let identityKey: String
  /// May be empty. Key ids are unique: of two with one id the later wins.
  package let oneTimeKeys: [PreKey]
  /// The key that arrived as `lastResortKey`; its id says nothing (reference 1.6). nil keeps the former one: later
  /// clients send none (reference 1.7).
  package let lastResort: PreKey?
  /// nil keeps the former one: version 1 has none.
  package let signedPreKey: SignedPreKey?
  package init(
    identityKey: String, oneTimeKeys: [PreKey], lastResort: PreKey?, signedPreKey: SignedPreKey? = nil
  ) {
    self.identityKey = identityKey
    self.oneTimeKeys = oneTimeKeys
    self.lastResort = lastResort
    self.signedPreKey = signedPreKey
  }
}

package enum PreKeyUploadOutcome: Sendable, Equatable {
  case stored
  /// The device does not exist. Nothing was stored.
  case noDevice
  /// A linked device brought another identity key than the account's. Nothing was stored.
  case identityRefused
}

/// The two shapes of prekeys on the wire: bare ones (reference 1.6), and those with a signed one (1.7).
package enum PreKeyVersion: Sendable { case one, two }

/// The keys handed out for one device: at least one of the two.
package struct DrawnPreKey: Sendable, Equatable {
  package let device: DeviceID
  package let registrationID: Int32
  package let identityKey: String
  /// A one-time key, or else the last resort.
  package let preKey: PreKey?
  package let signedPreKey: SignedPreKey?
  package init(
    device: DeviceID, registrationID: Int32, identityKey: String, preKey: PreKey?, signedPreKey: SignedPreKey? = nil
  ) {
    self.device = device
    self.registrationID = registrationID
    self.identityKey = identityKey
    self.preKey = preKey
    self.signedPreKey = signedPreKey
  }
}

// As plain text or bytes, and as little to be shown as those.
extension PreKey: Sensitive { package static let kind: StaticString = "prekey" }
extension SignedPreKey: Sensitive { package static let kind: StaticString = "signed prekey" }
extension PreKeyUpload: Sensitive { package static let kind: StaticString = "prekey upload" }
extension DrawnPreKey: Sensitive { package static let kind: StaticString = "drawn prekey" }
