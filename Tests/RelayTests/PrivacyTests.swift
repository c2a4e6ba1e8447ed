import ChildProcesses
import Foundation
import RelayClient
import TestSupport
import TestTags
import Testing

@Suite(.tags(.processes)) struct PrivacyTests {
  @Test(arguments: ["text", "json"])
  func `nothing that is private reaches the log or the metrics, at the finest level`(format: String) async throws {
    let secrets = Secrets()
    let settings = [
      "RELAY_LOG_LEVEL": "trace", "RELAY_LOG_FORMAT": format, "RELAY_CLIENT_TRUSTED_PROXIES": "127.0.0.1",
      "RELAY_STORAGE_ENCRYPTION_KEY": secrets.keep("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", "encryption key"),
      "RELAY_VERIFICATION_TOKEN_KEY": secrets.keep("6e6565646c652d6e6565646c652d6e65", "token key"),
    ]
    try await RelayOperator.with(settings: RelayUnderTest.unlimited.merging(settings) { $1 }) { site in
      let relay = try await site.serve()
      let tour = try await Tour(of: relay, keeping: secrets)
      try await tour.registration()
      try await tour.account()
      try await tour.keys()
      try await tour.messages()
      try await tour.directory()
      try await tour.attachments()
      try await tour.devices()
      try await tour.mistakes()

      let metrics = try await relay.ask("/metrics").text
      #expect(await relay.terminate() == .code(0))
      let log = relay.log()
      #expect(log.utf8.count > 500, "it says nothing at all")
      #expect(secrets.all.count > 40)
      for (what, secret) in secrets.all {
        // Numbers without their `+` too, however they were split off.
        let text = secret.drop { $0 == "+" }
        #expect(!log.contains(text), "the log shows the \(what): \(Self.line(of: text, in: log))")
        #expect(!metrics.contains(text), "metrics show the \(what): \(Self.line(of: text, in: metrics))")
      }
    }
  }

  private static func line(of text: Substring, in log: String) -> Substring {
    log.split(separator: "\n").first { $0.contains(text) } ?? ""
  }
}

/// Everything that must not be seen, and what it is.
private final class Secrets: Sendable {
  private let ledger = Ledger<[String]>()

  func keep(_ text: String, _ what: String) -> String {
    ledger.add([what, text])
    return text
  }
  var all: [(what: String, text: String)] { ledger.all.map { ($0[0], $0[1]) } }
}

/// A walk through the whole API, and through what goes wrong in it.
private struct Tour {
  let relay: RelayProcess
  let secrets: Secrets
  let sender: TestDevice
  let recipient: TestDevice
  let identity: IdentityKeys

  init(of relay: RelayProcess, keeping secrets: Secrets) async throws {
    self.relay = relay
    self.secrets = secrets
    identity = try IdentityKeys()
    sender = try await relay.register(secrets.keep("+15557654321", "sender's number"))
    recipient = TestDevice(
      number: secrets.keep("+15551234567", "recipient's number"),
      password: secrets.keep("needle-password", "recipient's password"))
    for device in [sender, recipient] { keepHeader(of: device) }
    _ = secrets.keep(sender.password, "sender's password")
  }

  private func keepHeader(of device: TestDevice) {
    _ = secrets.keep(String(device.authorization.dropFirst("Basic ".count)), "credentials of \(device.device)")
  }

