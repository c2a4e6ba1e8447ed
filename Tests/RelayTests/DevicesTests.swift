import Foundation
import TestSupport
import TestTags
import Testing

/// Linking, listing and removing devices (reference 1.14).
@Suite(.tags(.processes), .ownRelay(RelayUnderTest.unlimited.merging(["RELAY_KEYS_VERIFY_SIGNATURES": "false"]) { $1 }))
struct DevicesTests {
  let relay: RelayProcess
  let master: TestDevice

  init() async throws {
    relay = try suiteRelay().relay
    master = try await relay.register(attributes: #","name":"Phone""#)
  }

  private let attributes = #"{"signalingKey":"c2ln","fetchesMessages":true,"registrationId":5}"#

  private func askForCode(_ path: String = "provisioning/code", as device: TestDevice? = nil) async throws -> Answer {
    try await relay.send("GET", "/v1/devices/\(path)", as: device ?? master)
  }

  private func code() async throws -> String {
    let answer = try await askForCode()
    #expect(answer.status == 200, "\(answer.text)")
    return try #require(answer.object["verificationCode"] as? String)
  }

  /// Redeems `code` as a new device; its user name is the number alone.
  private func redeem(
    _ code: String, number: String? = nil, password: String = "linked", json: String? = nil
  ) async throws -> Answer {
    let device = TestDevice(number: number ?? master.number, password: password)
    return try await relay.send("PUT", "/v1/devices/\(code)", json: json ?? attributes, as: device)
  }

  private func link(password: String = UUID().uuidString, isActive: Bool = false) async throws -> TestDevice {
    let answer = try await redeem(try await code(), password: password)
    #expect(answer.status == 200, "\(answer.text)")
    let id = try #require(answer.object["deviceId"] as? Int)
    let device = TestDevice(number: master.number, password: password, device: id, registrationID: 5)
    if isActive { try await activate(device) }
    return device
  }

  /// Uploads keys with a signed prekey, which makes a linked device active.
  private func activate(_ device: TestDevice) async throws {
    let json = """
      {"identityKey":"identity","preKeys":[],"lastResortKey":{"keyId":1,"publicKey":"a"},
      "signedPreKey":{"keyId":2,"publicKey":"b","signature":"c"}}
      """
    let answer = try await relay.send("PUT", "/v2/keys", json: json, as: device)
    #expect(answer.status == 200, "\(answer.text)")
  }

  private func listed(as device: TestDevice? = nil) async throws -> [[String: Any]] {
    try await relay.send("GET", "/v1/devices/", as: device ?? master).list("devices")
  }

  @Test(arguments: ["provisioning_code", "provisioning_code/", "provisioning/code", "provisioning/code/"])
  func `a code links a device, under both paths`(path: String) async throws {
    let answer = try await askForCode(path)
    #expect(answer.headers["cache-control"] == "no-store")
    let code = try #require(answer.object["verificationCode"] as? String)
    #expect(try #/[1-9]\d{5}/#.wholeMatch(in: code) != nil)
    let linking = try await redeem(code)
    #expect(linking.status == 200)
    #expect(linking.text == #"{"deviceId":2}"#)
    let linked = TestDevice(number: master.number, password: "linked", device: 2)
    #expect(try await relay.send("GET", "/v1/keys", as: linked).status == 200)
    // Its password is not that of device 1.
    #expect(
      try await relay.send("GET", "/v1/keys", as: TestDevice(number: master.number, password: "linked")).status == 401)
    #expect(try await redeem(code).status == 403)
  }

  @Test func `devices are listed with names, or null, and their times`() async throws {
    let before = Int64(Date().timeIntervalSince1970 * 1000)
    let linked = try await link()
    #expect(linked.device == 2)
    for device in [master, linked] {
      let devices = try await listed(as: device)
      #expect(devices.map { $0["id"] as? Int } == [1, 2])
      #expect(devices.map { Set($0.keys) } == Array(repeating: ["id", "name", "lastSeen", "created"], count: 2))
      #expect(devices[0]["name"] as? String == "Phone")
      #expect(devices[1]["name"] is NSNull)
      let seen = try #require(devices[1]["lastSeen"] as? NSNumber).int64Value
      #expect(seen % 86_400_000 == 0 && abs(before - seen) <= 2 * 86_400_000)
      let created = try #require(devices[1]["created"] as? NSNumber).int64Value
      #expect((before - 60_000...before + 600_000).contains(created))
    }
  }

