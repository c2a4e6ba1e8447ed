import RelayClient

/// Prekeys of version 2, with a signed one (reference 1.7).
enum KeysV2Rules {
  static let all: [Rule] = uploads + draws + signed

  private static let uploads: [Rule] = [
    Rule("1.7", "an upload is answered without a body; both versions count one supply", .g3) { session in
      let device = try await session.register()
      let keys = KeySet(device.identity, oneTime: [1, 2, 3])
      try await session.put("/v2/keys", try keys.version2(), as: device).expectDone()
      for path in ["/v1/keys", "/v2/keys", "/v2/keys/"] {
        try await session.get(path, as: device).expect(200, json: ["count": 3])
      }
      try await session.uploadV1(KeySet(device.identity, oneTime: [1]), as: device)
      try await session.get("/v2/keys", as: device).expect(200, json: ["count": 1])
    },
    Rule("1.7", "an upload that lacks something required is refused and changes nothing", .g3) { session in
      let device = try await session.register()
      let body = try KeySet(device.identity, oneTime: [1, 2]).version2()
      try await session.put("/v2/keys", body, as: device).expect(200)
      let signed = body["signedPreKey"] ?? .null
      var wrong = ["identityKey", "preKeys", "signedPreKey"].map { body.without($0) }
      wrong += [body.with(["identityKey": ""]), body.with(["preKeys": [["keyId": 1]]])]
      wrong += ["publicKey", "signature"].map { body.with(["signedPreKey": signed.without($0)]) }
      for body in wrong { try await session.put("/v2/keys", body, as: device).expect(415, 422) }
      try await session.get("/v2/keys", as: device).expect(200, json: ["count": 2])
    },
    Rule("1.7", "the last resort may be absent: the one before stays", .g4) { session in
      let (owner, caller) = (try await session.register(), try await session.register())
      let first = KeySet(owner.identity, oneTime: [], lastResort: 77)
      try await session.upload(first, as: owner)
      let second = KeySet(owner.identity, oneTime: [5])
      try await session.put("/v2/keys", try second.version2().without("lastResortKey"), as: owner).expect(200)
      for expected in [second.oneTime[0], first.lastResort] {
        let device = try await draw(owner, session, caller)
        try expectEqual(device["preKey"], KeySet.bare(expected), "prekey")
        try expectEqual(device["signedPreKey"], try second.signedJSON(), "signed prekey")
      }
    },
    Rule("6.10", "a signed prekey that the identity key did not sign is refused with 415", .ours) { session in
      let device = try await session.register()
      let keys = KeySet(device.identity, oneTime: [1])
      let body = try keys.version2()
      let other = try await session.register()
      let foreign = KeySet.bare(keys.signed).with([
        "signature": .string(try other.identity.signature(of: keys.signed.key))
      ])
      let short = KeySet.bare(keys.signed).with(["signature": "AAAA"])
      for signed in [foreign, short] {
        try await session.put("/v2/keys", body.with(["signedPreKey": signed]), as: device).expect(415)
      }
      try await session.get("/v2/keys", as: device).expect(200, json: ["count": 0])
      try await session.put("/v2/keys", body, as: device).expect(200)
      for signed in [foreign, short] { try await session.put("/v2/keys/signed", signed, as: device).expect(415) }
      try await session.get("/v2/keys/signed", as: device).expect(200, json: try keys.signedJSON())
    },
    Rule("6.10", "only device 1 may change the account's identity key: 403 for others", .ours) { session in
      let first = try await session.register()
      try await session.upload(KeySet(first.identity, oneTime: []), as: first)
      let linked = try await session.link(to: first)
      let other = try await session.register()
      let foreign = KeySet(other.identity, oneTime: [1])
      try await session.put("/v2/keys", try foreign.version2(), as: linked).expect(403)
      try await session.put("/v1/keys", foreign.version1(), as: linked).expect(403)
      try await session.get("/v2/keys", as: linked).expect(200, json: ["count": 0])
      try await session.upload(KeySet(first.identity, oneTime: [1]), as: linked)
      try await session.upload(foreign, as: first)
      let drawn = try await session.get("/v2/keys/\(first.number)/1", as: other).expectJSON()
      try expectEqual(drawn["identityKey"], .string(other.identity.publicKey), "identity key")
    },
  ]

