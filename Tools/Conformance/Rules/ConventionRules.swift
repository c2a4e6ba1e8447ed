/// Rules that hold for all endpoints (reference 1.1, 3.11).
enum ConventionRules {
  static let all: [Rule] = [
    Rule("1.1", "a trailing slash makes no difference") { session in
      let other = try await owner(session)
      // One caller for each form: nobody draws many prekeys of one device.
      for suffix in ["", "/"] {
        let caller = try await owner(session)
        for endpoint in try Endpoint.all(session, about: other) {
          try endpoint.expect(try await endpoint.ask(session, as: caller, suffix: suffix))
        }
      }
    },
    Rule("1.1", "an unknown path is not found, whatever the method") { session in
      let caller = try await session.register()
      for path in ["/v1/nothing", "/v3/keys", "/v1/keys/\(caller.number)/1/2", "/v1/account"] {
        for method in ["GET", "PUT", "POST", "DELETE"] {
          try await session.ask(method, path, as: caller).expect(404)
        }
      }
    },
    Rule("1.1", "a known path with another method is refused with 405") { session in
      let caller = try await session.register()
      for endpoint in try Endpoint.all(session, about: caller) {
        try await session.ask("PATCH", endpoint.path, endpoint.body, as: caller).expect(405)
      }
    },
    Rule("1.1", "success without a body is 200, with Content-Length 0") { session in
      let caller = try await owner(session)
      let empty = [
        try await session.put("/v1/keys", KeySet(caller.identity, oneTime: [1]).version1(), as: caller),
        try await session.put("/v1/accounts/wsc/", as: caller),
        try await session.delete("/v1/messages/\(caller.number)/1", as: caller),
      ]
      for answer in empty {
        try answer.expectDone()
        try answer.expect(
          answer.headers["content-length"] == "0", "Content-Length: 0", answer.headers["content-length"] ?? "none")
      }
    },
    Rule("1.1", "JSON may be declared with a charset, in any case, and sent without a length") { session in
      let caller = try await owner(session)
      let types = ["application/json;charset=utf-8", "application/json; charset=UTF-8", "Application/JSON"]
      for endpoint in try bodies(session, caller) {
        for type in types {
          try endpoint.expect(try await endpoint.ask(session, as: caller, extra: [("Content-Type", type)]))
        }
        var chunked = try endpoint.exchange(session, as: caller)
        if case .whole(let bytes) = chunked.body { chunked.body = .chunked(bytes) }
        try endpoint.expect(try await session.send(chunked))
      }
    },
    Rule("1.1", "a body of another media type, or of none, is refused with 415") { session in
      let caller = try await owner(session)
      for endpoint in try bodies(session, caller) {
        for type in ["text/plain", "application/xml", "application/jsonp"] {
          try await endpoint.ask(session, as: caller, extra: [("Content-Type", type)]).expect(415)
        }
        var untyped = try endpoint.exchange(session, as: caller)
        untyped.headers.removeAll { $0.name == "Content-Type" }
        try await session.send(untyped).expect(415)
      }
    },
    Rule("1.1", "a body that is not JSON is refused with 415") { session in
      try await refuses(["{", "[1,", "not json", "{\"a\":tru}", "{}{}"], session)
    },
    Rule("1.1", "JSON of the wrong shape is refused with 415") { session in
      try await refuses(["[]", "7", "\"x\"", "null"], session)
    },
    Rule("1.1", "JSON without its required properties is refused with 415") { session in
      try await refuses(["{}"], session)
    },
    Rule("1.1", "an absent body is refused with 415") { session in
      try await refuses([""], session)
    },
    Rule("1.1", "a Content-Type on GET and DELETE, and any Accept, are ignored") { session in
      let other = try await owner(session)
      for accept in ["application/json, text/plain, */*", "text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2"] {
        let caller = try await owner(session)
        for endpoint in try Endpoint.all(session, about: other) where endpoint.body == nil {
          let headers = [("Content-Type", "application/json"), ("Accept", accept)]
          try endpoint.expect(try await endpoint.ask(session, as: caller, extra: headers))
        }
      }
    },
    Rule("1.1", "a body where none is expected is ignored") { session in
      let caller = try await session.register()
      try await session.ask("DELETE", "/v1/accounts/gcm/", ["gcmRegistrationId": "x"], as: caller).expect(200)
      try await session.ask("DELETE", "/v1/messages/\(caller.number)/1", ["x": [1]], as: caller).expect(200)
    },
    Rule("1.1", "integers and booleans may be strings") { session in
      let device = try await session.register(extra: ["registrationId": "4242", "fetchesMessages": "true"])
      try await session.put(
        "/v1/messages/\(device.number)",
        [
          "timestamp": "1234",
          "messages": [
            ["type": "1", "destinationDeviceId": "1", "destinationRegistrationId": "4242", "body": "Zm9v"]
          ],
        ], as: device
      ).expect(409, json: ["missingDevices": [], "extraDevices": [1]])
      let sender = try await session.register()
      let stale: JSON = ["type": "1", "destinationDeviceId": "1", "destinationRegistrationId": "4243", "body": "Zm9v"]
      try await session.put("/v1/messages/\(device.number)", ["messages": [stale]], as: sender)
        .expect(410, json: ["staleDevices": [1]])
      let right = stale.with(["destinationRegistrationId": "4242"])
      try await session.put("/v1/messages/\(device.number)", ["messages": [right]], as: sender).expect(200)
    },
    Rule("1.1", "unknown properties are ignored, at every depth") { session in
      let device = try await session.register(extra: ["supportsSms": false, "capabilities": ["x": [1, nil]]])
      let keys = KeySet(device.identity, oneTime: [1]).version1().with(["pqKeys": [["keyId": 1]], "silent": true])
      try await session.put("/v1/keys", keys, as: device).expect(200)
      let sender = try await session.register()
      let bundle: JSON = [
        "destination": .string(device.number), "silent": true, "online": ["a": [["b": nil]]],
        "messages": [message().with(["silent": "x", "destination": 7])],
      ]
      try await session.put("/v1/messages/\(device.number)", bundle, as: sender).expect(200)
    },
    Rule("1.1", "an explicit null is the same as absence") { session in
      let device = try await session.register(extra: ["name": nil, "voice": nil, "supportsSms": nil, "pin": nil])
      let sender = try await session.register()
      let one = message().with(["content": nil, "relay": nil, "timestamp": nil, "destinationDeviceId": nil])
      let bundle: JSON = ["messages": [one], "relay": nil, "timestamp": nil]
      try await session.put("/v1/messages/\(device.number)", bundle, as: sender).expect(200)
      try await session.put("/v1/directory/tokens", ["contacts": nil], as: sender).expect(415)
    },
    Rule("1.1", "integers of 63 bits keep every digit") { session in
      let (sender, device) = (try await session.register(), try await session.register())
      let time: JSON = 9_007_199_254_740_993
      let bundle: JSON = ["messages": [message()], "timestamp": time]
      try await session.put("/v1/messages/\(device.number)", bundle, as: sender).expect(200)
      let shown = try await session.get("/v1/messages/", as: device).list("messages").first?["timestamp"]
      try expect(shown == time, "the timestamp that was sent", "another one")
    },
    Rule("1.1", "a number's + may be escaped in the path") { session in
      let sender = try await session.register()
      let device = try await owner(session)
      let escaped = "%2B" + device.number.dropFirst()
      try await session.get("/v1/accounts/dev/code/%2B\(session.numbers.draw().dropFirst())").expect(200)
      try await session.get("/v1/keys/\(escaped)/1", as: sender).expect(200)
      try await session.put("/v1/messages/\(escaped)", ["messages": [message()], "timestamp": 5], as: sender)
        .expect(200)
      try await session.delete("/v1/messages/%2B\(sender.number.dropFirst())/5", as: device).expect(200)
      try await session.mailbox(of: device).expectEmpty()
    },
    Rule("1.1", "a path segment that must be a number, and is none, is not found") { session in
      let caller = try await session.register()
      let asked: [(String, String)] = [
        ("GET", "/v1/attachments/x"), ("DELETE", "/v1/devices/x"), ("DELETE", "/v1/messages/\(caller.number)/x"),
        ("PUT", "/v1/receipt/\(caller.number)/x"),
      ]
      for (method, path) in asked { try await session.ask(method, path, as: caller).expect(404) }
    },
    Rule("3.11", "a body that is far too large is refused with 413 or 415") { session in
      let caller = try await owner(session)
      let filler = JSON.string(String(repeating: "a", count: 3 << 20))
      for endpoint in try bodies(session, caller) {
        let body = endpoint.body.map { $0.with(["filler": filler]) }
        // Without `Retry-After` it is no limit that could be waited out.
        try await endpoint.ask(session, as: caller, body: body).expect(413, 415)
      }
      try await session.get("/v1/keys", as: caller).expect(200)
    },
    Rule("1.1", "nothing that is sent brings an internal error") { session in
      let caller = try await session.register()
      let segments = ["%00", "%FF", "..%2F..", "%25", "+", "0", "-1", "99999999999999999999", "%F0%9F%92%A9"]
      for segment in segments {
        for path in ["/v1/keys/", "/v1/messages/", "/v1/attachments/", "/v1/devices/", "/v1/directory/"] {
          for method in ["GET", "DELETE"] {
            let answer = try await session.ask(method, path + segment, as: caller)
            try answer.expect(answer.status < 500, "any status below 500", answer.summary)
          }
        }
      }
    },
  ]

  /// An account with keys.
  private static func owner(_ session: Session) async throws -> Device {
    let device = try await session.register()
    try await session.upload(KeySet(device.identity, oneTime: Array(1...9)), as: device)
    return device
  }

  /// The endpoints that take JSON.
  private static func bodies(_ session: Session, _ caller: Device) throws -> [Endpoint] {
    try Endpoint.all(session, about: caller).filter { endpoint in
      // A message to oneself would be refused for other reasons.
      endpoint.body != nil && !endpoint.path.hasPrefix("/v1/messages/")
    }
  }

  /// Every endpoint that takes JSON refuses each of `texts` with 415.
  private static func refuses(_ texts: [String], _ session: Session) async throws {
    let caller = try await owner(session)
    for endpoint in try Endpoint.all(session, about: caller) where endpoint.body != nil {
      for text in texts {
        var exchange = try endpoint.exchange(session, as: caller)
        exchange.body = text.isEmpty ? .none : .whole(Array(text.utf8))
        try await session.send(exchange).expect(415, because: "with a body of \(text.isEmpty ? "nothing" : text)")
      }
    }
  }
}
