import RelayClient

/// Registration by codes and by number tokens (reference 1.4).
enum RegistrationRules {
  static let all: [Rule] = codes + verification + replacement + tokens

  private static let codes: [Rule] = [
    Rule("1.4", "the transport dev answers with a code as people read it: ddd-ddd") { session in
      _ = try await session.code(for: session.numbers.draw())
    },
    Rule("1.4", "a code that goes to the number leaves the answer empty") { session in
      for transport in ["sms", "voice"] {
        try await session.get("/v1/accounts/\(transport)/code/\(session.numbers.draw())").expectDone()
      }
    },
    Rule("1.4", "a request for a code ignores any Authorization and the query `client`") { session in
      for header in ["Basic", "Basic !!!!", "Bearer abc", try session.stranger().authorization] {
        try await session.ask(
          "GET", "/v1/accounts/dev/code/\(session.numbers.draw())?client=ios", extra: [("Authorization", header)]
        ).expect(200)
      }
    },
    Rule("1.4", "what is no number is refused with 400, before its transport is looked at") { session in
      let texts = ["+123456789", "9990000000000", "+999000000a", "+1234567890123456", "+", "x", "+999%2000000000"]
      for text in texts {
        for transport in ["dev", "sms", "pigeon"] {
          try await session.get("/v1/accounts/\(transport)/code/\(text)").expect(400)
        }
      }
    },
    Rule("1.4", "numbers have up to 15 digits, and in four countries as few as nine") { session in
      let six = String(Int.random(in: 100_000...999_999))
      for number in ["+298\(six)", "+240\(six)", "+687\(six)", "+689\(six)", "+999000000\(six)"] {
        try await session.get("/v1/accounts/dev/code/\(number)").expect(200)
      }
    },
    Rule("1.4", "an unknown transport is refused with 415") { session in
      for transport in ["pigeon", "SMS", "de"] {
        try await session.get("/v1/accounts/\(transport)/code/\(session.numbers.draw())").expect(415)
      }
    },
    Rule("3.6", "requests for codes of one number are limited with 413 and Retry-After") { session in
      let number = session.numbers.draw()
      for _ in 0..<20 {
        let answer = try await session.target.send(Exchange("GET", "/v1/accounts/dev/code/\(number)"))
        guard answer.status == 413 else {
          try answer.expect(200)
          continue
        }
        return try answer.expect(answer.retryAfter.map { $0 > 0 } == true, "Retry-After", "none")
      }
      throw RuleSkipped(reason: "20 requests for one number were not limited")
    },
    Rule("1.4", "the voice gateway's document holds the digits, and nothing else is reflected") { session in
      let answer = try await session.post("/v1/accounts/voice/twiml/123456").expect(200)
      try answer.expect(
        answer.mediaType == "application/xml" || answer.mediaType == "text/xml", "XML", answer.mediaType ?? "no type")
      try answer.expect(
        answer.text.filter(\.isNumber).contains("123456"), "the six digits", "\(answer.body.count) other bytes")
      for text in ["%3CPlay%3Ex", "12345x", "1234567", "%26amp"] {
        try await session.post("/v1/accounts/voice/twiml/\(text)").expectRefusal()
      }
    },
  ]

  private static let verification: [Rule] = [
    Rule("1.4", "the right code makes an account, under both spellings of the path") { session in
      for path in ["/v1/accounts/code/", "/v1/acccounts/code/"] {
        let device = try session.stranger()
        try await session.get("/v1/keys", as: device).expect(401)
        let code = try await session.code(for: device.number)
        try await session.put(path + code, attributes(), as: device).expectDone()
        try await session.get("/v1/keys", as: device).expect(200)
      }
    },
    Rule("1.4", "a wrong code is refused with 403 and costs the right one nothing") { session in
      let device = try session.stranger()
      let code = try await session.code(for: device.number)
      try await session.confirm(code == "123456" ? "654321" : "123456", as: device).expect(403)
      try await session.confirm(code, as: device).expect(200)
    },
    Rule("1.4", "a code is used once", .g2) { session in
      let device = try session.stranger()
      let code = try await session.code(for: device.number)
      try await session.confirm(code, as: device).expect(200)
      try await session.confirm(code, as: device).expect(403)
    },
    Rule("1.4", "a newer code takes the place of the older one") { session in
      let device = try session.stranger()
      let older = try await session.code(for: device.number)
      let newer = try await session.code(for: device.number)
      guard older != newer else { throw RuleSkipped(reason: "the server drew the same code twice") }
      try await session.confirm(older, as: device).expect(403)
      try await session.confirm(newer, as: device).expect(200)
    },
    Rule("1.4", "without a pending code, and with that of another number, it is 403") { session in
      let code = try await session.code(for: session.numbers.draw())
      try await session.confirm(code, as: try session.stranger()).expect(403)
    },
    Rule("1.4", "a code must be digits alone: as it is displayed it is refused") { session in
      let device = try session.stranger()
      let code = try await session.code(for: device.number)
      try await session.confirm("\(code.prefix(3))-\(code.suffix(3))", as: device).expect(403)
    },
    Rule("1.4", "guessing a code comes to an end") { session in
      let device = try session.stranger()
      let code = try await session.code(for: device.number)
      let wrong = code == "123456" ? "654321" : "123456"
      for _ in 0..<20 {
        let exchange = try session.exchange("PUT", "/v1/accounts/code/\(wrong)", attributes(), as: device)
        // The limit of tries by number stops a guesser as well.
        if try await session.target.send(exchange).expect(403, 413).status == 413 { return }
      }
      try await session.confirm(code, as: device).expect(403, because: "after 20 wrong tries")
    },
    Rule("1.4", "a code is redeemed after the credentials were read: 401 before 403") { session in
      try await session.put("/v1/accounts/code/123456", attributes()).expect(401)
    },
    Rule("1.4", "a device id in the credentials to be created is ignored", .g2) { session in
      var device = try session.stranger()
      let code = try await session.code(for: device.number)
      device.id = 7
      try await session.confirm(code, as: device).expect(200)
      try await session.get("/v1/keys", as: device).expect(401)
      device.id = 1
      try await session.get("/v1/keys", as: device).expect(200)
    },
    Rule("1.4", "a signaling key is required and not empty") { session in
      let device = try session.stranger()
      let body = attributes()
      try await session.confirm("123456", body.without("signalingKey"), as: device).expect(415, 422)
      let other = try session.stranger()
      try await session.confirm("123456", body.with(["signalingKey": ""]), as: other).expect(415, 422)
    },
    Rule("1.4", "a device's name has at most 50 characters, else 422", .g4) { session in
      _ = try await session.register(extra: ["name": .string(String(repeating: "ä", count: 50))])
      let device = try session.stranger()
      let code = try await session.code(for: device.number)
      let name = JSON.string(String(repeating: "a", count: 51))
      try await session.confirm(code, attributes().with(["name": name]), as: device).expect(422)
      try await session.confirm(code, as: device).expect(200)
    },
    Rule("1.4", "a client may name itself in X-Signal-Agent", .g4) { session in
      let device = try session.stranger()
      let code = try await session.code(for: device.number)
      try await session.ask(
        "PUT", "/v1/accounts/code/\(code)", attributes(), as: device, extra: [("X-Signal-Agent", "OWA 1.0 (x; y)")]
      ).expect(200)
    },
  ]