  /// Sends it from an address that must not be seen either.
  @discardableResult
  private func ask(
    _ method: String, _ path: String, json: String? = nil, as device: TestDevice? = nil, expecting status: Int? = 200,
    at location: SourceLocation = #_sourceLocation
  ) async throws -> Answer {
    let answer = try await relay.send(
      method, path, json: json, as: device,
      headers: [("X-Forwarded-For", "203.0.113.77"), ("X-Signal-Agent", "needle-agent")])
    if let status { #expect(answer.status == status, "\(method) \(path): \(answer.text)", sourceLocation: location) }
    return answer
  }

  /// Six digits alone may be part of a time or a measure: a code is known by the slash or the hyphen.
  private func keepCode(_ text: String, _ what: String) -> String {
    let digits = text.filter(\.isNumber)
    _ = secrets.keep("/\(digits)", what + " in a path")
    _ = secrets.keep("\(digits.prefix(3))-\(digits.suffix(3))", what)
    return digits
  }

  func registration() async throws {
    _ = secrets.keep("203.0.113.77", "client's address")
    _ = secrets.keep("needle-agent", "agent")
    let code = keepCode(try await relay.code(for: recipient.number), "code")
    let signalingKey = secrets.keep("bmVlZGxlLXNpZ25hbGluZy1rZXk", "signaling key")
    let pin = secrets.keep("needle-pin", "pin")
    let name = secrets.keep("needle-name", "device's name")
    let attributes =
      #"{"signalingKey":"\#(signalingKey)","fetchesMessages":true,"pin":"\#(pin)","name":"\#(name)"}"#
    try await ask("PUT", "/v1/accounts/code/000000", json: attributes, as: recipient, expecting: 403)
    try await ask("PUT", "/v1/accounts/code/\(code)", json: attributes, as: recipient)
    // Again, with the lock in the way.
    let second = keepCode(try await relay.code(for: recipient.number), "second code")
    let wrong = attributes.replacing(pin, with: secrets.keep("needle-wrong-pin", "wrong pin"))
    try await ask("PUT", "/v1/accounts/code/\(second)", json: wrong, as: recipient, expecting: 403)
    try await ask("PUT", "/v1/acccounts/code/\(second)", json: attributes, as: recipient)
    let answer = try await ask("GET", "/v1/accounts/token", as: recipient)
    let token = secrets.keep(try #require(answer.object["token"] as? String), "number token")
    _ = secrets.keep(String(token.suffix(20)), "number token's proof")
    try await ask("PUT", "/v1/accounts/token/\(token)", json: attributes, as: recipient)
    try await ask("PUT", "/v1/accounts/token/\(token)x", json: attributes, as: recipient, expecting: 403)
    let spoken = keepCode("734-912", "spoken code")
    try await ask("POST", "/v1/accounts/voice/twiml/\(spoken)")
  }

  func account() async throws {
    let gcm = secrets.keep("needle-gcm-id", "GCM id")
    let apn = secrets.keep("needle-apn-id", "APN id")
    let voip = secrets.keep("needle-voip-id", "VoIP id")
    try await ask("PUT", "/v1/accounts/gcm", json: #"{"gcmRegistrationId":"\#(gcm)"}"#, as: sender)
    try await ask("DELETE", "/v1/accounts/gcm", as: sender)
    let ids = #"{"apnRegistrationId":"\#(apn)","voipRegistrationId":"\#(voip)"}"#
    try await ask("PUT", "/v1/accounts/apn", json: ids, as: sender)
    try await ask("DELETE", "/v1/accounts/apn", as: sender)
    for method in ["DELETE", "PUT"] { try await ask(method, "/v1/accounts/wsc", as: sender) }
    let key = secrets.keep("bmVlZGxlLXNlY29uZC1rZXk", "second signaling key")
    let attributes = #"{"signalingKey":"\#(key)","fetchesMessages":true,"name":"needle-name"}"#
    try await ask("PUT", "/v1/accounts/attributes", json: attributes, as: sender)
    let pin = secrets.keep("needle-second-pin", "second pin")
    try await ask("PUT", "/v1/accounts/pin", json: #"{"pin":"\#(pin)"}"#, as: sender)
    try await ask("DELETE", "/v1/accounts/pin", as: sender)
  }

  func keys() async throws {
    let key = secrets.keep("needle-public-key", "prekey")
    let one = #"{"keyId":1,"publicKey":"\#(key)","identityKey":"\#(secrets.keep("needle-identity", "identity key"))"}"#
    try await ask("PUT", "/v1/keys", json: #"{"lastResortKey":\#(one),"keys":[\#(one)]}"#, as: recipient)
    let identityKey = secrets.keep(identity.publicKey, "second identity key")
    let second = secrets.keep(try IdentityKeys().publicKey, "signed prekey")
    let signature = secrets.keep(try identity.signature(of: second), "signature")
    let signedKey = #"{"keyId":5,"publicKey":"\#(second)","signature":"\#(signature)"}"#
    let bare = #"{"keyId":2,"publicKey":"\#(key)"}"#
    let all =
      #"{"identityKey":"\#(identityKey)","preKeys":[\#(bare)],"lastResortKey":\#(bare),"signedPreKey":\#(signedKey)}"#
    try await ask("PUT", "/v2/keys", json: all, as: recipient)
    try await ask("PUT", "/v2/keys", json: all.replacing(signature, with: "AAAA"), as: recipient, expecting: 415)
    try await ask("PUT", "/v2/keys/signed", json: signedKey, as: recipient)
    try await ask("GET", "/v2/keys/signed", as: recipient)
    for path in ["/v1/keys", "/v2/keys"] { try await ask("GET", path, as: recipient) }
    for path in ["/v1/keys/\(recipient.number)", "/v1/keys/\(recipient.number)/*", "/v2/keys/\(recipient.number)/1"] {
      try await ask("GET", path, as: sender)
    }
    try await ask("GET", "/v2/keys/\(recipient.number)/x", as: sender, expecting: 422)
    try await ask("GET", "/v2/keys/\(recipient.number)/1?relay=nowhere", as: sender, expecting: 404)
  }

  func messages() async throws {
    let body = secrets.keep(Data("needle-in-the-message".utf8).base64EncodedString(), "message")
    _ = secrets.keep("needle-in-the-message", "message's text")
    let path = "/v1/messages/\(recipient.number)"
    try await ask("PUT", path, json: bundle(message(body), timestamp: 5), as: sender)
    let old = #"{"messages":[{"type":1,"destination":"\#(recipient.number)","body":"\#(body)"}]}"#
    try await ask("POST", "/v1/messages", json: old, as: sender)
    try await ask("POST", "/v1/messages", json: old.replacing(recipient.number, with: "+15550009999"), as: sender)
    #expect(try await relay.mailbox(of: recipient).count == 2)
    for (json, status) in [
      ("{\"\(body)\"", 415), (bundle(message(body, device: 7)), 409), (bundle(message(body, registrationID: 7)), 410),
      (bundle(message(body, type: 5)), 415),
    ] {
      try await ask("PUT", path, json: json, as: sender, expecting: status)
    }
    try await ask("PUT", "/v1/receipt/\(sender.number)/5", as: recipient)
    try await ask("PUT", "/v1/receipt/\(sender.number)/6", as: recipient, expecting: 404)
    try await ask("DELETE", "/v1/messages/\(sender.number)/5", as: recipient)
  }

  func directory() async throws {
    let token = secrets.keep(try TestTokens.token(of: recipient.number), "token")
    for path in [token, try TestTokens.urlSafe(recipient.number), "AAAA"] {
      try await ask("GET", "/v1/directory/\(path)", as: sender, expecting: path == "AAAA" ? 404 : 200)
    }
    for resource in ["tokens", "changes"] {
      try await ask("PUT", "/v1/directory/\(resource)", json: #"{"contacts":["\#(token)"]}"#, as: sender)
    }
  }

  func attachments() async throws {
    let created = try await ask("GET", "/v1/attachments", as: sender)
    let id = secrets.keep(try #require(created.object["idString"] as? String), "attachment's id")
    let upload = try path(of: try #require(created.object["location"] as? String))
    let blob = secrets.keep("needle-in-the-blob", "blob")
    let uploaded = try await relay.send(
      "PUT", upload, json: blob, headers: [("Content-Type", "application/octet-stream")])
    #expect(uploaded.status == 200, "\(uploaded.text)")
    let located = try await ask("GET", "/v1/attachments/\(id)", as: recipient)
    let download = try path(of: try #require(located.object["location"] as? String))
    #expect(try await relay.send("GET", download).text == blob)
    try await ask("GET", String(download.dropLast(4)) + "AAAA", expecting: 403)
  }

  /// Its query holds the signature.
  private func path(of location: String) throws -> String {
    let url = try #require(URL(string: location))
    for part in try #require(url.query).split(separator: "&") {
      let value = part.split(separator: "=").last.map(String.init) ?? ""
      if value.utf8.count > 12 { _ = secrets.keep(value, "signature of a URL") }
    }
    return url.path + "?" + (url.query ?? "")
  }

  func devices() async throws {
    let answer = try await ask("GET", "/v1/devices/provisioning/code", as: sender)
    let code = keepCode(try #require(answer.object["verificationCode"] as? String), "linking code")
    let made = TestDevice(number: sender.number, password: secrets.keep("needle-linked", "linked device's password"))
    let attributes = #"{"signalingKey":"bmVlZGxlLXNlY29uZC1rZXk","name":"needle-name"}"#
    try await ask("PUT", "/v1/devices/000000", json: attributes, as: made, expecting: 403)
    try await ask("PUT", "/v1/devices/\(code)", json: attributes, as: made)
    let linked = TestDevice(number: made.number, password: made.password, device: 2)
    keepHeader(of: linked)
    try await ask("GET", "/v1/devices", as: linked)
    try await ask("DELETE", "/v1/devices/2", as: sender)
    try await ask("GET", "/v1/devices", as: linked, expecting: 401)
  }

  func mistakes() async throws {
    let liar = TestDevice(number: recipient.number, password: secrets.keep("needle-wrong", "wrong password"))
    keepHeader(of: liar)
    try await ask("GET", "/v1/keys", as: liar, expecting: 401)
    try await ask("BREW", "/v1/keys/\(recipient.number)", as: sender, expecting: nil)
    let query = secrets.keep("needle-query", "query")
    try await ask("GET", "/v1/nothing/\(recipient.number)?password=\(query)", as: sender, expecting: 404)
    try await ask("GET", "/v1/attachments/blobs/1?signature=\(query)", expecting: nil)
    let path = secrets.keep("needle-path", "path")
    try await ask("GET", "/v1/accounts/sms/code/\(path)", expecting: 400)
    try await ask("GET", "/v1/accounts/\(path)/code/+15550001111", expecting: 415)
  }
}
