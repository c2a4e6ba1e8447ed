import Foundation
import RelayClient
import TestSupport
import TestTags
import Testing

/// The requests of the clients of the first years (reference Part 4).
@Suite(.tags(.processes), .ownRelay) struct OldClientsTests {
  let relay: RelayProcess

  init() throws { relay = try suiteRelay().relay }

  private static let signalingKey = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMw=="

  /// Java's default `Accept`, and a type on requests without a body as well.
  private static let java = [
    ("Content-Type", "application/json"), ("Accept", "text/html, image/gif, image/jpeg, *; q=.2"),
  ]

  private func ask(_ method: String, _ path: String, _ json: String? = nil, as device: TestDevice) async throws
    -> Answer
  {
    try await relay.send(method, path, json: json, as: device, headers: Self.java)
  }

  /// Verifies with `body`, and expects exactly 200, as the oldest client did.
  private func register(_ body: String, registrationID: Int = 0) async throws -> TestDevice {
    let device = TestDevice(
      number: TestDevice.freshNumber(), password: "pZNrOTTP3xwdVKQC7/iUkw", registrationID: registrationID)
    let code = try await relay.code(for: device.number)
    #expect(try await ask("PUT", "/v1/accounts/code/\(code)", body, as: device).status == 200)
    return device
  }

  private func keys(_ identity: String, count: Int = 100) throws -> String {
    let key = { (id: Int) in
      #"{"keyId":\#(id),"publicKey":"\#(try IdentityKeys().publicKey)","identityKey":"\#(identity)"}"#
    }
    return #"{"lastResortKey":\#(try key(16_777_215)),"keys":[\#(try (1...count).map(key).joined(separator: ","))]}"#
  }

  @Test func `Android 2013: one device, POST, and nothing but 200`() async throws {
    let (sender, recipient) = (
      try await register(#"{"signalingKey":"\#(Self.signalingKey)"}"#),
      try await register(#"{"signalingKey":"\#(Self.signalingKey)"}"#)
    )
    for device in [sender, recipient] {
      let id = #"{"gcmRegistrationId":"APA91b\#(device.number.dropFirst())"}"#
      #expect(try await ask("PUT", "/v1/accounts/gcm/", id, as: device).status == 200)
      #expect(try await ask("PUT", "/v1/keys/", try keys(try IdentityKeys().publicKey), as: device).status == 200)
    }
    // Raw standard base64 in the path: 404 means unknown.
    let token = try TestTokens.token(of: recipient.number)
    #expect(try await ask("GET", "/v1/directory/\(token)", as: sender).status == 200)
    let unknown = try TestTokens.token(of: TestDevice.freshNumber())
    #expect(try await ask("GET", "/v1/directory/\(unknown)", as: sender).status == 404)

    let drawn = try await ask("GET", "/v1/keys/\(recipient.number)", as: sender)
    #expect(drawn.status == 200 && drawn.object["keyId"] as? Int == 1)
    let missing = TestDevice.freshNumber()
    let bundle =
      #"""
      {"messages":[{"type":3,"destination":"\#(recipient.number)","body":"Zm9vYmFyego="},{"type":3,\#
      "destination":"\#(missing)","body":"Zm9v"}]}
      """#
    let sent = try await ask("POST", "/v1/messages/", bundle, as: sender)
    #expect(sent.status == 200)
    #expect(sent.object["success"] as? [String] == [recipient.number])
    #expect(sent.object["failure"] as? [String] == [missing])

    let slot = try await ask("GET", "/v1/attachments/", as: sender)
    let location = try #require(slot.object["location"] as? String)
    let path = String(location.dropFirst(relay.url.count))
    let octets = [("Content-Type", "application/octet-stream")]
    #expect(try await relay.send("PUT", path, json: "blob", headers: octets).status == 200)
  }

  @Test func `Android 2014: devices, PUT, prekeys of all devices and of one`() async throws {
    let body = { (id: Int) in #"{"signalingKey":"\#(Self.signalingKey)","supportsSms":true,"registrationId":\#(id)}"# }
    let (sender, recipient) = (
      try await register(body(11), registrationID: 11), try await register(body(22), registrationID: 22)
    )
    for device in [sender, recipient] {
      #expect(try await ask("PUT", "/v1/accounts/gcm/", #"{"gcmRegistrationId":"g"}"#, as: device).status == 200)
      let (identity, signed) = (try IdentityKeys(), try IdentityKeys().publicKey)
      let upload =
        #"""
        {"identityKey":"\#(identity.publicKey)","preKeys":[{"keyId":1,"publicKey":"\#(signed)"}],\#
        "lastResortKey":{"keyId":16777215,"publicKey":"\#(signed)"},"signedPreKey":{"keyId":9,\#
        "publicKey":"\#(signed)","signature":"\#(try identity.signature(of: signed))"}}
        """#
      #expect(try await ask("PUT", "/v2/keys/", upload, as: device).status == 200)
    }
    let entry = try await ask("GET", "/v1/directory/\(try TestTokens.urlSafe(recipient.number))", as: sender)
    #expect(entry.object["supportsSms"] as? Bool == true && entry.object["relay"] == nil)
    for selector in ["*", "1"] {
      let drawn = try await ask("GET", "/v2/keys/\(recipient.number)/\(selector)", as: sender)
      #expect(drawn.list("devices").compactMap { $0["registrationId"] as? Int } == [22])
    }
    let bundle = { (id: Int) in
      #"""
      {"destination":"\#(recipient.number)","relay":null,"messages":[{"type":3,\#
      "destination":"\#(recipient.number)","destinationDeviceId":1,"destinationRegistrationId":\#(id),\#
      "body":"Zm9vYg==","relay":null,"timestamp":0}],"timestamp":1400000000000}
      """#
    }
    let stale = try await ask("PUT", "/v1/messages/\(recipient.number)", bundle(21), as: sender)
    #expect(stale.status == 410 && stale.text == #"{"staleDevices":[1]}"#)
    let sent = try await ask("PUT", "/v1/messages/\(recipient.number)", bundle(22), as: sender)
    #expect(sent.status == 200 || sent.status == 204)
    let receipt = try await relay.send(
      "PUT", "/v1/receipt/\(sender.number)/1400000000000", as: recipient, headers: [("Content-Length", "0")])
    #expect(receipt.status == 200)
    #expect(try await relay.mailbox(of: sender).map { Shown($0).type } == [5])
  }

  @Test func `iOS 2014: a signaling key alone, an APN id, POST with times in seconds`() async throws {
    let (sender, recipient) = (
      try await register(#"{"signalingKey":"\#(Self.signalingKey)"}"#),
      try await register(#"{"signalingKey":"\#(Self.signalingKey)"}"#)
    )
    for device in [sender, recipient] {
      #expect(try await ask("PUT", "/v1/accounts/apn/", #"{"apnRegistrationId":"ab12"}"#, as: device).status == 200)
      #expect(
        try await ask("PUT", "/v1/keys/", try keys(try IdentityKeys().publicKey, count: 5), as: device).status == 200)
    }
    let drawn = try await ask("GET", "/v1/keys/\(recipient.number)/*", as: sender)
    #expect(drawn.list("keys").compactMap { $0["keyId"] as? Int } == [1])
    let bundle =
      #"""
      {"messages":[{"type":1,"destination":"\#(recipient.number)","destinationDeviceId":1,"body":"Zm9v",\#
      "timestamp":1400000000}]}
      """#
    let sent = try await ask("POST", "/v1/messages/", bundle, as: sender)
    #expect(sent.status == 200 && sent.object["failure"] as? [String] == [])
    #expect(try await relay.mailbox(of: recipient).map { Shown($0).message } == ["Zm9v"])
  }
}
