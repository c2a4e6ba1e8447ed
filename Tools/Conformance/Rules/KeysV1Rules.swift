import RelayClient

/// Prekeys of version 1 (reference 1.6).
///
/// A requester may draw three keys of one device at once (3.6): rules that need more have several requesters.
enum KeysV1Rules {
  static let all: [Rule] = uploads + draws + selectors

  private static let uploads: [Rule] = [
    Rule("1.6", "an upload is answered without a body, and its supply counts one-time keys only") { session in
      let device = try await session.register()
      try await session.get("/v1/keys", as: device).expect(200, json: ["count": 0])
      let keys = KeySet(device.identity, oneTime: [1, 2, 3])
      try await session.put("/v1/keys", keys.version1(), as: device).expectDone()
      try await session.get("/v1/keys", as: device).expect(200, json: ["count": 3])
      try await session.uploadV1(KeySet(device.identity, oneTime: []), as: device)
      try await session.get("/v1/keys", as: device).expect(200, json: ["count": 0])
    },
    Rule("1.6", "100 prekeys are taken at once") { session in
      let device = try await session.register()
      try await session.uploadV1(KeySet(device.identity, oneTime: Array(100..<200)), as: device)
      try await session.get("/v1/keys", as: device).expect(200, json: ["count": 100])
    },
    Rule("1.6", "an upload takes the place of all prekeys the device had, and of no other device's") { session in
      let (owner, caller) = (try await session.register(), try await session.register())
      let linked = try await session.link(to: owner)
      try await session.uploadV1(KeySet(owner.identity, oneTime: [1]), as: owner)
      try await session.uploadV1(KeySet(owner.identity, oneTime: [2]), as: linked)
      let keys = KeySet(owner.identity, oneTime: [7])
      try await session.uploadV1(keys, as: owner)
      try expectEqual(try await ids(owner, "1", session, caller, count: 2), [7, 0xFF_FFFF], "key ids")
      try expectEqual(try await ids(owner, "2", session, caller, count: 1), [2], "key ids of device 2")
    },
    Rule("1.6", "the identity key is that of the last resort; those of other keys are ignored") { session in
      let (owner, caller) = (try await session.register(), try await session.register())
      let keys = KeySet(owner.identity, oneTime: [1])
      let other: JSON = ["keyId": 1, "publicKey": .string(keys.oneTime[0].key), "identityKey": "other"]
      try await session.put("/v1/keys", keys.version1().with(["keys": [other]]), as: owner).expect(200)
      let drawn = try await session.get("/v1/keys/\(owner.number)/1", as: caller).list("keys")
      try expectEqual(drawn.first?["identityKey"], .string(owner.identity.publicKey), "identity key")
    },
    Rule("1.6", "an upload without its lists or keys is refused and changes nothing") { session in
      let device = try await session.register()
      let keys = KeySet(device.identity, oneTime: [1, 2])
      let body = keys.version1()
      try await session.put("/v1/keys", body, as: device).expect(200)
      let last = body["lastResortKey"] ?? .null
      let wrong = [
        body.without("keys"), body.without("lastResortKey"), body.with(["keys": "x"]),
        body.with(["lastResortKey": last.without("publicKey")]),
        body.with(["lastResortKey": last.without("identityKey")]), body.with(["keys": [last.without("publicKey")]]),
        body.with(["lastResortKey": last.with(["publicKey": ""])]),
      ]
      for body in wrong { try await session.put("/v1/keys", body, as: device).expect(415, 422) }
      try await session.get("/v1/keys", as: device).expect(200, json: ["count": 2])
    },
    Rule("1.6", "key ids may be 0, strings, or beyond 24 bits") { session in
      let (owner, caller) = (try await session.register(), try await session.register())
      let body = KeySet(owner.identity, oneTime: [0, 16_777_300, 1]).version1()
      let keys = (body["keys"]?.array ?? []).map { key in
        key["keyId"] == 1 ? key.with(["keyId": "1"]) : key
      }
      try await session.put("/v1/keys", body.with(["keys": .array(keys)]), as: owner).expect(200)
      try expectEqual(try await ids(owner, "1", session, caller, count: 3), [0, 1, 16_777_300], "key ids")
    },
  ]

