/// Linked devices (reference 1.14).
///
/// A number may ask for two linking codes at once (3.6), and try two: no rule needs more.
enum DeviceRules {
  static let all: [Rule] = linking + management

  private static let linking: [Rule] = [
    Rule("1.14", "a linking code has six digits, by both paths", .g2) { session in
      let device = try await session.register()
      for path in ["/v1/devices/provisioning_code", "/v1/devices/provisioning/code"] {
        let json = try await session.get(path, as: device).expectJSON()
        let code = json["verificationCode"]?.string ?? ""
        try expect(
          code.utf8.count == 6 && code.utf8.allSatisfy { $0 >= 0x30 && $0 <= 0x39 }, "a verificationCode of six digits",
          "something else")
      }
    },
    Rule("1.14", "a code links the next device, which goes by its number and id from then on", .g2) { session in
      let first = try await session.register()
      for id in [2, 3] {
        let linked = try await session.link(to: first)
        try expectEqual(linked.id, id, "device id")
        try await session.get("/v1/keys", as: linked).expect(200)
      }
      try await session.get("/v1/keys", as: first).expect(200)
    },
    Rule("1.14", "a code is used once, and replaced by a newer one", .g2) { session in
      let first = try await session.register()
      let older = try await session.linkingCode(of: first)
      let newer = try await session.linkingCode(of: first)
      guard older != newer else { throw RuleSkipped(reason: "the server drew the same code twice") }
      try await redeem(older, session, first).expect(403)
      try await redeem(newer, session, first).expect(200, json: ["deviceId": 2])
      let other = try await session.register()
      let code = try await session.linkingCode(of: other)
      try await redeem(code, session, other).expect(200)
      try await redeem(code, session, other).expect(403)
    },
    Rule("1.14", "a wrong code, another number's, and one for an unknown number are refused with 403", .g2) { session in
      let (first, other) = (try await session.register(), try await session.register())
      let code = try await session.linkingCode(of: first)
      try await redeem(code, session, other).expect(403)
      try await redeem(code == "123456" ? "654321" : "123456", session, first).expect(403)
      try await redeem("123456", session, try session.stranger()).expect(403)
      try await redeem(code, session, first).expect(200)
    },
    Rule("1.14", "a code that registers does not link, and the reverse", .g2) { session in
      let first = try await session.register()
      let linking = try await session.linkingCode(of: first)
      let registering = try await session.code(for: first.number)
      guard linking != registering else { throw RuleSkipped(reason: "the server drew the same code twice") }
      try await redeem(registering, session, first).expect(403)
      try await session.confirm(linking, as: first).expect(403)
      try await session.get("/v1/keys", as: first).expect(200)
    },
    Rule("1.14", "linking needs credentials to be created, whose device id is ignored", .g2) { session in
      let first = try await session.register()
      let code = try await session.linkingCode(of: first)
      try await session.put("/v1/devices/\(code)", attributes()).expect(401)
      var linked = first
      (linked.id, linked.password) = (9, Device.randomPassword())
      try await session.put("/v1/devices/\(code)", attributes(), as: linked).expect(200, json: ["deviceId": 2])
      linked.id = 2
      try await session.get("/v1/keys", as: linked).expect(200)
    },
    Rule("1.14", "a code is for device 1 alone to ask: 401 for others", .g4) { session in
      let first = try await session.register()
      let linked = try await session.link(to: first)
      let exchange = try session.exchange("GET", "/v1/devices/provisioning/code", as: linked)
      try await session.target.send(exchange).expect(401)
    },
    Rule("1.14", "a linked device's registration id is kept", .g4) { session in
      let (sender, first) = (try await session.register(), try await session.register())
      _ = try await session.link(to: first, registrationID: 77)
      let messages = [message(), message(device: 2, registrationID: 78)]
      try await session.submit(messages, to: first.number, as: sender).expect(410, json: ["staleDevices": [2]])
    },
    Rule("1.14", "a linked device's name has at most 50 characters, else 422, and its signaling key is required", .g4) {
      session in
      let first = try await session.register()
      let code = try await session.linkingCode(of: first)
      let name = JSON.string(String(repeating: "a", count: 51))
      try await session.put("/v1/devices/\(code)", attributes().with(["name": name]), as: first).expect(422)
      let other = try await session.register()
      let body = attributes().without("signalingKey")
      try await session.put("/v1/devices/123456", body, as: other).expect(415, 422)
    },
    Rule("1.14", "the id of a device that is not active is given out again, without its past", .g4) { session in
      let (sender, first) = (try await session.register(), try await session.register())
      let former = try await session.link(to: first)
      try await session.submit([message(), message(device: 2)], to: first.number, as: sender).expect(200)
      try await session.uploadV1(KeySet(first.identity, oneTime: [1]), as: former)
      try await session.delete("/v1/accounts/gcm/", as: former).expect(200)
      let present = try await session.link(to: first, isActive: false)
      try expectEqual(present.id, 2, "device id")
      try await session.get("/v1/keys", as: former).expect(401)
      try await session.get("/v1/keys", as: present).expect(200, json: ["count": 0])
      try await session.get("/v2/keys/signed", as: present).expect(404)
      try await session.mailbox(of: present).expectEmpty()
    },
    Rule("1.14", "an account with as many devices as it may have links no more: 411 with both numbers", .g4) {
      session in
      let first = try await session.register()
      for _ in 0..<10 {
        let exchange = try session.exchange("GET", "/v1/devices/provisioning/code", as: first)
        let answer = try await session.target.send(exchange).expect(200, 411, 413)
        if answer.status == 413 { throw RuleSkipped(reason: "the limit of linking codes comes first") }
        if answer.status == 411 {
          let json = try answer.expectJSON(411)
          guard let current = json["current"]?.integer, let max = json["max"]?.integer, json.keys.count == 2 else {
            throw RuleFailure(expected: "current and max", got: shown(json), request: answer.request)
          }
          return try answer.expect(current >= max && max > 0, "current, no less than max", shown(json))
        }
        guard let code = try answer.expectJSON()["verificationCode"]?.string else { continue }
        let linked = try session.exchange("PUT", "/v1/devices/\(code)", attributes(), as: first)
        let redeemed = try await session.target.send(linked).expect(200, 413)
        if redeemed.status == 413 { throw RuleSkipped(reason: "the limit of linking codes comes first") }
        // Only active devices count.
        var device = first
        device.id = Int(try redeemed.expectJSON()["deviceId"]?.integer ?? 0)
        try await session.upload(KeySet(first.identity, oneTime: []), as: device)
      }
      throw RuleSkipped(reason: "ten devices were linked without an end")
    },
  ]