  private static let draws: [Rule] = [
    Rule("1.7", "a draw has exactly its properties, the keys as uploaded", .g3) { session in
      let owner = try await session.register(registrationID: 4242)
      let caller = try await session.register()
      let keys = KeySet(owner.identity, oneTime: [0], signed: 0)
      try await session.upload(keys, as: owner)
      for preKey in [keys.oneTime[0], keys.lastResort] {
        let device: JSON = [
          "deviceId": 1, "registrationId": 4242, "signedPreKey": try keys.signedJSON(), "preKey": KeySet.bare(preKey),
        ]
        try await session.get("/v2/keys/\(owner.number)/1", as: caller)
          .expect(200, json: ["identityKey": .string(owner.identity.publicKey), "devices": [device]])
      }
    },
    Rule("1.7", "one-time keys come by smallest id, each once, the signed one every time", .g3) { session in
      let (owner, caller) = (try await session.register(), try await session.register())
      let keys = KeySet(owner.identity, oneTime: [8, 2])
      try await session.upload(keys, as: owner)
      for id: JSON in [2, 8, 0xFF_FFFF] {
        let device = try await draw(owner, session, caller)
        try expectEqual(device["preKey"]?["keyId"], id, "key id")
        try expectEqual(device["signedPreKey"], try keys.signedJSON(), "signed prekey")
      }
    },
    Rule("1.7", "keys of version 1 are drawn by version 2 with a null signed prekey, and the reverse", .g3) { session in
      let (owner, caller) = (try await session.register(), try await session.register())
      try await session.uploadV1(KeySet(owner.identity, oneTime: [1]), as: owner)
      let device = try await draw(owner, session, caller)
      try expectEqual(device["signedPreKey"], .null, "signed prekey")
      try expectEqual(device["preKey"]?["keyId"], 1, "key id")
      let keys = KeySet(owner.identity, oneTime: [2])
      try await session.upload(keys, as: owner)
      let drawn = try await session.get("/v1/keys/\(owner.number)/1", as: caller).list("keys")
      try expectEqual(drawn.map { $0["publicKey"] ?? .null }, [.string(keys.oneTime[0].key)], "public keys")
    },
    Rule("1.7", "a device with a signed prekey alone is drawn with a null prekey", .g4) { session in
      let (owner, caller) = (try await session.register(), try await session.register())
      let keys = KeySet(owner.identity, oneTime: [])
      try await session.put("/v2/keys", try keys.version2().without("lastResortKey"), as: owner).expect(200)
      let device = try await draw(owner, session, caller)
      try expectEqual(device["preKey"], .null, "prekey")
      try expectEqual(device["signedPreKey"], try keys.signedJSON(), "signed prekey")
      try await session.get("/v1/keys/\(owner.number)/1", as: caller).expect(404)
    },
    Rule("1.7", "* draws of each active device", .g3) { session in
      let (owner, caller) = (try await session.register(), try await session.register())
      try await session.upload(KeySet(owner.identity, oneTime: [1]), as: owner)
      let second = try await session.link(to: owner, registrationID: 22)
      let keys = KeySet(owner.identity, oneTime: [11])
      try await session.upload(keys, as: second)
      _ = try await session.link(to: owner, isActive: false)
      let devices = try await session.get("/v2/keys/\(owner.number)/*", as: caller).list("devices")
      try expectEqual(devices.map { $0["deviceId"] ?? .null }, [1, 2], "device ids")
      try expectEqual(devices.last?["preKey"], KeySet.bare(keys.oneTime[0]), "prekey of device 2")
      let one = try await session.get("/v2/keys/\(owner.number)/2", as: caller).list("devices")
      try expectEqual(one.map { $0["deviceId"] ?? .null }, [2], "device ids")
    },
    Rule("1.7", "who is unknown, not active or without keys is not found", .g3) { session in
      let (owner, caller) = (try await session.register(), try await session.register())
      try await session.upload(KeySet(owner.identity, oneTime: [1]), as: owner)
      let away = try await session.register(fetches: false)
      try await session.upload(KeySet(away.identity, oneTime: [1]), as: away)
      let keyless = try await session.register()
      let paths = [
        "\(session.numbers.draw())/1", "\(session.numbers.draw())/*", "\(owner.number)/9", "\(away.number)/1",
        "\(keyless.number)/*",
      ]
      for path in paths { try await session.get("/v2/keys/\(path)", as: caller).expect(404) }
    },
  ]

  private static let signed: [Rule] = [
    Rule("1.7", "a signed prekey is replaced by itself, and shown as uploaded", .g3) { session in
      let (owner, caller) = (try await session.register(), try await session.register())
      try await session.upload(KeySet(owner.identity, oneTime: [1, 2]), as: owner)
      let other = KeySet(owner.identity, oneTime: [], signed: 0)
      try await session.put("/v2/keys/signed", try other.signedJSON(), as: owner).expectDone()
      try await session.get("/v2/keys/signed", as: owner).expect(200, json: try other.signedJSON())
      let device = try await draw(owner, session, caller)
      try expectEqual(device["signedPreKey"], try other.signedJSON(), "signed prekey")
      try await session.get("/v2/keys", as: owner).expect(200, json: ["count": 1])
    },
    Rule("1.7", "without a signed prekey there is none to be found", .g3) { session in
      let device = try await session.register()
      try await session.get("/v2/keys/signed", as: device).expect(404)
      try await session.uploadV1(KeySet(device.identity, oneTime: [1]), as: device)
      try await session.get("/v2/keys/signed", as: device).expect(404)
    },
    Rule("3.1", "a linked device counts exactly when it has a signed prekey", .g4) { session in
      let (owner, sender) = (try await session.register(), try await session.register())
      let linked = try await session.link(to: owner, isActive: false)
      try await session.submit([message()], to: owner.number, as: sender).expect(200)
      try await session.uploadV1(KeySet(owner.identity, oneTime: [1]), as: linked)
      try await session.submit([message()], to: owner.number, as: sender).expect(200)
      try await session.put("/v2/keys/signed", try KeySet(owner.identity, oneTime: []).signedJSON(), as: linked)
        .expect(200)
      try await session.submit([message()], to: owner.number, as: sender)
        .expect(409, json: ["missingDevices": [2], "extraDevices": []])
    },
  ]

  /// The part of a draw that belongs to device 1.
  private static func draw(_ owner: Device, _ session: Session, _ caller: Device) async throws -> JSON {
    let devices = try await session.get("/v2/keys/\(owner.number)/1", as: caller).list("devices")
    guard let device = devices.first, devices.count == 1 else {
      throw RuleFailure(expected: "one device", got: "\(devices.count)")
    }
    return device
  }
}
