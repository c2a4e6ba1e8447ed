import RelayCore

/// Contact look-ups (reference 1.11, 2.1).
enum DirectoryRules {
  static let all: [Rule] = [
    Rule("1.11", "known tokens are answered in the order of the request, unknown ones left out") { session in
      let caller = try await session.register()
      var known: [String] = []
      for _ in 0..<3 { known.append(try Token.of(try await session.register().number)) }
      let unknown = try Token.of(session.numbers.draw())
      let asked = [known[2], unknown, known[0], known[1]]
      let entries = [known[2], known[0], known[1]].map { ["token": .string($0)] as JSON }
      try await expectEntries(entries, of: asked, session, caller)
      for tokens in [[], [unknown]] { try await lookUp(tokens, session, caller).expect(200, json: ["contacts": []]) }
    },
    Rule("1.11", "one token is asked for in the path: 200 with its entry, or 404") { session in
      let (caller, device) = (try await session.register(), try await session.register())
      let token = try Token.of(device.number)
      try await session.settling {
        try await session.get("/v1/directory/\(Token.urlSafe(token))", as: caller)
          .expect(200, json: ["token": .string(token)])
      }
      let unknown = Token.urlSafe(try Token.of(session.numbers.draw()))
      try await session.get("/v1/directory/\(unknown)", as: caller).expect(404)
    },
    Rule("1.11", "a token in the path may hold slashes, raw or escaped, and plus signs") { session in
      let caller = try await session.register()
      for mark in ["/", "+"] {
        let number = try session.numbers.draw { $0.contains(mark) && !$0.contains("//") && !$0.hasPrefix("/") }
        _ = try await session.register(number)
        let token = try Token.of(number)
        let escaped = token.replacing("/", with: "%2F").replacing("+", with: "%2B")
        for spelling in [token, escaped, Token.urlSafe(token)] {
          try await session.settling {
            try await session.get("/v1/directory/\(spelling)", as: caller).expect(
              200, json: ["token": .string(token)])
          }
        }
      }
    },
    Rule("1.11", "tokens are read padded and URL-safe, and answered unpadded in the standard alphabet") { session in
      let caller = try await session.register()
      let number = try session.numbers.draw { $0.contains("/") || $0.contains("+") }
      _ = try await session.register(number)
      let token = try Token.of(number)
      for spelling in [token, token + "==", Token.urlSafe(token), Token.urlSafe(token) + "=="] {
        try await expectEntries([["token": .string(token)]], of: [spelling], session, caller)
      }
    },
    Rule("1.11", "a token that is not the Base64 of 10 bytes is refused: 400 in a list, 404 in the path") { session in
      let caller = try await session.register()
      let good = try Token.of(caller.number)
      for token in ["x", "AAAA", "AAAAAAAAAAAAAAAA", "!!!!!!!!!!!!!!", "AAAAAAAAAAAAA"] {
        try await lookUp([good, token], session, caller).expect(400)
        try await session.get("/v1/directory/\(token)", as: caller).expect(404)
      }
      try await lookUp([""], session, caller).expect(400)
    },
    Rule("1.11", "supportsSms and voice stand, as booleans, exactly when the account says so") { session in
      let caller = try await session.register()
      for properties in [["supportsSms"], ["voice"], ["supportsSms", "voice"], []] {
        let extra = Dictionary(uniqueKeysWithValues: properties.map { ($0, JSON.boolean(true)) })
        let device = try await session.register(extra: extra)
        let token = try Token.of(device.number)
        try await expectEntries([JSON.object(["token": .string(token)]).with(extra)], of: [token], session, caller)
      }
    },
    Rule("1.11", "a thousand tokens are answered at once") { session in
      let (caller, device) = (try await session.register(), try await session.register())
      let token = try Token.of(device.number)
      var tokens = try (0..<999).map { _ in try Token.of(session.numbers.draw()) }
      tokens.append(token)
      try await expectEntries([["token": .string(token)]], of: tokens, session, caller)
    },
    Rule("1.11", "a request without its list, or with something else in it, is refused with 415") { session in
      let caller = try await session.register()
      let bodies: [JSON] = [[:], ["contacts": nil], ["contacts": [:]], ["contacts": [[:]]], ["contacts": [7]], []]
      for body in bodies { try await session.put("/v1/directory/tokens", body, as: caller).expect(415) }
    },
    Rule("3.7", "who has no way to be reached is not listed, and is no longer when registered anew without one") {
      session in
      let (caller, device) = (try await session.register(), try await session.register())
      let path = "/v1/directory/\(Token.urlSafe(try Token.of(device.number)))"
      try await session.settling { try await session.get(path, as: caller).expect(200) }
      _ = try await session.register(device.number, fetches: false)
      try await session.settling { try await session.get(path, as: caller).expect(404) }
    },
    Rule("3.6", "more tokens than the limit's bucket holds are refused with 413") { session in
      let caller = try await session.register()
      let tokens = try (0..<50_001).map { _ in try Token.of(session.numbers.draw()) }
      let body: JSON = ["contacts": .array(tokens.map { .string($0) })]
      let exchange = try session.exchange("PUT", "/v1/directory/tokens", body, as: caller)
      let answer = try await session.target.send(exchange).expect(200, 413)
      if answer.status == 200 { throw RuleSkipped(reason: "the server takes 50001 tokens at once") }
    },
  ]

  private static func lookUp(_ tokens: [String], _ session: Session, _ caller: Device) async throws -> Answer {
    try await session.put("/v1/directory/tokens", ["contacts": .array(tokens.map { .string($0) })], as: caller)
  }

  /// Expects exactly `entries` for `tokens`.
  private static func expectEntries(_ entries: [JSON], of tokens: [String], _ session: Session, _ caller: Device)
    async throws
  {
    try await session.settling {
      try await lookUp(tokens, session, caller).expect(200, json: ["contacts": .array(entries)])
    }
  }
}
