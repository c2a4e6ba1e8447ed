import Foundation
import RelayClient
import TestSupport
import TestTags
import Testing

/// The examined clients' requests to a server, one by one (reference Part 4 and 4.1).
@Suite(.tags(.processes), .ownRelay) struct ClientSequencesTests {
  let relay: RelayProcess

  init() throws { relay = try suiteRelay().relay }

  func ask(
    _ method: String, _ path: String, _ json: String? = nil, _ headers: [(String, String)]
  ) async throws -> Answer {
    try await relay.send(method, path, json: json, headers: headers)
  }

  /// The code that the last text message would have brought.
  private func lastLoggedCode(after count: Int) async throws -> String {
    try await eventually("the code is logged") {
      let codes = loggedCodes()
      return codes.count > count ? codes.last : nil
    }
  }
  private func loggedCodes() -> [String] {
    relay.log().matches(of: #/verification code (\d{3})-(\d{3})/#).map { String($0.1 + $0.2) }
  }

  // MARK: The Go client

  /// As the Go client writes JSON and headers: pretty-printed, Basic with padding, the number alone.
  struct GoClient {
    let number: String
    let registrationID: Int
    let password: String
    let identity: IdentityKeys
    let keys: [String]
    let lastResort: String
    let signed: String

    init(_ number: String, registrationID: Int, password: String) throws {
      (self.number, self.registrationID, self.password) = (number, registrationID, password)
      identity = try IdentityKeys()
      keys = try (0..<100).map { _ in try IdentityKeys().publicKey }
      (lastResort, signed) = (try IdentityKeys().publicKey, try IdentityKeys().publicKey)
    }

    var basic: (String, String) { ("Authorization", TestDevice.basic("\(number):\(password)")) }

    func upload() throws -> String {
      let preKeys = keys.enumerated().map { offset, key in
        "    {\n      \"keyId\": \(16_777_200 + offset),\n      \"publicKey\": \"\(key)\"\n    }"
      }
      return """
        {
          "preKeys": [
        \(preKeys.joined(separator: ",\n"))
          ],
          "lastResortKey": {
            "keyId": 16777215,
            "publicKey": "\(lastResort)"
          },
          "signedPreKey": {
            "keyId": 4321,
            "publicKey": "\(signed)",
            "signature": "\(try identity.signature(of: signed))"
          },
          "identityKey": "\(identity.publicKey)"
        }
        """
    }
  }

  func register(_ client: GoClient) async throws {
    // It sends its future credentials along, and ignores the status.
    let code = try await ask("GET", "/v1/accounts/dev/code/\(client.number)", nil, [client.basic])
    #expect(code.status == 200 && code.body.count == 7)
    let body = """
      {
        "signalingKey": "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMw==",
        "registrationId": \(client.registrationID),
        "fetchesMessages": true
      }
      """
    let digits = code.text.filter { $0 != "-" }
    #expect(try await ask("PUT", "/v1/accounts/code/\(digits)", body, [client.basic]).status == 200)
    #expect(try await ask("PUT", "/v2/keys/", try client.upload(), [client.basic]).status == 200)
  }

  @Test func `Go: first start, then a message, its reply, an attachment`() async throws {
    let one = try GoClient("+17711110001", registrationID: 101, password: "pZNrOTTP3xwdVKQC7/iUkw")
    let two = try GoClient("+17711110002", registrationID: 202, password: "MkMreWFh4f6FmHkxWl0nHg")
    try await register(one)
    try await register(two)

    // Its contacts: it looks the answer's tokens up among those that it asked for.
    let tokens = try [two.number, "+17711110003"].map { try TestTokens.token(of: $0) }
    let contacts = try await ask(
      "PUT", "/v1/directory/tokens", #"{"contacts": ["\#(tokens[0])", "\#(tokens[1])"]}"#, [one.basic])
    #expect(contacts.status == 200)
    #expect(contacts.list("contacts").compactMap { $0["token"] as? String } == [tokens[0]])

    // Exactly one device, and nothing null.
    let drawn = try await ask("GET", "/v2/keys/\(two.number)/1", nil, [one.basic])
    #expect(drawn.status == 200 && drawn.list("devices").count == 1 && !drawn.text.contains("null"))
    #expect(drawn.object["identityKey"] as? String == two.identity.publicKey)
    let device = try #require(drawn.list("devices").first)
    #expect(device["deviceId"] as? Int == 1 && device["registrationId"] as? Int == 202)
    let preKey = try #require(device["preKey"] as? [String: Any])
    #expect(preKey["keyId"] as? Int == 16_777_200 && preKey["publicKey"] as? String == two.keys[0])

    // Type 3 until it has had a reply; padded body, empty content, its own destination.
    let first = try await ask(
      "PUT", "/v1/messages/\(two.number)",
      """
      {
        "messages": [
          {
            "type": 3,
            "destinationDeviceId": 1,
            "destinationRegistrationId": 202,
            "body": "Zm9vYmFyego=",
            "content": "",
            "relay": ""
          }
        ],
        "timestamp": 1447500000000,
        "relay": "",
        "destination": "\(two.number)"
      }
      """, [one.basic])
    #expect(first.status == 200 && first.text == #"{"needsSync":false}"#)
    let mail = try await ask("GET", "/v1/messages/", nil, [two.basic]).list("messages").map(Shown.init)
    #expect(mail.map(\.type) == [3] && mail.map(\.message) == ["Zm9vYmFyego="] && mail.map(\.content) == [nil])
    #expect(mail.map(\.source) == [one.number] && mail.map(\.timestamp) == [1_447_500_000_000])
    let receipt = try await ask("DELETE", "/v1/messages/\(one.number)/1447500000000", nil, [two.basic])
    #expect(receipt.status == 200 || receipt.status == 204)
    let reply =
      #"""
      {"messages":[{"type":1,"destinationDeviceId":1,"destinationRegistrationId":101,"body":"YmFy",\#
      "content":""}],"timestamp":1447500000001,"destination":"\#(one.number)"}
      """#
    #expect(try await ask("PUT", "/v1/messages/\(one.number)", reply, [two.basic]).status == 200)
    let answers = try await ask("GET", "/v1/messages/", nil, [one.basic]).list("messages").map(Shown.init)
    #expect(answers.map(\.type) == [5, 1])

    try await exchangeAttachment(from: one, to: two)
  }

  /// No `Authorization` at the location, a type on the download as well, exactly 200 both ways.
  private func exchangeAttachment(from one: GoClient, to two: GoClient) async throws {
    let slot = try await ask("GET", "/v1/attachments/", nil, [one.basic])
    let id = try #require((slot.object["id"] as? NSNumber)?.int64Value)
    let location = try #require(slot.object["location"] as? String)
    let octets = [("Content-Type", "application/octet-stream")]
    #expect(location.hasPrefix(relay.url))
    let upload = try await ask("PUT", String(location.dropFirst(relay.url.count)), "an encrypted blob", octets)
    #expect(upload.status == 200)
    let found = try await ask("GET", "/v1/attachments/\(id)", nil, [two.basic])
    let place = try #require(found.object["location"] as? String)
    let download = try await ask("GET", String(place.dropFirst(relay.url.count)), nil, octets)
    #expect(download.status == 200 && download.text == "an encrypted blob")
  }

  @Test func `Go: its own other devices, by way of a 409`() async throws {
    let client = try GoClient("+17711110011", registrationID: 1, password: "4uE8V2i05ATbQaRpUMivgA")
    try await register(client)
    let own =
      #"{"messages":[{"type":1,"destinationDeviceId":1,"destinationRegistrationId":1,"body":"YmFy"}],"timestamp":1}"#
    let refused = try await ask("PUT", "/v1/messages/\(client.number)", own, [client.basic])
    #expect(refused.status == 409 && refused.text == #"{"missingDevices":[],"extraDevices":[1]}"#)
    let adapted = #"{"messages":[],"timestamp":1}"#
    let accepted = try await ask("PUT", "/v1/messages/\(client.number)", adapted, [client.basic])
    #expect(accepted.status == 200 && accepted.text == #"{"needsSync":false}"#)
    let devices = try await ask("GET", "/v1/devices/", nil, [client.basic])
    #expect(devices.list("devices").compactMap { $0["id"] as? Int } == [1])
    #expect(try await ask("DELETE", "/v1/devices/5", nil, [client.basic]).status == 200)
  }

  // MARK: The JavaScript client

  /// Basic without padding; `number` at verification, `number.1` from then on.
  struct BrowserClient {
    let number: String
    let password: String

    func headers(_ user: String) -> [(String, String)] {
      [
        ("Authorization", TestDevice.basic("\(user):\(password)").filter { $0 != "=" }),
        ("Content-Type", "application/json;charset=utf-8"), ("Accept", "application/json, text/plain, */*"),
      ]
    }
    var new: [(String, String)] { headers(number) }
    var known: [(String, String)] { headers("\(number).1") }
  }

  private func register(_ client: BrowserClient, registrationID: Int) async throws {
    let before = loggedCodes().count
    let asked = try await ask(
      "GET", "/v1/accounts/sms/code/\(client.number)", nil, [("Accept", "application/json, text/plain, */*")])
    #expect(asked.status == 200 && asked.body.isEmpty)
    try await verify(client, code: try await lastLoggedCode(after: before), registrationID: registrationID)
  }

  func verify(_ client: BrowserClient, code: String, registrationID: Int) async throws {
    let body =
      #"""
      {"signalingKey":"AwoRGB8mLTQ7QklQV15lbHN6gYiPlp2kq7K5wMfO1dzj6vH4/wYNFBsiKTA3PkVMU1phaA==",\#
      "supportsSms":false,"fetchesMessages":true,"registrationId":\#(registrationID)}
      """#
    #expect(try await ask("PUT", "/v1/accounts/code/\(code)", body, client.new).status == 200)
    // Keys are numbered from 0, the signed one as well.
    let identity = try IdentityKeys()
    let signed = try IdentityKeys().publicKey
    let keys = try (0..<100).map { #"{"keyId":\#($0),"publicKey":"\#(try IdentityKeys().publicKey)"}"# }
    let upload =
      #"""
      {"preKeys":[\#(keys.joined(separator: ","))],"signedPreKey":{"keyId":0,"publicKey":"\#(signed)",\#
      "signature":"\#(try identity.signature(of: signed))"},"identityKey":"\#(identity.publicKey)",\#
      "lastResortKey":{"keyId":16777215,"publicKey":"\#(try IdentityKeys().publicKey)"}}
      """#
    #expect(try await ask("PUT", "/v2/keys", upload, client.known).status == 200)
    #expect(try await ask("GET", "/v2/keys", nil, client.known).text == #"{"count":100}"#)
  }

  @Test func `JavaScript: registration by text message, then a message whose own time comes back`() async throws {
    let one = BrowserClient(number: "+447100000001", password: "4uE8V2i05ATbQaRpUMivgA")
    let two = BrowserClient(number: "+447100000002", password: "MkMreWFh4f6FmHkxWl0nHg")
    try await register(one, registrationID: 11)
    try await register(two, registrationID: 22)
    let drawn = try await ask("GET", "/v2/keys/\(two.number)/*", nil, one.known)
    let device = try #require(drawn.list("devices").first)
    #expect(drawn.status == 200 && !drawn.text.contains("null"))
    #expect((device["preKey"] as? [String: Any])?["keyId"] as? Int == 0)
    #expect((device["signedPreKey"] as? [String: Any])?["keyId"] as? Int == 0)
    let bundle =
      #"""
      {"messages":[{"type":3,"destinationDeviceId":1,"destinationRegistrationId":22,"body":"Zm9v",\#
      "timestamp":1447500000123}]}
      """#
    let sent = try await ask("PUT", "/v1/messages/\(two.number)", bundle, one.known)
    #expect(sent.status == 200 || sent.status == 204)
    let mail = try await ask("GET", "/v1/messages", nil, two.known).list("messages").map(Shown.init)
    #expect(mail.map(\.timestamp) == [1_447_500_000_123] && mail.map(\.sourceDevice) == [1])
    #expect(try await ask("DELETE", "/v1/messages/\(one.number)/1447500000123", nil, two.known).status == 200)
    let receipts = try await ask("GET", "/v1/messages", nil, one.known).list("messages").map(Shown.init)
    #expect(receipts.map(\.type) == [5] && receipts.map(\.timestamp) == [1_447_500_000_123])
  }

  @Test func `JavaScript: what it retries at once leads to the same end five times`() async throws {
    let client = BrowserClient(number: "+447100000011", password: "x")
    // No text message: the log must show one test's codes alone.
    try await verify(client, code: try await relay.code(for: client.number), registrationID: 1)
    for _ in 0..<5 {
      #expect(try await ask("PUT", "/v1/messages/\(client.number)", "{", client.known).status == 415)
      #expect(try await ask("GET", "/v2/keys/+447100000019/*", nil, client.known).status == 404)
    }
    let bundle = #"{"messages":[],"timestamp":7}"#
    for _ in 0..<5 {
      #expect(try await ask("PUT", "/v1/messages/\(client.number)", bundle, client.known).status == 200)
    }
  }
}
