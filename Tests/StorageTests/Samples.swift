// Values that the contract suite stores: plain, and different from each other where a mix-up must show.

import Crypto
import Foundation
import RelayCore

enum Sample {
  /// 2026-03-05, 12:00 UTC: half a day from either midnight.
  static let noon = Timestamp(millis: 20_517 * Timestamp.millisPerDay + Timestamp.millisPerDay / 2)

  static func number(_ index: Int) throws -> AccountNumber {
    try found(AccountNumber(e164: "+49151\(10_000_000 + index)"))
  }

  static func device(_ id: Int64) throws -> DeviceID { try found(DeviceID(id)) }

  static func address(_ index: Int, device id: Int64 = 1) throws -> DeviceAddress {
    try DeviceAddress(number(index), device(id))
  }

  static func token(_ number: AccountNumber) throws -> ContactToken {
    try found(ContactToken(bytes: Array(Insecure.SHA1.hash(data: Data(number.e164.utf8)).prefix(10))))
  }

  /// A token that sorts by `index`.
  static func token(_ index: Int) throws -> ContactToken {
    try found(ContactToken(bytes: [UInt8](repeating: 0, count: 8) + [UInt8(index >> 8), UInt8(index & 255)]))
  }

  static func registration(
    _ index: Int, registrationID: Int32 = 7, isReachable: Bool = true, supportsSMS: Bool = true, voice: Bool = false,
    satisfiedLock: PasswordHash? = nil, newLock: PasswordHash? = nil
  ) throws -> Registration {
    let number = try number(index)
    let device = Device(
      id: .master,
      password: PasswordHash(
        salt: Array(repeating: 1, count: 16), hash: Array(repeating: UInt8(index & 255), count: 32)),
      signalingKey: Secret("c2lnbmFsaW5n\(index)"), registrationID: registrationID, fetchesMessages: isReachable,
      pushIDs: PushIDs(voip: Secret("voip-\(index)")), name: "phone \(index)", userAgent: nil,
      lastSeen: noon.startOfDay,
      created: noon)
    return try Registration(
      number: number, token: token(number), device: device, supportsSMS: supportsSMS, voice: voice,
      satisfiedLock: satisfiedLock, newLock: newLock)
  }

  static func lock(_ byte: UInt8) -> PasswordHash {
    PasswordHash(salt: Array(repeating: byte, count: 16), hash: Array(repeating: byte &+ 1, count: 32))
  }

  static func link(
    _ index: Int, registrationID: Int32 = 9, isReachable: Bool = true, devicesMax: Int = 6
  ) throws -> DeviceLink {
    let device = Device(
      id: .master, password: lock(UInt8(registrationID & 255)), signalingKey: Secret("bGlua2Vk\(registrationID)"),
      registrationID: registrationID, fetchesMessages: isReachable, name: "tablet \(index)", lastSeen: noon.startOfDay,
      created: noon)
    return try DeviceLink(account: number(index), device: device, devicesMax: devicesMax)
  }

  static func envelope(
    to destination: DeviceAddress, from source: DeviceAddress, id: Int, type: MessageType = .ciphertext,
    relay: RelayName? = nil, timestamp: Timestamp? = nil
  ) -> Envelope {
    let body = Array("message \(id)".utf8)
    let identity = SHA256.hash(data: Data("\(source.account.e164) \(source.device) \(id)".utf8))
    func word(_ part: Range<Int>) -> UInt64 { Array(identity)[part].reduce(0) { $0 << 8 | UInt64($1) } }
    return Envelope(
      destination: destination, type: type, source: source, relay: relay,
      timestamp: timestamp ?? Timestamp(millis: noon.millis + Int64(id)), message: body,
      content: id.isMultiple(of: 2) ? [0, 255, UInt8(id & 255)] : nil,
      fingerprint: Fingerprint(high: word(0..<8), low: word(8..<16)))
  }

  static func relay(_ text: String) throws -> RelayName { try found(RelayName(text)) }

