import Crypto
import RelayCore
import TestTags
import Testing

@testable import RelayClient

/// The demo's end-to-end format keeps what its documentation promises.
@Suite(.tags(.unit)) struct SealedBoxTests {
  let keys = DeviceKeys(oneTimeKeyCount: 3)
  let sender: Correspondent
  let recipient: Correspondent

  init() throws {
    sender = Correspondent(try #require(PhoneNumber("+447700900001")))
    recipient = Correspondent(try #require(PhoneNumber("+447700900501")))
  }

  /// The prekey with `keyID` as a relay would hand it out.
  func drawn(_ keyID: Int64) throws -> RemotePreKey {
    let all = keys.bundle.oneTimeKeys + [keys.bundle.lastResort]
    return RemotePreKey(
      deviceID: recipient.deviceID, registrationID: 7, identityKey: keys.bundle.identityKey,
      preKey: try #require(all.first { $0.keyID == keyID }))
  }

  func seal(_ text: String, to keyID: Int64 = 1) throws -> [UInt8] {
    try SealedBox.seal(Array(text.utf8), to: try drawn(keyID), of: recipient.number, from: sender)
  }

  @Test(arguments: [0, 1, 16, 10_000])
  func `a sealed text is opened by the holder of the key`(length: Int) throws {
    let text = String(repeating: "x", count: length)
    let box = try seal(text)
    #expect(box.count == text.utf8.count + SealedBox.overheadBytes)
    #expect(try keys.open(box, from: sender, to: recipient) == Array(text.utf8))
  }

  @Test func `the layout is the documented one`() throws {
    let box = try seal("hello", to: 2)
    #expect(Array(box[0..<9]) == [1, 0, 0, 0, 0, 0, 0, 0, 2])
    #expect(box[9] == 5)
    #expect(SealedBox.overheadBytes == 1 + 8 + 33 + 16)
  }

  /// Opens a box by the docstring alone, without our code, so that the words and the bytes cannot drift apart.
  @Test func `a reader of the documentation can open a box`() throws {
    let privateKey = Curve25519.KeyAgreement.PrivateKey()
    let identity: [UInt8] = [5] + Array(Curve25519.KeyAgreement.PrivateKey().publicKey.rawRepresentation)
    let preKey: [UInt8] = [5] + Array(privateKey.publicKey.rawRepresentation)
    let key = RemotePreKey(
      deviceID: 3, registrationID: 0, identityKey: Base64.encode(identity, padded: false),
      preKey: PublicPreKey(keyID: 0x01_0203, publicKey: Base64.encode(preKey, padded: false)))
    let box = try SealedBox.seal(Array("by the book".utf8), to: key, of: recipient.number, from: sender)

    let ephemeral = Array(box[9..<42])
    let info =
      Array("relay sealed box 1".utf8) + [0, 0, 0, 0, 0, 1, 2, 3] + identity
      + [13] + Array("+447700900001".utf8) + [0, 0, 0, 1] + [13] + Array("+447700900501".utf8) + [0, 0, 0, 3]
    let shared = try privateKey.sharedSecretFromKeyAgreement(
      with: Curve25519.KeyAgreement.PublicKey(rawRepresentation: ephemeral.dropFirst()))
    let derived = shared.hkdfDerivedSymmetricKey(
      using: SHA256.self, salt: ephemeral + preKey, sharedInfo: info, outputByteCount: 44
    ).withUnsafeBytes { Array($0) }
    let sealed = try AES.GCM.SealedBox(
      nonce: AES.GCM.Nonce(data: derived.suffix(12)), ciphertext: box[42..<(box.count - 16)], tag: box.suffix(16))
    let plaintext = try AES.GCM.open(
      sealed, using: SymmetricKey(data: derived.prefix(32)), authenticating: box.prefix(42))
    #expect(String(decoding: plaintext, as: UTF8.self) == "by the book")
  }

  @Test func `a change of any byte is refused, and costs no key`() throws {
    let box = try seal("meet me at nine")
    for index in box.indices {
      var forged = box
      forged[index] ^= 0x01
      #expect(throws: SealedBoxError.self, "byte \(index)") { try keys.open(forged, from: sender, to: recipient) }
    }
    #expect(keys.unusedKeyCount == 3)
    #expect(try keys.open(box, from: sender, to: recipient) == Array("meet me at nine".utf8))
  }

  @Test func `a box cut short anywhere is refused`() throws {
    let box = try seal("meet me at nine")
    for count in 0..<box.count {
      #expect(throws: SealedBoxError.self, "\(count) bytes") {
        try keys.open(Array(box.prefix(count)), from: sender, to: recipient)
      }
    }
  }

  @Test func `a one-time key opens one box only`() throws {
    let first = try seal("first")
    let second = try seal("second")
    _ = try keys.open(first, from: sender, to: recipient)
    #expect(keys.unusedKeyCount == 2)
    #expect(throws: SealedBoxError.unknownKey) { try keys.open(first, from: sender, to: recipient) }
    #expect(throws: SealedBoxError.unknownKey) { try keys.open(second, from: sender, to: recipient) }
  }

  @Test func `the last resort opens any number`() throws {
    for text in ["one", "two"] {
      let box = try seal(text, to: DeviceKeys.lastResortID)
      #expect(try keys.open(box, from: sender, to: recipient) == Array(text.utf8))
    }
    #expect(keys.unusedKeyCount == 3)
  }

  @Test func `a key id that was never ours is unknown`() throws {
    var box = try seal("x")
    box[8] = 77
    #expect(throws: SealedBoxError.unknownKey) { try keys.open(box, from: sender, to: recipient) }
  }

  @Test func `a box is bound to sender and recipient`() throws {
    let box = try seal("x")
    let stranger = Correspondent(try #require(PhoneNumber("+447700900999")))
    let linked = Correspondent(sender.number, deviceID: 2)
    for forged in [stranger, linked] {
      #expect(throws: SealedBoxError.notAuthentic) { try keys.open(box, from: forged, to: recipient) }
      #expect(throws: SealedBoxError.notAuthentic) { try keys.open(box, from: sender, to: forged) }
    }
  }

  @Test func `another device's keys do not open it`() throws {
    let box = try seal("x")
    #expect(throws: SealedBoxError.notAuthentic) { try DeviceKeys().open(box, from: sender, to: recipient) }
  }

  @Test func `two boxes of one text share nothing`() throws {
    #expect(try seal("same").dropFirst(9) != seal("same").dropFirst(9))
  }

  @Test(arguments: ["", "BQ", Base64.encode([UInt8](repeating: 5, count: 32), padded: false), "not base64!"])
  func `a malformed public key is refused`(text: String) throws {
    let key = RemotePreKey(
      deviceID: 1, registrationID: 0, identityKey: keys.bundle.identityKey,
      preKey: PublicPreKey(keyID: 1, publicKey: text))
    #expect(throws: SealedBoxError.malformedKey) {
      try SealedBox.seal([1], to: key, of: recipient.number, from: sender)
    }
  }

  /// The secret with a point of small order is known to everybody.
  @Test func `a point of small order is refused`() throws {
    let key = RemotePreKey(
      deviceID: 1, registrationID: 0, identityKey: keys.bundle.identityKey,
      preKey: PublicPreKey(keyID: 1, publicKey: Base64.encode([5] + [UInt8](repeating: 0, count: 32), padded: false)))
    #expect(throws: SealedBoxError.malformedKey) {
      try SealedBox.seal([1], to: key, of: recipient.number, from: sender)
    }
  }

  @Test func `uploaded keys have the form of the wire`() {
    let bundle = DeviceKeys().bundle
    #expect(bundle.oneTimeKeys.count == 100)
    #expect(Set(bundle.oneTimeKeys.map(\.keyID)).count == 100)
    #expect(bundle.lastResort.keyID == 16_777_215)
    for text in bundle.oneTimeKeys.map(\.publicKey) + [bundle.identityKey, bundle.lastResort.publicKey] {
      #expect(text.utf8.count == 44)
      #expect(Base64.decode(text)?.first == 5)
    }
  }

  /// Published values (reference 5.1).
  @Test(arguments: [
    ("+14152222222", "BQVVHxMt5zAFXA"), ("+14150000000", "9p/8mrYemAhNrw"), ("+447100000001", "iRcjtzbuEDaI+w"),
  ])
  func `contact tokens match the published ones`(number: String, token: String) throws {
    #expect(ContactTokens.token(for: try #require(PhoneNumber(number))) == token)
  }

  @Test func `credentials and numbers do not show themselves`() {
    let credentials = Credentials(sender, password: "hunter2")
    for text in ["\(credentials)", String(reflecting: credentials), "\(sender)", String(reflecting: sender)] {
      #expect(!text.contains("hunter2") && !text.contains("7700900001"))
    }
  }
}