  private static let draws: [Rule] = [
    Rule("1.6", "a drawn key has exactly its five properties, its texts as uploaded", .g2) { session in
      let owner = try await session.register(registrationID: 4242)
      let caller = try await session.register()
      let keys = KeySet(owner.identity, oneTime: [5])
      try await session.uploadV1(keys, as: owner)
      try await session.get("/v1/keys/\(owner.number)/1", as: caller).expect(
        200, json: ["keys": [shown(keys.oneTime[0], of: owner)]])
      try await session.get("/v1/keys/\(owner.number)/1", as: caller).expect(
        200, json: ["keys": [shown(keys.lastResort, of: owner)]])
    },
    Rule("1.6", "without a selector it is one bare key of device 1") { session in
      let (owner, caller) = (try await session.register(), try await session.register())
      let keys = KeySet(owner.identity, oneTime: [0])
      try await session.uploadV1(keys, as: owner)
      let json = try await session.get("/v1/keys/\(owner.number)", as: caller).expectJSON()
      for (name, value) in [
        "keyId": 0, "publicKey": .string(keys.oneTime[0].key), "identityKey": .string(owner.identity.publicKey),
      ] as [String: JSON] {
        try expectEqual(json[name], value, name)
      }
    },
    Rule("1.6", "a one-time prekey is handed out once, the smallest id first, then the last resort for ever") {
      session in
      let owner = try await session.register()
      try await session.uploadV1(KeySet(owner.identity, oneTime: [9, 3, 5]), as: owner)
      let first = try await ids(owner, "1", session, try await session.register(), count: 3)
      let second = try await ids(owner, "1", session, try await session.register(), count: 3)
      try expectEqual(first + second, [3, 5, 9, 0xFF_FFFF, 0xFF_FFFF, 0xFF_FFFF], "key ids")
    },
    Rule("1.6", "the last resort is known by its place, not by its id") { session in
      let (owner, caller) = (try await session.register(), try await session.register())
      try await session.uploadV1(
        KeySet(owner.identity, oneTime: [1_048_580, 2_000_000], lastResort: 1_048_575), as: owner)
      try expectEqual(
        try await ids(owner, "1", session, caller, count: 3), [1_048_580, 2_000_000, 1_048_575], "key ids")
      let other = try await session.register()
      let body = KeySet(other.identity, oneTime: [0xFF_FFFF], lastResort: 7).version1()
      let keys = (body["keys"]?.array ?? []).map { $0.with(["lastResort": true]) }
      try await session.put("/v1/keys", body.with(["keys": .array(keys)]), as: other).expect(200)
      try expectEqual(try await ids(other, "1", session, caller, count: 3), [0xFF_FFFF, 7, 7], "key ids")
    },
    Rule("1.6", "requests at once never get one one-time prekey twice") { session in
      let owner = try await session.register()
      try await session.uploadV1(KeySet(owner.identity, oneTime: Array(1...16)), as: owner)
      var callers: [Device] = []
      for _ in 0..<8 { callers.append(try await session.register()) }
      let drawn = try await withThrowingTaskGroup(of: [Int64].self) { group in
        for caller in callers { group.addTask { try await ids(owner, "1", session, caller, count: 2) } }
        return try await group.reduce(into: []) { $0 += $1 }
      }
      try expect(drawn.sorted() == Array(1...16), "each of 16 keys once", "\(Set(drawn).count) different ones")
    },
    Rule("1.6", "own prekeys can be drawn") { session in
      let owner = try await session.register()
      try await session.uploadV1(KeySet(owner.identity, oneTime: [1]), as: owner)
      try expectEqual(try await ids(owner, "*", session, owner, count: 1), [1], "key ids")
    },
    Rule("3.6", "a requester's draws of one device are limited with 413 and Retry-After") { session in
      let (owner, caller) = (try await session.register(), try await session.register())
      try await session.uploadV1(KeySet(owner.identity, oneTime: []), as: owner)
      let exchange = try session.exchange("GET", "/v1/keys/\(owner.number)/1", as: caller)
      for _ in 0..<Self.drawsMax {
        let answer = try await session.target.send(exchange).expect(200, 413)
        if answer.status == 200 { continue }
        try answer.expect(answer.retryAfter.map { $0 > 0 } == true, "Retry-After", "none")
        let other = try await session.register()
        try await session.get("/v1/keys/\(owner.number)/1", as: other).expect(200)
        return
      }
      throw RuleSkipped(reason: "\(Self.drawsMax) draws of one device were not limited")
    },
  ]

  /// More than any bucket that still is a limit holds.
  private static let drawsMax = 100

