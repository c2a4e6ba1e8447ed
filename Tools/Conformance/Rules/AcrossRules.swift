import RelayClient

/// Clients that name no relay, across two peers (docs/federation.md, "Clients that name no relay").
enum AcrossRules {
  static let all: [Rule] = [
    Rule("1.13", "keys of a peer's number are drawn without naming its relay, in every form", .ours) { session in
      let (near, far) = try await pair(session)
      let keys = KeySet(far.identity, oneTime: [1, 2, 3, 4])
      try await session.far().upload(keys, as: far)
      let signed = try await session.get("/v2/keys/\(far.number)/1", as: near).expectJSON()
      try expectEqual(signed["identityKey"], .string(far.identity.publicKey), "identity key")
      let device = signed["devices"]?.array?.first
      try expectEqual(device?["registrationId"], JSON(far.registrationID), "registration id")
      try expectEqual(device?["signedPreKey"], try keys.signedJSON(), "signed prekey")
      try expectEqual(device?["preKey"], KeySet.bare(keys.oneTime[0]), "prekey")
      try await session.get("/v1/keys/\(far.number)", as: near).expect(200)
      try expectEqual(try await session.get("/v1/keys/\(far.number)/*", as: near).list("keys").count, 1, "keys")
      try await session.get("/v2/keys/\(far.number)/9", as: near).expect(404)
    },
    Rule("1.13", "a message to a peer's number arrives without naming its relay, and is receipted", .ours) { session in
      let (near, far) = try await pair(session)
      let there = try session.far()
      try await session.submit([message(registrationID: 22)], to: far.number, timestamp: 71, as: near)
        .expect(200, json: ["needsSync": false])
      let legacy = message("YmFy").with(["destination": .string(far.number)])
      let lists = try await session.post("/v1/messages/", ["messages": [legacy]], as: near).expectJSON()
      try expectEqual(lists["success"], [.string(far.number)], "success")
      let mail = try await there.mailbox(of: far)
      try expectEqual(mail.values("message"), ["Zm9v", "YmFy"], "messages")
      try expectEqual(mail.values("source"), Array(repeating: .string(near.number), count: 2), "sources")
      try expect(mail.values("relay").allSatisfy { $0.string?.isEmpty == false }, "the relay of each", "none")
      // One receipt by the acknowledgement, one that is sent by itself.
      try await there.acknowledge(near.number, 71, as: far)
      let time = try await there.mailbox(of: far).values("timestamp").last?.integer
      try await there.put("/v1/receipt/\(near.number)/\(time ?? 0)", as: far).expectDone()
      try await session.untilMailbox(of: near, holds: 2)
      try expectEqual(try await session.mailbox(of: near).values("type"), [5, 5], "types")
    },
    Rule("1.13", "what a peer says of its devices comes back as of one's own: 409 and 410", .ours) { session in
      let (near, far) = try await pair(session)
      try await session.submit([message(registrationID: 9)], to: far.number, as: near)
        .expect(410, json: ["staleDevices": [1]])
      try await session.submit([message(device: 3)], to: far.number, as: near)
        .expect(409, json: ["missingDevices": [1], "extraDevices": [3]])
      try await session.far().mailbox(of: far).expectEmpty()
    },
    Rule("1.13", "a WebSocket's requests reach a peer's number as well", .ours) { session in
      let (near, far) = try await pair(session)
      let socket = try await session.connect(near)
      try await socket.ask(
        "PUT", "/v1/messages/\(far.number)", id: 7, ["messages": [message(registrationID: 22)], "timestamp": 73])
      try expectEqual(try await socket.expectAnswer(7).status, 200, "status")
      try expectEqual(try await session.far().mailbox(of: far).values("timestamp"), [73], "timestamps")
    },
    Rule("1.13", "an attachment that a peer holds is found by its id alone", .ours) { session in
      let (near, far) = try await pair(session)
      let slot = try await session.far().get("/v1/attachments/", as: far).expectJSON()
      guard let id = slot["id"]?.integer, let location = slot["location"]?.string else {
        throw RuleFailure(expected: "id and location", got: "something else", request: "GET /v1/attachments/")
      }
      let blob = randomBytes(5000)
      var upload = Exchange("PUT", location)
      upload.headers = [("Content-Type", "application/octet-stream")]
      upload.body = .whole(blob)
      try await session.far().send(upload).expect(200)
      // Which mark is the peer's is heard of within half a minute of peering.
      try await session.until("the peer's blob") {
        let found = try await session.get("/v1/attachments/\(id)", as: near).expectJSON()
        guard let place = found["location"]?.string else { return false }
        let answer = try await session.send(Exchange("GET", place))
        return answer.status == 200 && answer.body == blob
      }
    },
    Rule("1.13", "a number that nobody has is not found", .ours) { session in
      _ = try session.far()
      let near = try await session.register()
      let nobody = session.numbers.draw()
      try await session.get("/v2/keys/\(nobody)/*", as: near).expect(404)
      try await session.submit([message()], to: nobody, as: near).expect(404)
    },
  ]

  /// An account at the server with registration id 11 and one at its peer with 22, each found by the other.
  private static func pair(_ session: Session) async throws -> (near: Device, far: Device) {
    let there = try session.far()
    let near = try await session.register(registrationID: 11)
    let far = try await there.register(registrationID: 22)
    try await there.upload(KeySet(far.identity, oneTime: [1]), as: far)
    for (one, device, other) in [(session, near, far), (there, far, near)] {
      let path = "/v1/directory/\(Token.urlSafe(try Token.of(other.number)))"
      try await one.until("the other's number in the directory") { try await one.get(path, as: device).status == 200 }
    }
    return (near, far)
  }
}
