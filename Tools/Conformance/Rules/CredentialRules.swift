import RelayCore

/// How devices prove themselves (reference 1.2, 5.2).
enum CredentialRules {
  static let all: [Rule] = [
    Rule("1.1", "what asks for credentials refuses their absence with 401 and a Basic challenge") { session in
      let other = try await session.register()
      for endpoint in try Endpoint.all(session, about: other) where endpoint.caller != .anyone {
        let answer = try await session.ask(endpoint.method, endpoint.path, endpoint.body).expect(401)
        let challenge = answer.headers["www-authenticate"] ?? "none"
        try answer.expect(
          challenge == "Basic realm=\"WhisperServer\"", "WWW-Authenticate: Basic realm=\"WhisperServer\"", challenge)
        try answer.expect(
          answer.mediaType == "text/plain" && (1...200).contains(answer.body.count), "a short plain text",
          "\(answer.body.count) bytes of \(answer.mediaType ?? "no type")")
      }
    },
    Rule("1.1", "unknown number, unknown device and wrong password are indistinguishable") { session in
      let device = try await session.register()
      var (unknown, other, wrong) = (try session.stranger(), device, device)
      unknown.password = device.password
      other.id = 2
      wrong.password = Device.randomPassword()
      var answers: [Answer] = []
      for caller in [unknown, other, wrong] { answers.append(try await session.get("/v1/keys", as: caller)) }
      for answer in answers {
        try answer.expect(401)
        try answer.expect(answer.body == answers[0].body, "the same body for all three", "another one")
        let (own, first) = (comparable(answer), comparable(answers[0]))
        try answer.expect(own == first, "the same headers for all three", "others")
      }
    },
    Rule("1.2", "the Base64 of credentials may lack its padding") { session in
      for extra in ["", "x", "xy"] {
        var device = try session.stranger()
        device.password += extra
        let unpadded = device.authorization.filter { $0 != "=" }
        let code = try await session.code(for: device.number)
        try await session.ask(
          "PUT", "/v1/accounts/code/\(code)", attributes(), extra: [("Authorization", unpadded)]
        ).expect(200)
        try await session.ask("GET", "/v1/keys", extra: [("Authorization", unpadded)]).expect(200)
        try await session.get("/v1/keys", as: device).expect(200)
      }
    },
    Rule("1.2", "device 1 may be named or not") { session in
      let device = try await session.register()
      for user in [device.number, device.number + ".1"] {
        let header = Device.basic("\(user):\(device.password)")
        try await session.ask("GET", "/v1/keys", extra: [("Authorization", header)]).expect(200)
      }
    },
    Rule("1.2", "the scheme's word may be written in any case") { session in
      let device = try await session.register()
      for scheme in ["basic", "BASIC"] {
        let header = scheme + device.authorization.dropFirst(5)
        try await session.ask("GET", "/v1/keys", extra: [("Authorization", header)]).expect(200)
      }
    },
    Rule("1.2", "a password may hold colons, dots and more, and is kept whole") { session in
      for password in ["a:b:c", "4uE8V2i05ATbQaRpUMivgA", "pZNrOTTP3xwdVKQC7/iUkw", "k+1.2/x==", "päss", "x"] {
        var device = try session.stranger()
        device.password = password
        try await session.confirm(try await session.code(for: device.number), as: device).expect(200)
        try await session.get("/v1/keys", as: device).expect(200)
        device.password = password.split(separator: ":").first.map(String.init) ?? ""
        try await session.get("/v1/keys", as: device).expect(password.contains(":") ? 401 : 200)
      }
    },
    Rule("1.2", "malformed credentials are refused with 401") { session in
      let device = try await session.register()
      let headers = [
        "Bearer abc", "Basic", "Basic ", "Basic !!!!", device.authorization + "!",
        Device.basic(device.number), Device.basic("\(device.number).x:\(device.password)"),
        Device.basic("\(device.number).:\(device.password)"), Device.basic("\(device.number).0:\(device.password)"),
        Device.basic("\(device.number.dropFirst()):\(device.password)"), Device.basic(":\(device.password)"),
        Device.basic("\(device.number):"),
      ]
      for header in headers {
        try await session.ask("GET", "/v1/keys", extra: [("Authorization", header)]).expect(401)
      }
    },
    Rule("1.2", "malformed credentials to be created are refused with 401") { session in
      let number = session.numbers.draw()
      let code = try await session.code(for: number)
      for header in ["Bearer abc", "Basic", Device.basic(number), Device.basic("\(number).x:secret")] {
        try await session.ask(
          "PUT", "/v1/accounts/code/\(code)", attributes(), extra: [("Authorization", header)]
        ).expect(401)
      }
    },
    Rule("1.2", "a device's password opens nothing of another device", .g2) { session in
      let first = try await session.register()
      let second = try await session.link(to: first)
      var (one, two) = (first, second)
      (one.password, two.password) = (second.password, first.password)
      try await session.get("/v1/keys", as: one).expect(401)
      try await session.get("/v1/keys", as: two).expect(401)
      try await session.get("/v1/keys", as: second).expect(200)
    },
    Rule("1.13", "a device's credentials open nothing of what peers ask") { session in
      let device = try await session.register()
      for path in ["/v1/federation/user_count", "/v1/federation/user_tokens/0"] {
        try await session.get(path, as: device).expect(401, 403, 404)
      }
    },
  ]

  /// The headers that must not differ: all but the time and the names of the connection or the request.
  private static func comparable(_ answer: Answer) -> [String: String] {
    answer.headers.filter { !["date", "x-request-id", "connection", "keep-alive"].contains($0.key) }
  }
}
