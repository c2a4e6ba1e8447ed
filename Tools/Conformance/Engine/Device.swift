// Accounts, devices and keys as rules make them.

import Crypto
import RelayClient
import RelayCore

/// One device: what it proves itself with, and its account's identity.
struct Device: Sendable {
  var number: String
  var id = 1
  var password: String
  /// 0 is "not set".
  var registrationID: Int
  /// The same for all devices of an account.
  var identity: IdentityKeys
  /// 52 bytes in padded base64.
  var signalingKey: String

  /// Device 1 goes by its number alone, as the oldest clients did.
  var user: String { id == 1 ? number : "\(number).\(id)" }
  var authorization: String { Self.basic("\(user):\(password)") }
  static func basic(_ text: String) -> String { "Basic " + Base64.encode(Array(text.utf8), padded: true) }

  static func randomPassword() -> String { Base64.encode(randomBytes(16), padded: false) }
  static func randomSignalingKey() -> String { Base64.encode(randomBytes(52), padded: true) }
}

func randomBytes(_ count: Int) -> [UInt8] { (0..<count).map { _ in UInt8.random(in: .min ... .max) } }

/// The body of code verification (reference 1.4).
func attributes(
  registrationID: Int = 0, fetches: Bool = true, signalingKey: String = Device.randomSignalingKey()
) -> JSON {
  var attributes: [String: JSON] = ["signalingKey": .string(signalingKey)]
  if registrationID > 0 { attributes["registrationId"] = JSON(registrationID) }
  if fetches { attributes["fetchesMessages"] = true }
  return .object(attributes)
}

/// A public key as the wire carries it: 0x05 and a Curve25519 key, 44 characters.
func randomPublicKey() -> String {
  Base64.encode([5] + Curve25519.KeyAgreement.PrivateKey().publicKey.rawRepresentation, padded: false)
}

extension Session {
  /// A pending code for `number`, six digits.
  func code(for number: String) async throws -> String {
    let answer = try await get("/v1/accounts/dev/code/\(number)").expect(200)
    guard let code = sixDigits(of: answer.text) else {
      throw RuleFailure(expected: "a code ddd-ddd", got: "\(answer.body.count) other bytes", request: answer.request)
    }
    return code
  }

  /// The digits of `ddd-ddd`; nil for anything else.
  func sixDigits(of text: String) -> String? {
    let characters = Array(text)
    guard characters.count == 7, characters[3] == "-", characters[0] != "0" else { return nil }
    let digits = text.filter { $0 != "-" }
    return digits.utf8.count == 6 && digits.utf8.allSatisfy { $0 >= 0x30 && $0 <= 0x39 } ? digits : nil
  }

  /// Someone who has no account yet.
  func stranger(_ number: String? = nil, registrationID: Int = 0) throws -> Device {
    Device(
      number: number ?? numbers.draw(), password: Device.randomPassword(), registrationID: registrationID,
      identity: try IdentityKeys(), signalingKey: Device.randomSignalingKey())
  }

  /// A new account that fetches its messages. `number` is registered anew if it has one.
  /// - Parameters:
  ///   - password: nil draws one.
  ///   - extra: properties beside those of `attributes`.
  func register(
    _ number: String? = nil, registrationID: Int = 0, fetches: Bool = true, password: String? = nil,
    extra: [String: JSON] = [:]
  ) async throws -> Device {
    var device = try stranger(number, registrationID: registrationID)
    if let password { device.password = password }
    let body = attributes(
      registrationID: registrationID, fetches: fetches, signalingKey: device.signalingKey
    ).with(extra)
    try await confirm(try await code(for: device.number), body, as: device).expect(200)
    return device
  }

  func confirm(_ code: String, _ body: JSON = attributes(), as device: Device) async throws -> Answer {
    try await put("/v1/accounts/code/\(code)", body, as: device)
  }

  /// Links a device to `master`'s account. Active ones have a signed prekey (reference 3.1).
  func link(
    to master: Device, registrationID: Int = 0, isActive: Bool = true, extra: [String: JSON] = [:]
  ) async throws -> Device {
    var device = Device(
      number: master.number, password: Device.randomPassword(), registrationID: registrationID,
      identity: master.identity, signalingKey: Device.randomSignalingKey())
    let code = try await linkingCode(of: master)
    let json = try await put(
      "/v1/devices/\(code)",
      attributes(registrationID: registrationID, signalingKey: device.signalingKey).with(extra), as: device
    ).expectJSON()
    guard let id = json["deviceId"]?.integer, (2...1000).contains(id) else {
      throw RuleFailure(expected: "a deviceId of 2 or more", got: shown(json))
    }
    device.id = Int(id)
    if isActive { try await upload(KeySet(device.identity, oneTime: []), as: device) }
    return device
  }

  func linkingCode(of master: Device) async throws -> String {
    let json = try await get("/v1/devices/provisioning/code", as: master).expectJSON()
    guard let code = json["verificationCode"]?.string, code.utf8.count == 6 else {
      throw RuleFailure(expected: "a verificationCode of six digits", got: "something else")
    }
    return code
  }

  /// Uploads `keys` in the form of version 2.
  func upload(_ keys: KeySet, as device: Device) async throws {
    try await put("/v2/keys", try keys.version2(), as: device).expect(200)
  }

  /// Uploads `keys` in the form of version 1.
  func uploadV1(_ keys: KeySet, as device: Device) async throws {
    try await put("/v1/keys", keys.version1(), as: device).expect(200)
  }
}

/// The public keys that a device uploads at once; their texts are distinct.
struct KeySet: Sendable {
  let identity: IdentityKeys
  let oneTime: [(id: Int, key: String)]
  let lastResort: (id: Int, key: String)
  let signed: (id: Int, key: String)

  init(_ identity: IdentityKeys, oneTime ids: [Int], lastResort: Int = 0xFF_FFFF, signed: Int = 1) {
    self.identity = identity
    oneTime = ids.map { ($0, randomPublicKey()) }
    self.lastResort = (lastResort, randomPublicKey())
    self.signed = (signed, randomPublicKey())
  }

  /// The body of `PUT /v1/keys`.
  func version1() -> JSON {
    let key = { (entry: (id: Int, key: String)) -> JSON in
      ["keyId": JSON(entry.id), "publicKey": .string(entry.key), "identityKey": .string(identity.publicKey)]
    }
    return ["lastResortKey": key(lastResort), "keys": .array(oneTime.map(key))]
  }

  /// The body of `PUT /v2/keys`.
  func version2() throws -> JSON {
    [
      "identityKey": .string(identity.publicKey), "preKeys": .array(oneTime.map(Self.bare)),
      "lastResortKey": Self.bare(lastResort), "signedPreKey": try signedJSON(),
    ]
  }

  /// `{keyId, publicKey, signature}`.
  func signedJSON() throws -> JSON {
    Self.bare(signed).with(["signature": .string(try identity.signature(of: signed.key))])
  }

  static func bare(_ entry: (id: Int, key: String)) -> JSON {
    ["keyId": JSON(entry.id), "publicKey": .string(entry.key)]
  }
}
