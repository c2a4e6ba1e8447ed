/// How a device says how it is reached (reference 1.5), seen by whether messages to it are accepted (3.1).
enum PushRegistrationRules {
  static let all: [Rule] = [
    Rule("3.1", "an account is active exactly when its device 1 can be reached") { session in
      let sender = try await session.register()
      let device = try await session.register(fetches: false)
      try await expectReachable(device, false, session, sender)
      try await session.put("/v1/accounts/gcm/", ["gcmRegistrationId": "id"], as: device).expectDone()
      try await expectReachable(device, true, session, sender)
      try await session.delete("/v1/accounts/gcm/", as: device).expectDone()
      try await expectReachable(device, false, session, sender)
    },
    Rule("1.5", "an APN id makes a device reachable until it is removed") { session in
      let sender = try await session.register()
      for ids: JSON in [["apnRegistrationId": "a"], ["apnRegistrationId": "a", "voipRegistrationId": "v"]] {
        let device = try await session.register(fetches: false)
        try await session.put("/v1/accounts/apn/", ids, as: device).expectDone()
        try await expectReachable(device, true, session, sender)
        try await session.delete("/v1/accounts/apn/", as: device).expectDone()
        try await expectReachable(device, false, session, sender)
      }
    },
    Rule("1.5", "a GCM id takes the place of an APN id, and the reverse") { session in
      let sender = try await session.register()
      let (gcm, apn): (JSON, JSON) = (["gcmRegistrationId": "g"], ["apnRegistrationId": "a"])
      let first = try await session.register(fetches: false)
      try await session.put("/v1/accounts/apn/", apn, as: first).expect(200)
      try await session.put("/v1/accounts/gcm/", gcm, as: first).expect(200)
      try await session.delete("/v1/accounts/gcm/", as: first).expect(200)
      try await expectReachable(first, false, session, sender)
      let second = try await session.register(fetches: false)
      try await session.put("/v1/accounts/gcm/", gcm, as: second).expect(200)
      try await session.put("/v1/accounts/apn/", apn, as: second).expect(200)
      try await session.delete("/v1/accounts/apn/", as: second).expect(200)
      try await expectReachable(second, false, session, sender)
    },
    Rule("1.5", "a GCM id may come with webSocketChannel, and its removal ends the fetching as well", .g4) { session in
      let sender = try await session.register()
      let device = try await session.register(fetches: false)
      let body: JSON = ["gcmRegistrationId": "g", "webSocketChannel": true]
      try await session.put("/v1/accounts/gcm/", body, as: device).expectDone()
      try await expectReachable(device, true, session, sender)
      try await session.delete("/v1/accounts/gcm/", as: device).expectDone()
      try await expectReachable(device, false, session, sender)
    },
    Rule("1.5", "a device can say that it fetches its messages, and that it does not", .g4) { session in
      let sender = try await session.register()
      let device = try await session.register(fetches: false)
      try await session.put("/v1/accounts/wsc/", as: device).expectDone()
      try await expectReachable(device, true, session, sender)
      try await session.delete("/v1/accounts/wsc/", as: device).expectDone()
      try await expectReachable(device, false, session, sender)
    },
    Rule("1.5", "a push id is required and not empty") { session in
      let device = try await session.register()
      for id: JSON in ["", nil, [:]] {
        try await session.put("/v1/accounts/gcm/", ["gcmRegistrationId": id], as: device).expect(415, 422)
        try await session.put("/v1/accounts/apn/", ["apnRegistrationId": id], as: device).expect(415, 422)
      }
      try await session.put("/v1/accounts/gcm/", ["apnRegistrationId": "x"], as: device).expect(415, 422)
    },
    Rule("1.5", "a push registration is of the authenticated device alone", .g2) { session in
      let sender = try await session.register()
      let first = try await session.register()
      let linked = try await session.link(to: first)
      try await session.delete("/v1/accounts/gcm/", as: linked).expect(200)
      try await session.submit([message()], to: first.number, as: sender).expect(200)
      try await session.put("/v1/accounts/gcm/", ["gcmRegistrationId": "g"], as: linked).expect(200)
      try await session.submit([message()], to: first.number, as: sender)
        .expect(409, json: ["missingDevices": [2], "extraDevices": []])
    },
    Rule("3.7", "an account is in the directory exactly while it is active") { session in
      let caller = try await session.register()
      let device = try await session.register()
      let path = "/v1/directory/\(Token.urlSafe(try Token.of(device.number)))"
      try await session.settling { try await session.get(path, as: caller).expect(200) }
      try await session.delete("/v1/accounts/wsc/", as: device).expect(200)
      try await session.settling { try await session.get(path, as: caller).expect(404) }
      try await session.put("/v1/accounts/apn/", ["apnRegistrationId": "a"], as: device).expect(200)
      try await session.settling { try await session.get(path, as: caller).expect(200) }
      try await session.delete("/v1/accounts/apn/", as: device).expect(200)
      try await session.settling { try await session.get(path, as: caller).expect(404) }
    },
    Rule("1.5", "attributes replace registration id and reachability", .g4) { session in
      let sender = try await session.register()
      let device = try await session.register(registrationID: 11)
      try await session.put("/v1/accounts/attributes/", attributes(registrationID: 12), as: device).expectDone()
      try await session.submit([message(registrationID: 11)], to: device.number, as: sender)
        .expect(410, json: ["staleDevices": [1]])
      try await session.submit([message(registrationID: 12)], to: device.number, as: sender).expect(200)
      try await session.put("/v1/accounts/attributes/", attributes(fetches: false), as: device).expect(200)
      try await expectReachable(device, false, session, sender)
      try await session.get("/v1/keys", as: device).expect(200)
    },
    Rule("1.5", "attributes are checked as at registration", .g4) { session in
      let device = try await session.register()
      let body = attributes()
      try await session.put("/v1/accounts/attributes/", body.without("signalingKey"), as: device).expect(415, 422)
      let name = JSON.string(String(repeating: "a", count: 51))
      try await session.put("/v1/accounts/attributes/", body.with(["name": name]), as: device).expect(422)
    },
    Rule("1.5", "attributes give a device its name", .g4) { session in
      let device = try await session.register(extra: ["name": "before"])
      try await session.put("/v1/accounts/attributes/", attributes().with(["name": "after"]), as: device).expect(200)
      let names = try await session.get("/v1/devices/", as: device).list("devices").map { $0["name"] ?? .null }
      try expectEqual(names, ["after"], "names")
    },
  ]

  private static func expectReachable(
    _ device: Device, _ isReachable: Bool, _ session: Session, _ sender: Device
  ) async throws {
    let answer = try await session.submit([message()], to: device.number, as: sender)
    try answer.expect(isReachable ? 200 : 404, because: isReachable ? "as it is reachable" : "as it is not reachable")
  }
}
