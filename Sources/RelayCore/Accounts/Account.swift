/// An account with all its devices, as one consistent read of the store.
package struct Account: Sendable, Equatable {
  package let number: AccountNumber
  /// Ascending by id; never holds two of one id; may lack device 1 only in a damaged store.
  package var devices: [Device]
  /// The text that was uploaded, nil before the first key upload.
  package var identityKey: String?
  package var supportsSMS: Bool
  package var voice: Bool
  /// The hash of the secret that a new installation must know beside the code; nil when the account has no
  /// registration lock.
  package var registrationLock: PasswordHash?

  package init(
    number: AccountNumber, devices: [Device], identityKey: String?, supportsSMS: Bool, voice: Bool,
    registrationLock: PasswordHash? = nil
  ) {
    self.number = number
    self.devices = devices
    self.identityKey = identityKey
    self.supportsSMS = supportsSMS
    self.voice = voice
    self.registrationLock = registrationLock
  }

  package func device(_ id: DeviceID) -> Device? { devices.first { $0.id == id } }

  /// Reference 3.1: device 1 exists and is active.
  package func isActive(at now: Timestamp) -> Bool { device(.master)?.isActive(at: now) ?? false }
  package func activeDevices(at now: Timestamp) -> [Device] { devices.filter { $0.isActive(at: now) } }
}

/// One endpoint of an account.
package struct Device: Sendable, Equatable {
  package let id: DeviceID
  package var password: PasswordHash
  /// Base64 text as uploaded; what is pushed to the device is encrypted under it (reference 2.4).
  package var signalingKey: Secret
  /// 0 means "not set" (reference 0.3).
  package var registrationID: Int32
  package var fetchesMessages: Bool
  package var pushIDs: PushIDs
  /// When the push ids were registered: a provider's word of a dead id counts only if it is newer (reference 3.9).
  package var pushRegistered: Timestamp?
  package var name: String?
  package var userAgent: String?
  package var hasSignedPreKey: Bool
  /// Midnight UTC of the day the device was last seen.
  package var lastSeen: Timestamp
  /// When the device was linked; of device 1 when the account was last registered, since that replaces all devices.
  package var created: Timestamp

  package init(
    id: DeviceID, password: PasswordHash, signalingKey: Secret, registrationID: Int32, fetchesMessages: Bool,
    pushIDs: PushIDs = PushIDs(), pushRegistered: Timestamp? = nil, name: String? = nil, userAgent: String? = nil,
    hasSignedPreKey: Bool = false, lastSeen: Timestamp, created: Timestamp
  ) {
    self.id = id
    self.password = password
    self.signalingKey = signalingKey
    self.registrationID = registrationID
    self.fetchesMessages = fetchesMessages
    self.pushIDs = pushIDs
    self.pushRegistered = pushRegistered
    self.name = name
    self.userAgent = userAgent
    self.hasSignedPreKey = hasSignedPreKey
    self.lastSeen = lastSeen
    self.created = created
  }

  package var isReachable: Bool { fetchesMessages || pushIDs.provider != nil }

  /// Reference 3.1 (G4): reachable, and, for a linked device, with a signed prekey and seen within 30 days.
  package func isActive(at now: Timestamp) -> Bool {
    guard id != .master else { return isReachable }
    return isReachable && hasSignedPreKey && now.millis - lastSeen.millis <= Self.linkedActiveMillis
  }
  /// How long a linked device stays active after it was last seen (reference 3.1).
  package static let linkedActiveMillis = 30 * Timestamp.millisPerDay
}

/// The stored form of a password: `salt` (16 bytes) and HMAC-SHA256(salt, password) (32 bytes).
///
/// Clients draw passwords at random (reference 1.2), so a slow hash would only slow every request
/// (docs/decisions/2026-11-21-password-hash.md).
package struct PasswordHash: Sensitive, Sendable, Hashable {
  package static let kind: StaticString = "password hash"
  package let salt: [UInt8]
  package let hash: [UInt8]
  package init(salt: [UInt8], hash: [UInt8]) {
    self.salt = salt
    self.hash = hash
  }
}

/// A new installation: what a proof puts in the place of the account (reference 1.4).
package struct Registration: Sendable {
  package let number: AccountNumber
  package let token: ContactToken
  /// The only device the account has afterwards; its id is 1.
  package let device: Device
  package let supportsSMS: Bool
  package let voice: Bool
  /// The registration lock of the former installation as it was read and satisfied; nil when it had none.
  package let satisfiedLock: PasswordHash?
  /// The registration lock of the new installation.
  package let newLock: PasswordHash?
  /// Whether a number that a peer lists stays the peer's, whatever is proved here.
  package let respectsClaims: Bool
  /// Whether the account wants to be found; nil leaves what the former installation said, and is true where there was
  /// none.
  package let isDiscoverable: Bool?
  package init(
    number: AccountNumber, token: ContactToken, device: Device, supportsSMS: Bool, voice: Bool,
    satisfiedLock: PasswordHash? = nil, newLock: PasswordHash? = nil, respectsClaims: Bool = true,
    isDiscoverable: Bool? = nil
  ) {
    self.number = number
    self.token = token
    self.device = device
    self.supportsSMS = supportsSMS
    self.voice = voice
    self.satisfiedLock = satisfiedLock
    self.newLock = newLock
    self.respectsClaims = respectsClaims
    self.isDiscoverable = isDiscoverable
  }
}

/// A proof that a number may be registered.
package enum RegistrationProof: Sendable {
  /// The pending code. The try that reaches `triesMax` drops it.
  case code(Secret, triesMax: Int)
  /// A signed token that bears this second, verified already (reference 2.6). It is good once: see `register`.
  case numberToken(second: Int64)
  /// Nothing is to be proved: the account is the relay's own.
  case trusted
}

/// A linked device to be: its id is given out when the code is redeemed (reference 1.14).
package struct DeviceLink: Sendable {
  package let account: AccountNumber
  /// Its id says nothing: the store gives one out when the code is redeemed.
  package let device: Device
  /// Active devices, device 1 included, beyond which none is linked.
  package let devicesMax: Int
  package init(account: AccountNumber, device: Device, devicesMax: Int) {
    self.account = account
    self.device = device
    self.devicesMax = devicesMax
  }
}

// As plain text or bytes, and as little to be shown as those.
extension Account: Sensitive { package static let kind: StaticString = "account" }
extension Device: Sensitive { package static let kind: StaticString = "device record" }

/// Which devices of an account a request names: `*`, or one id (reference 1.6).
package enum DeviceSelector: Sendable, Hashable {
  case all
  case one(DeviceID)

  /// - Throws: `.invalidDeviceSelector` when the text is neither `*` nor an integer, `.notFound` for an integer that no
  ///   device can have.
  package init(text: some StringProtocol) throws(Problem) {
    if text == "*" {
      self = .all
    } else if let id = DeviceID(text: text) {
      self = .one(id)
    } else {
      let digits = text.hasPrefix("-") ? text.dropFirst() : text[...]
      let isInteger = !digits.isEmpty && digits.utf8.allSatisfy { $0 >= 0x30 && $0 <= 0x39 }
      throw Problem(isInteger ? .notFound : .invalidDeviceSelector)
    }
  }
  package var text: String {
    switch self {
    case .all: "*"
    case .one(let id): id.description
    }
  }
}