  private static let replacement: [Rule] = [
    Rule("1.4", "registering again makes the former password void") { session in
      let former = try await session.register()
      let present = try await session.register(former.number)
      try await session.get("/v1/keys", as: former).expect(401)
      try await session.get("/v1/keys", as: present).expect(200)
    },
    Rule("1.4", "registering again removes linked devices", .g2) { session in
      let former = try await session.register()
      let linked = try await session.link(to: former)
      let present = try await session.register(former.number)
      try await session.get("/v1/keys", as: linked).expect(401)
      let sender = try await session.register()
      try await session.submit([message()], to: present.number, as: sender).expect(200)
    },
    Rule("1.4", "registering again removes prekeys and identity key") { session in
      let former = try await session.register()
      try await session.upload(KeySet(former.identity, oneTime: [1, 2]), as: former)
      let present = try await session.register(former.number)
      let caller = try await session.register()
      try await session.get("/v1/keys", as: present).expect(200, json: ["count": 0])
      try await session.get("/v1/keys/\(present.number)/1", as: caller).expect(404)
      try await session.get("/v2/keys/\(present.number)/1", as: caller).expect(404)
      try await session.get("/v2/keys/signed", as: present).expect(404)
    },
    Rule("1.4", "registering again removes stored messages", .g3) { session in
      let (sender, former) = (try await session.register(), try await session.register())
      try await session.send(to: former.number, timestamp: 1, as: sender)
      let present = try await session.register(former.number)
      try await session.mailbox(of: present).expectEmpty()
    },
    Rule("1.4", "registering again is seen by senders at once: their old registration id is stale", .g2) { session in
      let sender = try await session.register()
      let former = try await session.register(registrationID: 11)
      try await session.submit([message(registrationID: 11)], to: former.number, as: sender).expect(200)
      _ = try await session.register(former.number, registrationID: 12)
      try await session.submit([message(registrationID: 11)], to: former.number, as: sender)
        .expect(410, json: ["staleDevices": [1]])
      try await session.submit([message(registrationID: 12)], to: former.number, as: sender).expect(200)
    },
  ]

  private static let tokens: [Rule] = [
    Rule("2.6", "a number token that is not valid is refused with 403", .g3) { session in
      let device = try session.stranger()
      let texts = [
        "x", "\(device.number):1:2", "\(device.number):1415906573:af4f046107c21721224a",
        "\(session.numbers.draw()):1415906573:af4f046107c21721224a",
      ]
      for text in texts {
        let caller = try session.stranger(device.number)
        // One number's tries are limited: that refuses as well.
        let exchange = try session.exchange("PUT", "/v1/accounts/token/\(text)", attributes(), as: caller)
        if try await session.target.send(exchange).expect(403, 413).status == 413 { return }
      }
    },
    Rule("2.6", "an account gets a token for its number, by which the number is registered anew", .g4) { session in
      let device = try await session.register()
      let answer = try await session.get("/v1/accounts/token/", as: device).expect(200, 404)
      guard answer.status == 200 else { throw RuleSkipped(reason: "the server has no key for number tokens") }
      guard let token = try answer.expectJSON()["token"]?.string, token.hasPrefix(device.number + ":") else {
        throw RuleFailure(expected: "a token of the own number", got: "something else", request: answer.request)
      }
      var present = device
      present.password = Device.randomPassword()
      try await session.put("/v1/accounts/token/\(token)", attributes(), as: present).expectDone()
      try await session.get("/v1/keys", as: present).expect(200)
      try await session.get("/v1/keys", as: device).expect(401)
      let stranger = try session.stranger()
      try await session.put("/v1/accounts/token/\(token)", attributes(), as: stranger).expect(403)
    },
  ]
}
