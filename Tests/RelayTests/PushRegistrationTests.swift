import Foundation
import TestSupport
import TestTags
import Testing

/// Push registration and attributes (reference 1.5), seen by whether others find and reach the account.
@Suite(.tags(.processes), .ownRelay) struct PushRegistrationTests {
  let site: RelayOperator
  let relay: RelayProcess
  let other: TestDevice
  let device: TestDevice

  init() async throws {
    let suite = try suiteRelay()
    (site, relay) = (suite.site, suite.relay)
    other = try await relay.register()
    device = try await relay.register()
    try await put("wsc")
    try await delete("wsc")
  }

  private func put(_ path: String, _ json: String? = nil, as asking: TestDevice? = nil) async throws {
    let answer = try await relay.send("PUT", "/v1/accounts/\(path)", json: json, as: asking ?? device)
    #expect(answer.status == 200 && answer.body.isEmpty, "PUT \(path): \(answer.status) \(answer.text)")
  }

  private func delete(_ path: String, json: String? = nil, as asking: TestDevice? = nil) async throws {
    let answer = try await relay.send("DELETE", "/v1/accounts/\(path)", json: json, as: asking ?? device)
    #expect(answer.status == 200 && answer.body.isEmpty, "DELETE \(path): \(answer.status) \(answer.text)")
  }

  /// Whether the device is listed and gets messages; both must be told alike.
  private func isReachable() async throws -> Bool {
    let token = try TestTokens.urlSafe(device.number)
    let listed = try await relay.send("GET", "/v1/directory/\(token)", as: other).status
    let json = bundle(message(), timestamp: Int64.random(in: 1...1_000_000_000))
    let sent = try await relay.send("PUT", "/v1/messages/\(device.number)", json: json, as: other).status
    #expect(listed == sent && (listed == 200 || listed == 404), "\(listed), \(sent)")
    return listed == 200
  }

  @Test func `an account is listed exactly as long as device 1 can be reached`() async throws {
    #expect(try await isReachable() == false)
    for (path, json) in [
      ("gcm/", #"{"gcmRegistrationId":"g"}"#), ("gcm", #"{"gcmRegistrationId":"g","webSocketChannel":true}"#),
      ("apn/", #"{"apnRegistrationId":"a"}"#), ("apn", #"{"apnRegistrationId":"a","voipRegistrationId":"v"}"#),
      ("wsc/", nil),
    ] {
      try await put(path, json)
      #expect(try await isReachable(), "\(path)")
      try await delete(path)
      #expect(try await isReachable() == false, "\(path)")
    }
  }

  @Test func `one service's id takes the place of the other's`() async throws {
    try await put("apn", #"{"apnRegistrationId":"a","voipRegistrationId":"v"}"#)
    try await put("gcm", #"{"gcmRegistrationId":"g"}"#)
    try await delete("gcm")
    #expect(try await isReachable() == false)
    try await put("gcm", #"{"gcmRegistrationId":"g"}"#)
    try await put("apn", #"{"apnRegistrationId":"a"}"#)
    try await delete("apn")
    #expect(try await isReachable() == false)
  }

  @Test func `fetching goes with the push ids`() async throws {
    // A GCM id without a socket ends fetching, so that nothing is left without the id.
    try await put("wsc")
    try await put("gcm", #"{"gcmRegistrationId":"g"}"#)
    try await delete("apn")
    #expect(try await isReachable())
    try await delete("gcm")
    #expect(try await isReachable() == false)
    // Each removal ends it too, also of an id that was not there.
    for path in ["gcm", "apn"] {
      try await put("wsc")
      try await delete(path)
      #expect(try await isReachable() == false, "\(path)")
    }
  }

  @Test func `a removal ignores its body`() async throws {
    for path in ["gcm", "apn", "wsc"] {
      for body in [#"{"gcmRegistrationId":"g"}"#, "{", "", "x"] { try await delete(path, json: body) }
      let plain = try await relay.send(
        "DELETE", "/v1/accounts/\(path)", json: "x", as: device, headers: [("Content-Type", "text/plain")])
      #expect(plain.status == 200)
    }
    try await put("wsc", "x")
    #expect(try await isReachable())
  }

  @Test func `a malformed registration is refused and changes nothing`() async throws {
    let tooLong = String(repeating: "a", count: 4097)
    for path in ["gcm", "apn"] {
      for id in ["null", "\"\"", "7", "[]", "\"\(tooLong)\""] {
        let answer = try await relay.send(
          "PUT", "/v1/accounts/\(path)", json: #"{"\#(path)RegistrationId":\#(id)}"#, as: device)
        #expect(answer.status == 415, "\(path) \(id.prefix(10))")
      }
      let other = path == "gcm" ? "apn" : "gcm"
      let answer = try await relay.send(
        "PUT", "/v1/accounts/\(path)", json: #"{"\#(other)RegistrationId":"x"}"#, as: device)
      #expect(answer.status == 415)
    }
    #expect(try await isReachable() == false)
  }

  @Test func `attributes overwrite what registration said`() async throws {
    try await put(
      "attributes/", #"{"signalingKey":"c2ln","registrationId":222,"fetchesMessages":true,"name":"My phone"}"#)
    #expect(try await isReachable())
    let stale = try await relay.send(
      "PUT", "/v1/messages/\(device.number)", json: bundle(message(registrationID: 111)), as: other)
    #expect(stale.status == 410)
    let fresh = try await relay.send(
      "PUT", "/v1/messages/\(device.number)", json: bundle(message(registrationID: 222)), as: other)
    #expect(fresh.status == 200)
    let shown = try #require(try await relay.send("GET", "/v1/devices", as: device).list("devices").first)
    #expect(shown["name"] as? String == "My phone")

    try await put("attributes", #"{"signalingKey":"c2ln"}"#)
    #expect(try await isReachable() == false)
    let later = try #require(try await relay.send("GET", "/v1/devices", as: device).list("devices").first)
    #expect(later["name"] is NSNull)
  }

  @Test func `attributes say that the device was seen today`() async throws {
    try await site.age(device.number, byDays: 3)
    try await put("wsc")
    let day = 86_400_000
    let today = Int(Date().timeIntervalSince1970) * 1000 / day * day
    let seen = {
      let devices = try await relay.send("GET", "/v1/devices", as: device).list("devices")
      return try #require(devices.first?["lastSeen"] as? NSNumber).intValue
    }
    #expect([today, today - day].contains(try await seen() + 3 * day))
    try await put("attributes", #"{"signalingKey":"c2ln"}"#)
    #expect([today, today + day].contains(try await seen()))
  }

  @Test func `attributes that are none are refused`() async throws {
    for body in ["{}", "[]", #"{"signalingKey":""}"#, #"{"signalingKey":"a","registrationId":"x"}"#] {
      #expect(try await relay.send("PUT", "/v1/accounts/attributes", json: body, as: device).status == 415, "\(body)")
    }
    let name = String(repeating: "n", count: 51)
    let answer = try await relay.send(
      "PUT", "/v1/accounts/attributes", json: #"{"signalingKey":"a","name":"\#(name)"}"#, as: device)
    #expect(answer.status == 422)
    #expect(answer.text.hasPrefix("device-name-too-long: "))
  }

  @Test func `each device speaks for itself`() async throws {
    try await put("wsc")
    let linked = try await site.linkDevice(2, registrationID: 0, to: device)
    try await put("wsc")
    // Two devices can be reached: a message for device 1 alone is not enough.
    let sendToFirst = {
      try await relay.send("PUT", "/v1/messages/\(device.number)", json: bundle(message()), as: other)
    }
    #expect(try await sendToFirst().object["missingDevices"] as? [Int] == [2])
    try await delete("wsc", as: linked)
    #expect(try await sendToFirst().status == 200)
    try await put("gcm", #"{"gcmRegistrationId":"g"}"#, as: linked)
    #expect(try await sendToFirst().object["missingDevices"] as? [Int] == [2])
    // Without device 1 there is no account to reach.
    try await delete("wsc")
    #expect(try await sendToFirst().status == 404)
  }
}