  private static let selectors: [Rule] = [
    Rule("1.6", "* draws one key of each active device that has one", .g2) { session in
      let (owner, caller) = (try await session.register(), try await session.register())
      let second = try await session.link(to: owner, registrationID: 22)
      let inactive = try await session.link(to: owner, isActive: false)
      try await session.uploadV1(KeySet(owner.identity, oneTime: [1, 2]), as: owner)
      try await session.uploadV1(KeySet(owner.identity, oneTime: [11, 12]), as: second)
      try await session.uploadV1(KeySet(owner.identity, oneTime: [21]), as: inactive)
      for selector in ["*", "%2A"] {
        let drawn = try await session.get("/v1/keys/\(owner.number)/\(selector)", as: caller).list("keys")
        try expectEqual(drawn.map { $0["deviceId"] ?? .null }, [1, 2], "device ids")
        try expectEqual(drawn.map { $0["registrationId"] ?? .null }, [0, 22], "registration ids")
      }
      try await session.get("/v1/keys", as: owner).expect(200, json: ["count": 0])
      try await session.get("/v1/keys", as: inactive).expect(200, json: ["count": 1])
    },
    Rule("1.6", "a device is drawn from by its id", .g2) { session in
      let (owner, caller) = (try await session.register(), try await session.register())
      let second = try await session.link(to: owner, registrationID: 22)
      let keys = KeySet(owner.identity, oneTime: [11])
      try await session.uploadV1(keys, as: second)
      try await session.get("/v1/keys/\(owner.number)/2", as: caller)
        .expect(200, json: ["keys": [shown(keys.oneTime[0], of: second)]])
    },
    Rule("1.6", "an unknown number or device, one that is not active, and one without keys are not found") { session in
      let (owner, caller) = (try await session.register(), try await session.register())
      let inactive = try await session.link(to: owner, isActive: false)
      try await session.uploadV1(KeySet(owner.identity, oneTime: [1]), as: owner)
      try await session.uploadV1(KeySet(owner.identity, oneTime: [1]), as: inactive)
      let away = try await session.register(fetches: false)
      try await session.uploadV1(KeySet(away.identity, oneTime: [1]), as: away)
      let keyless = try await session.register()
      let paths = [
        "\(session.numbers.draw())", "\(session.numbers.draw())/1", "\(session.numbers.draw())/*", "\(owner.number)/2",
        "\(owner.number)/9", "\(away.number)/1", "\(away.number)/*", "\(keyless.number)/1", "\(keyless.number)/*",
        "\(keyless.number)", "x/1",
      ]
      for path in paths { try await session.get("/v1/keys/\(path)", as: caller).expect(404) }
      // The refused requests took no key.
      try await session.get("/v1/keys", as: away).expect(200, json: ["count": 1])
    },
    Rule("1.6", "a selector that is neither a number nor * is refused with 422", .g2) { session in
      let owner = try await session.register()
      try await session.upload(KeySet(owner.identity, oneTime: [1]), as: owner)
      for selector in ["x", "1x", "**"] {
        for version in ["v1", "v2"] {
          try await session.get("/\(version)/keys/\(owner.number)/\(selector)", as: owner).expect(422)
        }
      }
    },
    Rule("1.6", "an unknown relay is not found, an empty one is none") { session in
      let owner = try await session.register()
      try await session.upload(KeySet(owner.identity, oneTime: [1]), as: owner)
      for path in ["/v1/keys/\(owner.number)", "/v1/keys/\(owner.number)/1", "/v2/keys/\(owner.number)/*"] {
        let caller = try await session.register()
        for name in ["no-such-relay", "NOT%20A%20NAME"] {
          try await session.get("\(path)?relay=\(name)", as: caller).expect(404)
        }
        try await session.get("\(path)?relay=", as: caller).expect(200)
      }
    },
    Rule("1.13", "a number that a relay does not know is not found there") { session in
      let caller = try await session.register()
      guard let relay = session.relays.first else { throw RuleSkipped(reason: "needs --relay") }
      for relay in session.relays {
        for version in ["v1", "v2"] {
          let path = "/\(version)/keys/\(session.numbers.draw())/*?relay=\(relay)"
          try await session.get(path, as: caller).expect(404)
        }
      }
      let path = "/v1/receipt/\(session.numbers.draw())/1?relay=\(relay)"
      try await session.put(path, as: caller).expect(404)
    },
  ]

  /// The ids of the next `count` keys.
  private static func ids(
    _ owner: Device, _ selector: String, _ session: Session, _ caller: Device, count: Int
  ) async throws -> [Int64] {
    var ids: [Int64] = []
    for _ in 0..<count {
      let answer = try await session.get("/v1/keys/\(owner.number)/\(selector)", as: caller)
      ids += try answer.list("keys").compactMap { $0["keyId"]?.integer }
    }
    return ids
  }

  private static func shown(_ key: (id: Int, key: String), of device: Device) -> JSON {
    [
      "deviceId": JSON(device.id), "keyId": JSON(key.id), "publicKey": .string(key.key),
      "identityKey": .string(device.identity.publicKey), "registrationId": JSON(device.registrationID),
    ]
  }
}
