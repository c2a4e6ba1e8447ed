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

/// Everything a device uploads at once. Replaces what the device had.
package struct PreKeyUpload: Sendable, Equatable {
  package let identityKey: String
  /// May be empty. Key ids are unique: of two with one id the later wins.
  package let oneTimeKeys: [PreKey]
  /// Whatever arrived as `lastResortKey`; its id says nothing (reference 1.6).
  package let lastResort: PreKey
  package init(identityKey: String, oneTimeKeys: [PreKey], lastResort: PreKey) {
    self.identityKey = identityKey
    self.oneTimeKeys = oneTimeKeys
    self.lastResort = lastResort
  }
}

/// A prekey handed out for one device.
package struct DrawnPreKey: Sendable, Equatable {
  package let device: DeviceID
  package let registrationID: Int32
  package let identityKey: String
  package let preKey: PreKey
  package init(device: DeviceID, registrationID: Int32, identityKey: String, preKey: PreKey) {
    self.device = device
    self.registrationID = registrationID
    self.identityKey = identityKey
    self.preKey = preKey
  }
}
