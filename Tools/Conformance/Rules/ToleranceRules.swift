import RelayClient
import RelayCore

/// The requests of the examined clients (reference Part 4), each as it sends them.
enum ToleranceRules {
  static let all: [Rule] = [
    Rule("4", "verification as the oldest clients and iOS do it: a signaling key and nothing else") { session in
      let device = try session.stranger()
      let body: JSON = ["signalingKey": .string(padded(randomBytes(52)))]
      try await session.confirm(try await session.code(for: device.number), body, as: device).expect(200)
      try await session.put("/v1/accounts/apn/", ["apnRegistrationId": "a"], as: device).expect(200)
      let sender = try await session.register()
      try await session.submit([message()], to: device.number, as: sender).expect(200)
    },
    Rule("4", "verification as Android did in 2014, then a GCM id", .g2) { session in
      let device = try session.stranger(registrationID: 4242)
      let body: JSON = [
        "signalingKey": .string(padded(randomBytes(52))), "supportsSms": true, "registrationId": 4242,
      ]
      let code = try await session.code(for: device.number)
      try await session.ask(
        "PUT", "/v1/accounts/code/\(code)", body, as: device, extra: [("Accept", "text/html, image/gif, *; q=.2")]
      ).expect(200)
      try await session.put("/v1/accounts/gcm/", ["gcmRegistrationId": "g"], as: device).expect(200)
      let sender = try await session.register()
      try await session.submit([message(registrationID: 4242)], to: device.number, as: sender).expect(200)
    },
    Rule("4", "verification as the Go client does it: pretty-printed", .g3) { session in
      let device = try session.stranger(registrationID: 77)
      let body: JSON = [
        "signalingKey": .string(padded(randomBytes(52))), "registrationId": 77, "fetchesMessages": true,
      ]
      var exchange = try session.exchange(
        "PUT", "/v1/accounts/code/\(try await session.code(for: device.number))", body, as: device)
      exchange.body = .whole(try body.bytes(isPretty: true))
      try await session.send(exchange).expect(200)
    },
    Rule("4", "verification and key upload as the JavaScript client does them", .g4) { session in
      let device = try session.stranger(registrationID: 77)
      let headers = [
        ("Content-Type", "application/json;charset=utf-8"), ("Accept", "application/json, text/plain, */*"),
      ]
      let code = try await session.code(for: device.number)
      let body: JSON = [
        "signalingKey": .string(padded(randomBytes(52))), "supportsSms": false, "fetchesMessages": true,
        "registrationId": 77,
      ]
      let plain = Device.basic("\(device.number):\(device.password)").filter { $0 != "=" }
      try await session.ask(
        "PUT", "/v1/accounts/code/\(code)", body, extra: headers + [("Authorization", plain)]
      ).expect(200)
      // From then on as device 1 by name, its keys numbered from 0.
      let named = Device.basic("\(device.number).1:\(device.password)").filter { $0 != "=" }
      let keys = KeySet(device.identity, oneTime: Array(0..<100), signed: 0)
      try await session.ask(
        "PUT", "/v2/keys", try keys.version2(), extra: headers + [("Authorization", named)]
      ).expect(200)
      let drawn = try await session.get("/v2/keys/\(device.number)/*", as: device).list("devices")
      try expectEqual(drawn.first?["preKey"]?["keyId"], 0, "key id")
      try expectEqual(drawn.first?["signedPreKey"]?["keyId"], 0, "signed key id")
    },
    Rule("1.1", "keys as Android uploaded them in 2014: with the fields of an answer, all of them 0", .g2) { session in
      let (device, caller) = (try await session.register(), try await session.register())
      let unknown: JSON = ["deviceId": 0, "registrationId": 0]
      func key(_ id: Int) -> JSON {
        unknown.with([
          "keyId": JSON(id), "publicKey": .string(randomPublicKey()), "identityKey": .string(device.identity.publicKey),
        ])
      }
      let body: JSON = ["lastResortKey": key(0xFF_FFFF), "keys": .array([key(1)])]
      try await session.put("/v1/keys", body, as: device).expect(200)
      let drawn = try await session.get("/v1/keys/\(device.number)/*", as: caller).list("keys")
      try expectEqual(drawn.map { $0["keyId"] ?? .null }, [1], "key ids")
      try expectEqual(drawn.map { $0["deviceId"] ?? .null }, [1], "device ids")
    },
    Rule("4", "keys as the Go client numbers them: beyond 24 bits, the last resort in between", .g3) { session in
      let (device, caller) = (try await session.register(), try await session.register())
      let keys = KeySet(device.identity, oneTime: [0xFF_FFFE, 0x100_0000, 0x100_0001], lastResort: 0xFF_FFFF)
      try await session.put("/v2/keys/", try keys.version2(), as: device).expect(200)
      var ids: [JSON] = []
      for _ in 0..<3 {
        ids += try await session.get("/v2/keys/\(device.number)/1", as: caller).list("devices")
          .map { $0["preKey"]?["keyId"] ?? .null }
      }
      try expectEqual(ids, [0xFF_FFFE, 0x100_0000, 0x100_0001], "key ids")
    },
    Rule("4", "messages as the Go client sends them: its own destination, an empty content, a padded body", .g3) {
      session in
      let (sender, device) = (try await session.register(), try await session.register(registrationID: 5))
      let bundle: JSON = [
        "messages": [message("Zm9vYg==", type: 3, registrationID: 5).with(["content": "", "relay": ""])],
        "timestamp": 1_447_500_000_000, "relay": "", "destination": .string(device.number),
      ]
      try await session.put("/v1/messages/\(device.number)", bundle, as: sender).expect(200, json: ["needsSync": false])
      let mail = try await session.mailbox(of: device)
      try expectEqual(mail.values("message"), ["Zm9vYg=="], "messages")
      try expectEqual(mail.values("content"), [nil], "contents")
    },
    Rule("4", "messages as the JavaScript client sends them: the time in each message comes back", .g4) { session in
      let (sender, device) = (try await session.register(), try await session.register())
      let bundle: JSON = ["messages": [message().with(["timestamp": 1_447_500_000_123])]]
      let extra = [("Content-Type", "application/json;charset=utf-8")]
      try await session.ask("PUT", "/v1/messages/\(device.number)", bundle, as: sender, extra: extra).expect(200)
      try expectEqual(try await session.mailbox(of: device).values("timestamp"), [1_447_500_000_123], "timestamps")
      try await session.put("/v1/receipt/\(sender.number)/1447500000123", as: device).expect(200)
      try expectEqual(
        try await session.mailbox(of: sender).values("timestamp"), [1_447_500_000_123], "the receipt's timestamp")
    },
    Rule("4", "messages as iOS posted them: times in seconds do no harm") { session in
      let (sender, device) = (try await session.register(), try await session.register())
      let one: JSON = [
        "type": 1, "destination": .string(device.number), "body": "Zm9v", "timestamp": 1_400_000_000,
        "destinationDeviceId": 1, "destinationRegistrationId": "",
      ]
      let bundle: JSON = ["messages": [one.without("destinationRegistrationId")]]
      let json = try await session.post("/v1/messages/", bundle, as: sender).expectJSON()
      try expectEqual(json["failure"], [], "failure")
      try await session.mailbox(of: device).expectCount(1)
    },
    Rule("4", "a first message to the own number, for device 1, is mended by its 409", .g4) { session in
      let device = try await session.register()
      try await session.submit([message()], to: device.number, as: device)
        .expect(409, json: ["missingDevices": [], "extraDevices": [1]])
      try await session.submit([], to: device.number, as: device).expect(200)
    },
    Rule("4", "a look-up as the oldest clients make it: raw standard Base64 in the path") { session in
      let caller = try await session.register()
      let number = try session.numbers.draw { $0.contains("/") && !$0.contains("//") && !$0.hasPrefix("/") }
      try await session.get("/v1/directory/\(try Token.of(number))", as: caller).expect(404)
      _ = try await session.register(number)
      try await session.settling {
        try await session.get("/v1/directory/\(try Token.of(number))", as: caller).expect(200)
      }
    },
    Rule("4", "an attachment's blob is asked for with a Content-Type and no Authorization") { session in
      let device = try await session.register()
      let json = try await session.ask(
        "GET", "/v1/attachments/", as: device, extra: [("Content-Type", "application/json")]
      ).expectJSON()
      guard let location = json["location"]?.string, let id = json["id"]?.integer else {
        throw RuleFailure(expected: "id and location", got: "something else")
      }
      var upload = Exchange("PUT", location)
      upload.headers = [("Content-Type", "application/octet-stream")]
      upload.body = .whole([1, 2, 3])
      try await session.send(upload).expect(200)
      let place = try await session.get("/v1/attachments/\(id)", as: device).expectJSON()["location"]?.string ?? ""
      var download = Exchange("GET", place)
      download.headers = [("Content-Type", "application/octet-stream"), ("Accept", "application/octet-stream")]
      try await session.send(download).expect(200)
    },
    Rule("4", "a client that retries at once on what it does not know finds 415, not 400 or 422", .g4) { session in
      let device = try await session.register()
      var exchange = try session.exchange("PUT", "/v1/messages/\(device.number)", [:], as: device)
      exchange.body = .whole(Array("{".utf8))
      for _ in 0..<5 { try await session.send(exchange).expect(415) }
    },
  ]
}
