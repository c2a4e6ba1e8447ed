import Foundation
import RelayCore
import TestTags
import Testing

/// Private values have no textual form by accident.
@Suite(.tags(.unit)) struct SensitiveTests {
  /// One value of each type of RelayCore that says it is sensitive, full of things that must not be seen.
  private static func samples() throws -> [any Sensitive] {
    let number = try #require(AccountNumber(e164: "+15557654321"))
    let address = DeviceAddress(number, .master)
    let token = try #require(ContactToken(bytes: Array(0x41..<0x4B)))
    let secret = Secret("needle")
    let bytes: [UInt8] = [110, 101, 101, 100, 108, 101]
    let key = PreKey(keyID: 77, publicKey: "needle")
    let signed = SignedPreKey(keyID: 77, publicKey: "needle", signature: "needle")
    let hash = PasswordHash(salt: bytes, hash: bytes)
    let device = Device(
      id: .master, password: hash, signalingKey: secret, registrationID: 1, fetchesMessages: true,
      pushIDs: PushIDs(fcm: secret), name: "needle", userAgent: "needle", lastSeen: Timestamp(millis: 0),
      created: Timestamp(millis: 0))
    let message = SubmittedMessage(type: .ciphertext, device: .master, registrationID: 1, body: bytes, content: bytes)
    let json = Array(#"{"signalingKey":"needle","name":"needle"}"#.utf8)
    var change = DeviceChange()
    change.name = .set("needle")
    return [
      number, address, token, secret, SecretBytes(bytes), hash, LimitKey(number, number, .all), key, signed, device,
      device.pushIDs, PushRegistration.fcm(secret),
      message, change, Fingerprint(high: 7_777_777, low: 7_777_777), try #require(AttachmentID(7_777_777)),
      try #require(ClientAddress(text: "203.0.113.77")),
      try #require(ProvisioningAddress(bytes: Array(0x41..<0x51))),
      try AccountAttributes.decode(json.span.bytes),
      Account(number: number, devices: [device], identityKey: "needle", supportsSMS: true, voice: true),
      PreKeyUpload(identityKey: "needle", oneTimeKeys: [key], lastResort: key, signedPreKey: signed),
      DrawnPreKey(device: .master, registrationID: 1, identityKey: "needle", preKey: key, signedPreKey: signed),
      Envelope(
        destination: address, type: .ciphertext, source: address, relay: nil, timestamp: Timestamp(millis: 1),
        message: bytes, content: bytes, fingerprint: Fingerprint(high: 7_777_777, low: 7_777_777)),
      try #require(RecipientNumber(7_777_777)), RecipientKey(provider: .fcm, text: "needle"),
      EventTarget(url: "https://needle.example", method: .post), NotificationText("needle"),
      DeviceNotification(text: NotificationText("needle"), collapseKey: "needle", packageName: "needle"),
      NotificationAddress("needle"), HandOverTag(bits: 7_777_777), CrossingMark(bits: 7_777_777),
      WebPushRegistration(endpoint: "https://needle.example", p256dh: "needle", auth: "needle"),
      OperatorToken(name: "needle", token: Secret("needle")),
    ]
  }

  @Test func `interpolated, dumped, or inside of something else, it shows its kind alone`() throws {
    struct Box { let inside: any Sensitive }
    for value in try Self.samples() {
      let kind = "<\(type(of: value).kind)>"
      #expect("\(value)" == kind)
      #expect(String(reflecting: value) == kind)
      var texts = "\([value]) \(["key": value]) \(Optional(value) as Any) \(Box(inside: value))"
      dump(value, to: &texts)
      dump([Box(inside: value)], to: &texts)
      for needle in ["needle", "15557654321", "7777777", "110, 101", "203.0", "203, 0", "QUJD"] {
        #expect(!texts.contains(needle), "\(type(of: value)) shows \(needle)")
      }
    }
  }

  @Test func `errors and refusals show nothing of what is behind them`() throws {
    let number = try #require(AccountNumber(e164: "+15557654321"))
    let message = SubmittedMessage(
      type: .ciphertext, device: .master, registrationID: 1, body: [110, 101, 101], content: nil)
    let submission = Submission(destination: number, messages: [message], timestamp: nil)
    let code = VerificationCode(code: Secret("123456"), expires: Timestamp(millis: 1))
    let texts =
      "\(submission) \(Origin.client(DeviceAddress(number, .master))) \(code) \(Signal.accountChanged(number))"
    for needle in ["15557654321", "110, 101", "123456"] { #expect(!texts.contains(needle)) }
  }

  @Test func `none is left out here`() throws {
    let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent().appending(path: "Sources/RelayCore")
    var declared: Set<String> = []
    for file in FileManager.default.enumerator(at: root, includingPropertiesForKeys: nil) ?? .init() {
      guard let url = file as? URL, url.pathExtension == "swift" else { continue }
      for line in try String(contentsOf: url, encoding: .utf8).split(separator: "\n") {
        guard let match = line.firstMatch(of: /(?:struct|enum|class|extension) (\w+):[^{]*\bSensitive\b/) else {
          continue
        }
        declared.insert(String(match.1))
      }
    }
    #expect(declared.count >= 20)
    #expect(Set(try Self.samples().map { "\(type(of: $0))" }) == declared)
  }
}