  @Test func `a code is good for its account and its purpose`() async throws {
    let linking = try await code()
    #expect(try await redeem(linking, number: try await relay.register().number).status == 403)
    #expect(try await redeem(linking, number: TestDevice.freshNumber()).status == 403)
    let registering = try await relay.code(for: master.number)
    if registering != linking {
      #expect(try await redeem(registering).status == 403)
      let anew = TestDevice(number: master.number, password: "anew")
      #expect(try await relay.send("PUT", "/v1/accounts/code/\(linking)", json: attributes, as: anew).status == 403)
    }
    #expect(try await redeem(linking).status == 200)
  }

  @Test func `a new code takes the place of the older one`() async throws {
    let older = try await code()
    var newer = older
    while newer == older { newer = try await code() }
    #expect(try await redeem(older).status == 403)
    #expect(try await redeem(newer).status == 200)
  }

  @Test func `five wrong tries void a code`() async throws {
    let code = try await code()
    let other = code == "123456" ? "654321" : "123456"
    for _ in 0..<5 { #expect(try await redeem(other).status == 403) }
    #expect(try await redeem(code).status == 403)
  }

  @Test func `a malformed request uses no code up`() async throws {
    let code = try await code()
    let unauthorized = try await relay.send("PUT", "/v1/devices/\(code)", json: attributes)
    #expect(unauthorized.status == 401)
    for body in ["{}", "", "[]", #"{"signalingKey":""}"#, #"{"signalingKey":"a","registrationId":-1}"#] {
      #expect(try await redeem(code, json: body).status == 415, "\(body)")
    }
    let name = String(repeating: "n", count: 51)
    #expect(try await redeem(code, json: #"{"signalingKey":"a","name":"\#(name)"}"#).status == 422)
    #expect(try await redeem(code, json: #"{"signalingKey":"a","name":"\#(name.dropLast())"}"#).status == 200)
  }

  @Test func `only device 1 gets codes`() async throws {
    let linked = try await link()
    for path in ["provisioning_code", "provisioning/code"] {
      #expect(try await askForCode(path, as: linked).status == 401)
      #expect(try await relay.send("GET", "/v1/devices/\(path)").status == 401)
    }
  }

  @Test func `an inactive device gives its id to the next one, and nothing of what it had`() async throws {
    let first = try await link()
    try await relay.upload([1, 2, 3], as: first)
    let second = try await link()
    #expect(second.device == 2)
    #expect(try await relay.send("GET", "/v1/keys", as: first).status == 401)
    #expect(try await relay.send("GET", "/v1/keys", as: second).text == #"{"count":0}"#)
    #expect(try await listed().count == 2)
  }

  @Test func `an account has three active devices at most`() async throws {
    let second = try await link(isActive: true)
    let third = try await link()
    let waiting = try await code()
    try await activate(third)
    #expect((second.device, third.device) == (2, 3))

    let full = #"{"current":3,"max":3}"#
    for asking in [master, second] {
      let answer = try await askForCode(as: asking)
      #expect(answer.status == 411)
      #expect(answer.text == full)
      #expect(answer.headers["content-type"] == "application/json")
    }
    let late = try await redeem(waiting)
    #expect(late.status == 411)
    #expect(late.text == full)
    // The code is still good when there is room again.
    #expect(try await relay.send("DELETE", "/v1/devices/2", as: master).status == 200)
    #expect(try await redeem(waiting).status == 200)
    #expect(try await listed().count == 3)
  }

  @Test func `a removed device is gone at once, with its mailbox`() async throws {
    let sender = try await relay.register()
    let linked = try await link(isActive: true)
    let send = { (bundle: String) in
      try await relay.send("PUT", "/v1/messages/\(master.number)", json: bundle, as: sender)
    }
    let both = bundle(message(registrationID: 111), message(device: 2, registrationID: 5))
    #expect(try await send(both).status == 200)
    #expect(try await relay.mailbox(of: linked).count == 1)

    #expect(try await relay.send("DELETE", "/v1/devices/2", as: master).status == 200)
    #expect(try await relay.send("GET", "/v1/messages", as: linked).status == 401)
    #expect(try await send(both).object["extraDevices"] as? [Int] == [2])
    #expect(try await listed().map { $0["id"] as? Int } == [1])
    let next = try await link(isActive: true)
    #expect(next.device == 2)
    #expect(try await relay.mailbox(of: next).isEmpty)
    #expect(try await relay.mailbox(of: master).count == 1)
  }

  @Test func `a removal is device 1's, of others alone`() async throws {
    let linked = try await link()
    #expect(try await relay.send("DELETE", "/v1/devices/2", as: linked).status == 401)
    #expect(try await relay.send("DELETE", "/v1/devices/1", as: linked).status == 401)
    #expect(try await relay.send("DELETE", "/v1/devices/2").status == 401)
    let itself = try await relay.send("DELETE", "/v1/devices/1/", as: master)
    #expect(itself.status == 403)
    #expect(itself.text.hasPrefix("master-device: "))
    for unknown in ["7", "0", "-1", "99999999999"] {
      #expect(try await relay.send("DELETE", "/v1/devices/\(unknown)", as: master).status == 200, "\(unknown)")
    }
    for text in ["x", "2x", "*", "%20", "99999999999999999999", "1.0"] {
      #expect(try await relay.send("DELETE", "/v1/devices/\(text)", as: master).status == 404, "\(text)")
    }
    #expect(try await listed().count == 2)
  }

  @Test func `registering anew removes linked devices at once`() async throws {
    let linked = try await link(isActive: true)
    #expect(try await relay.send("GET", "/v1/keys", as: linked).status == 200)
    let anew = try await relay.register(master.number)
    #expect(try await relay.send("GET", "/v1/keys", as: linked).status == 401)
    #expect(try await relay.send("GET", "/v1/keys", as: master).status == 401)
    #expect(try await listed(as: anew).count == 1)
  }

  @Test func `other methods are refused by name`() async throws {
    for (path, allowed) in [
      ("/v1/devices/2", ["PUT", "DELETE"]), ("/v1/devices", ["GET"]), ("/v1/devices/provisioning_code", ["GET"]),
      ("/v1/devices/provisioning/code", ["GET"]),
    ] {
      let answer = try await relay.send("PATCH", path, as: master)
      #expect(answer.status == 405, "\(path)")
      #expect(answer.headers["allow"] == allowed.joined(separator: ", "), "\(path)")
    }
  }
}

/// Buckets at the sizes of reference 3.6.
@Suite(.tags(.processes), .ownRelay([:])) struct DeviceLimitTests {
  @Test func `codes and their tries are limited by number`() async throws {
    let relay = try suiteRelay().relay
    let master = try await relay.register()
    for _ in 0..<2 { #expect(try await relay.send("GET", "/v1/devices/provisioning/code", as: master).status == 200) }
    let refused = try await relay.send("GET", "/v1/devices/provisioning_code", as: master)
    #expect(refused.status == 413)
    #expect(refused.headers["retry-after"] != nil)
    let device = TestDevice(number: master.number, password: "p")
    let statuses = [
      try await relay.send("PUT", "/v1/devices/111", json: #"{"signalingKey":"a"}"#, as: device).status,
      try await relay.send("PUT", "/v1/devices/111", json: #"{"signalingKey":"a"}"#, as: device).status,
      try await relay.send("PUT", "/v1/devices/111", json: #"{"signalingKey":"a"}"#, as: device).status,
    ]
    #expect(statuses == [403, 403, 413])
  }
}
