import RelayClient
import RelayCore

/// WebSockets: how they are opened, and what is said over them apart from deliveries (reference 1.12, 2.9).
enum SocketRules {
  static let all: [Rule] = opening + conversation + requests

  private static let opening: [Rule] = [
    Rule("1.12", "a WebSocket opens with and without a trailing slash", .g3) { session in
      let device = try await session.register()
      let query = "?login=\(escaped(device.user))&password=\(escaped(device.password))"
      for path in ["/v1/websocket/", "/v1/websocket"] {
        try await session.openSocket(path + query).expectAlive()
      }
    },
    Rule("1.12.2", "credentials are read escaped, half escaped and not escaped at all", .g3) { session in
      // The password has characters that form decoding would spoil: a plus, a slash and padding.
      let device = try await session.register(password: "A+b/c+" + Device.randomPassword() + "==")
      let (number, password) = (escaped(device.number), escaped(device.password))
      for query in [
        "login=\(number)&password=\(password)", "login=\(number)&password=\(device.password)",
        "login=\(device.number)&password=\(password)", "login=\(device.number)&password=\(device.password)",
        "password=\(password)&login=\(number)",
      ] {
        try await session.openSocket("/v1/websocket/?" + query).expectAlive()
      }
    },
    Rule("1.12.2", "device 1 goes by its number or number.1, others by number.id", .g3) { session in
      let first = try await session.register()
      let linked = try await session.link(to: first)
      for (user, password) in [
        (first.number, first.password), (first.number + ".1", first.password), (linked.user, linked.password),
      ] {
        try await session.openSocket("/v1/websocket/?login=\(escaped(user))&password=\(escaped(password))")
          .expectAlive()
      }
    },
    Rule("1.12", "wrong credentials, unknown ones and none open no WebSocket, or one that is closed with 4001", .g3) {
      session in
      let device = try await session.register()
      let linked = try await session.link(to: device)
      let password = escaped(device.password)
      for (query, reason) in [
        ("login=\(escaped(device.number))&password=wrong", "the password is wrong"),
        ("login=\(escaped(session.numbers.draw()))&password=\(password)", "the number is unknown"),
        ("login=\(escaped(device.number)).7&password=\(password)", "the device is unknown"),
        ("login=\(escaped(linked.user))&password=\(password)", "the password is another device's"),
        ("login=\(escaped(device.number)).x&password=\(password)", "the device is no number"),
        ("login=&password=\(password)", "the name is empty"), ("password=\(password)", "the name is missing"),
        ("login=\(escaped(device.number))", "the password is missing"),
      ] {
        try await session.expectRefusal("/v1/websocket/?\(query)", because: reason)
      }
      try await session.expectRefusal("/v1/websocket/", because: "there are no credentials")
      try await session.connect(device).expectAlive()
    },
    Rule("1.12", "credentials in the Authorization header open a WebSocket too", .ours) { session in
      let device = try await session.register()
      try await session.openSocket("/v1/websocket/", headers: [("Authorization", device.authorization)]).expectAlive()
      let wrong = [("Authorization", Device.basic("\(device.user):wrong"))]
      try await session.expectRefusal("/v1/websocket/", headers: wrong, because: "the password is wrong")
    },
    Rule("1.12.1", "any Origin may ask, and offered extensions do no harm", .g3) { session in
      let device = try await session.register()
      let path = "/v1/websocket/?login=\(escaped(device.user))&password=\(escaped(device.password))"
      for headers in [
        [("Origin", "https://client.example")], [("Origin", "http://127.0.0.1/v1/websocket/")], [("Origin", "null")],
        [("Sec-WebSocket-Extensions", "permessage-deflate; client_max_window_bits")],
      ] {
        try await session.openSocket(path, headers: headers).expectAlive()
      }
    },
    Rule("1.12", "a plain request where WebSockets are to be had is refused", .g3) { session in
      let device = try await session.register()
      for path in ["/v1/websocket/", "/v1/websocket/provisioning/"] {
        try await session.get(path, as: device).expectRefusal()
      }
    },
  ]