  private static let management: [Rule] = [
    Rule("1.14", "the list of devices shows ids, names and times, the last seen one by its day", .g4) { session in
      let first = try await session.register()
      let linked = try await session.link(to: first, extra: ["name": "Tablet"])
      for device in [first, linked] {
        let devices = try await session.get("/v1/devices/", as: device).list("devices")
        try expectEqual(devices.map { $0["id"] ?? .null }, [1, 2], "ids")
        try expectEqual(devices.map { $0["name"] ?? "absent" }, [nil, "Tablet"], "names")
        for device in devices {
          try expectEqual(device.keys, ["id", "name", "lastSeen", "created"], "properties")
          let (created, seen) = (device["created"]?.integer ?? 0, device["lastSeen"]?.integer ?? 0)
          try expect(abs(created - now()) < 2 * 86_400_000, "created, in milliseconds", "\(created)")
          try expect(
            seen % 86_400_000 == 0 && abs(seen - now()) < 3 * 86_400_000, "lastSeen, midnight UTC in milliseconds",
            "\(seen)")
        }
      }
    },
    Rule("1.14", "a removed device is gone at once: its password, its keys, its mailbox, its place with senders", .g4) {
      session in
      let (sender, first) = (try await session.register(), try await session.register())
      try await session.upload(KeySet(first.identity, oneTime: [1]), as: first)
      let linked = try await session.link(to: first)
      try await session.submit([message(), message(device: 2)], to: first.number, as: sender).expect(200)
      try await session.delete("/v1/devices/2", as: first).expectDone()
      try await session.get("/v1/keys", as: linked).expect(401)
      try await session.submit([message()], to: first.number, as: sender).expect(200)
      try await session.get("/v2/keys/\(first.number)/2", as: sender).expect(404)
      let devices = try await session.get("/v1/devices/", as: first).list("devices")
      try expectEqual(devices.map { $0["id"] ?? .null }, [1], "ids")
      let present = try await session.link(to: first)
      try await session.mailbox(of: present).expectEmpty()
    },
    Rule("1.14", "only device 1 removes devices: 401 for others", .g4) { session in
      let first = try await session.register()
      let linked = try await session.link(to: first)
      for id in [1, 2] { try await session.delete("/v1/devices/\(id)", as: linked).expect(401) }
      for device in [first, linked] { try await session.get("/v1/keys", as: device).expect(200) }
    },
    Rule("1.14", "device 1 cannot remove itself", .g4) { session in
      let first = try await session.register()
      try await session.delete("/v1/devices/1", as: first).expectRefusal()
      try await session.get("/v1/keys", as: first).expect(200)
    },
    Rule("1.14", "removing a device that is not there succeeds", .g4) { session in
      let first = try await session.register()
      try await session.delete("/v1/devices/7", as: first).expectDone()
    },
  ]

  private static func redeem(_ code: String, _ session: Session, _ master: Device) async throws -> Answer {
    var device = master
    device.password = Device.randomPassword()
    return try await session.put("/v1/devices/\(code)", attributes(), as: device)
  }
}