  static func peer(_ name: String, ca: UInt8 = 1, state: Peer.State = .active) throws -> Peer {
    try Peer(
      name: relay(name), url: "https://\(name).example:8443", caCertificate: [0x30, ca, 0, 255], state: state,
      scopes: [.messages, .directory], added: noon)
  }

  static func upload(
    _ keyIDs: [Int64], lastResort: Int64? = 0xFFFFFF, identity: String = "identity", signed: SignedPreKey? = nil
  ) -> PreKeyUpload {
    PreKeyUpload(
      identityKey: identity, oneTimeKeys: keyIDs.map { PreKey(keyID: $0, publicKey: "key \($0)") },
      lastResort: lastResort.map { PreKey(keyID: $0, publicKey: "last resort") }, signedPreKey: signed)
  }

  static func signedKey(_ keyID: Int64) -> SignedPreKey {
    SignedPreKey(keyID: keyID, publicKey: "signed \(keyID)", signature: "signature \(keyID)")
  }

  struct Missing: Error {}
  static func found<T>(_ value: T?) throws -> T {
    guard let value else { throw Missing() }
    return value
  }
}

extension Store {
  static let code = Secret("123456")

  /// Asks for a code and uses it.
  @discardableResult
  func register(_ registration: Registration) async throws -> RegistrationOutcome {
    let pending = VerificationCode(code: Self.code, expires: now.adding(.seconds(600)))
    try await storage.setVerificationCode(pending, for: registration.number, purpose: .registration)
    return try await storage.register(registration, proof: .code(Self.code, triesMax: 5), now: now)
  }

  /// Asks for a linking code and uses it.
  @discardableResult
  func link(_ link: DeviceLink) async throws -> LinkOutcome {
    let pending = VerificationCode(code: Self.code, expires: now.adding(.seconds(600)))
    try await storage.setVerificationCode(pending, for: link.account, purpose: .linking)
    return try await storage.linkDevice(link, code: Self.code, triesMax: 5, now: now)
  }

  /// Links a device to account `index` that is active: it has a signed prekey, which the account's identity key signed,
  /// "identity" where it had none.
  func linkActive(_ index: Int, registrationID: Int32 = 9) async throws -> DeviceAddress {
    let link = try Sample.link(index, registrationID: registrationID)
    guard case .linked(let id) = try await self.link(link) else { throw Sample.Missing() }
    let device = DeviceAddress(link.account, id)
    let identity = try await storage.account(link.account)?.identityKey ?? "identity"
    let upload = Sample.upload(
      [], lastResort: nil, identity: identity, signed: Sample.signedKey(Int64(id.value)))
    guard try await storage.replacePreKeys(of: device, with: upload) == .stored else { throw Sample.Missing() }
    return device
  }

  /// Takes one prekey of each of `devices`, one-time keys too where `oneTime` does not say otherwise.
  func draw(
    from account: AccountNumber, _ devices: [DeviceID] = [.master], oneTime: [DeviceID]? = nil, epoch: Int64 = 0
  ) async throws -> [DrawnPreKey] {
    try await storage.drawPreKeys(of: account, devices: devices, oneTime: oneTime ?? devices, epoch: epoch)
  }

  /// Registers accounts `0..<count` and returns their numbers.
  @discardableResult
  func registerAccounts(_ count: Int) async throws -> [AccountNumber] {
    var numbers: [AccountNumber] = []
    for index in 0..<count {
      try await register(Sample.registration(index))
      numbers.append(try Sample.number(index))
    }
    return numbers
  }

  /// All that `mailbox` holds, read in pages of `page`.
  func mailbox(_ mailbox: DeviceAddress, page: Int = 100) async throws -> [QueuedEnvelope] {
    var all: [QueuedEnvelope] = []
    while true {
      let next = try await storage.pending(in: mailbox, after: all.last?.sequence ?? 0, limit: page)
      all += next
      if next.count < page { return all }
    }
  }
}