  private static let conversation: [Rule] = [
    Rule("1.12.1", "a ping is answered with a pong of the same content", .g3) { session in
      let probe = try await session.connect(try await session.register())
      for content in [[], Array("are you there?".utf8)] as [[UInt8]] {
        try await probe.send(.ping(content))
        let answer = try await probe.next("a pong")
        try expect(answer == .pong(content), "a pong of the same content", answer.summary)
      }
    },
    Rule("1.12.4", "a keep-alive with an id is answered with 200, one without not at all", .g3) { session in
      let probe = try await session.connect(try await session.register())
      try await probe.ask("GET", "/v1/keepalive", id: nil)
      try await probe.expectSilence(because: "the keep-alive had no id")
      for id: UInt64 in [1, 7, 1 << 62] { try await probe.expectAlive(id: id) }
    },
    Rule("1.12.4", "text frames are ignored", .g3) { session in
      let probe = try await session.connect(try await session.register())
      for text in ["", "{}", #"{"type":1,"id":0}"#, "not JSON"] { try await probe.send(.text(text)) }
      try await probe.expectSilence(because: "text is not spoken here")
      try await probe.expectAlive()
    },
    Rule("1.12.4", "a frame that cannot be read, or is not what it says, closes the connection", .g3) { session in
      let device = try await session.register()
      // Cut off; of no type; a request without its request; an answer without its answer; of an unknown type.
      let frames: [[UInt8]] = [[0x08], [], [0x08, 0x01], [0x08, 0x02], [0x08, 0x03], [0xFF, 0xFF, 0xFF]]
      for frame in frames {
        let probe = try await session.connect(device)
        try await probe.send(.binary(frame))
        try await probe.expectClosing(because: "a frame could not be read")
      }
    },
    Rule("1.12.4", "answers with ids that nobody gave are ignored", .g3) { session in
      let probe = try await session.connect(try await session.register())
      for id: UInt64 in [0, 1, .max] {
        try await probe.answer(id)
        try await probe.answer(id, status: 500)
      }
      try await probe.expectSilence(because: "nobody waits for these answers")
      try await probe.expectAlive()
    },
    Rule("1.12.4", "a path that is not known is answered with 404, without an id not at all", .g3) { session in
      let probe = try await session.connect(try await session.register())
      try await probe.ask("GET", "/v1/no-such-thing", id: nil)
      try await probe.expectSilence(because: "the request had no id")
      for (verb, path) in [("GET", "/v1/no-such-thing"), ("PUT", "/api/v1/message")] {
        try await probe.ask(verb, path, id: 5)
        try expectEqual(try await probe.expectAnswer(5).status, 404, "status of \(verb) \(path)")
      }
    },
  ]

  private static let requests: [Rule] = [
    Rule("1.12.4", "requests over the WebSocket are answered as they are over HTTP, in the device's name", .ours) {
      session in
      let (sender, device) = (try await session.register(), try await session.register())
      try await session.upload(KeySet(sender.identity, oneTime: [1, 2, 3]), as: sender)
      let probe = try await session.connect(sender)
      try await probe.ask("GET", "/v2/keys", id: 11)
      let count = try await probe.expectAnswer(11)
      try expectEqual(count.status, 200, "status of GET /v2/keys")
      try expectEqual(JSON(bytes: count.body), ["count": 3], "body of GET /v2/keys")
      let bundle: JSON = ["messages": [message("Zm9vYg==")], "timestamp": 77]
      try await probe.ask("PUT", "/v1/messages/\(device.number)", id: 12, bundle)
      let accepted = try await probe.expectAnswer(12)
      try expectEqual(accepted.status, 200, "status of PUT /v1/messages/{number}")
      try expectEqual(JSON(bytes: accepted.body), ["needsSync": false], "body of PUT /v1/messages/{number}")
      let mail = try await session.mailbox(of: device)
      try expectEqual(mail.values("message"), ["Zm9vYg=="], "messages")
      try expectEqual(mail.values("source"), [.string(sender.number)], "sources")
    },
    Rule("1.12.4", "a refusal over the WebSocket has the status and body that it has over HTTP", .ours) { session in
      let (sender, device) = (try await session.register(), try await session.register())
      _ = try await session.link(to: device)
      let probe = try await session.connect(sender)
      try await probe.ask("PUT", "/v1/messages/\(device.number)", id: 1, ["messages": [message()]])
      let mismatched = try await probe.expectAnswer(1)
      try expectEqual(mismatched.status, 409, "status with a device missing")
      try expectEqual(JSON(bytes: mismatched.body), ["missingDevices": [2], "extraDevices": []], "body")
      try await probe.ask("PUT", "/v1/messages/\(session.numbers.draw())", id: 2, ["messages": [message()]])
      try expectEqual(try await probe.expectAnswer(2).status, 404, "status for an unknown number")
      try await probe.ask("PUT", "/v1/messages/\(device.number)", id: 3, ["messages": 7])
      try expectEqual(try await probe.expectAnswer(3).status, 415, "status of a malformed bundle")
    },
    Rule("1.12.4", "a request over the WebSocket without an id is done and not answered", .ours) { session in
      let (sender, device) = (try await session.register(), try await session.register())
      let probe = try await session.connect(sender)
      try await probe.ask("PUT", "/v1/messages/\(device.number)", id: nil, ["messages": [message()]])
      try await probe.expectSilence(because: "the request had no id")
      try await session.untilMailbox(of: device, holds: 1)
    },
  ]
}
