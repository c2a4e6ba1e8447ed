/// `POST /v1/messages/`, as the first generation sends (reference 1.8).
enum LegacyMessageRules {
  static let all: [Rule] = [
    Rule("1.8", "POST lists whom it reached, with and without a trailing slash") { session in
      let (sender, device) = (try await session.register(), try await session.register())
      // Texts that differ: a server may take what is equal for a repetition.
      for (path, body) in [("/v1/messages/", "Zm9v"), ("/v1/messages", "YmFy")] as [(String, JSON)] {
        let one = entry(device).with(["body": body])
        try expectLists(try await post([one], session, sender, path: path), [device.number], [])
      }
      let mail = try await session.mailbox(of: device)
      try expectEqual(mail.values("message"), ["Zm9v", "YmFy"], "messages")
      try expectEqual(mail.values("source"), Array(repeating: .string(sender.number), count: 2), "sources")
    },
    Rule("1.8", "POST lists whom it did not reach as failure, and reaches the others") { session in
      let sender = try await session.register()
      let (one, two) = (try await session.register(), try await session.register())
      let away = try await session.register(fetches: false)
      let unknown = session.numbers.draw()
      let messages = [
        entry(one), entry(unknown), entry(away), entry(two).with(["relay": ""]),
        entry(session.numbers.draw()).with(["relay": "no-such-relay"]),
      ]
      let failed = [unknown, away.number, messages[4]["destination"]?.string ?? ""]
      try expectLists(try await post(messages, session, sender), [one.number, two.number], failed)
      for device in [one, two] { try await session.mailbox(of: device).expectCount(1) }
    },
    Rule("1.8", "POST delivers to device 1 and asks for no other", .g2) { session in
      let (sender, device) = (try await session.register(), try await session.register(registrationID: 11))
      let linked = try await session.link(to: device)
      try expectLists(try await post([entry(device)], session, sender), [device.number], [])
      try await session.mailbox(of: device).expectCount(1)
      try await session.mailbox(of: linked).expectEmpty()
    },
    Rule("1.8", "POST takes integers as strings, and ignores what it does not know") { session in
      let (sender, device) = (try await session.register(), try await session.register())
      let one = entry(device).with(["type": "3", "timestamp": "1386576000", "relay": nil, "unknown": [1]])
      try expectLists(try await post([one], session, sender), [device.number], [])
      try expectEqual(try await session.mailbox(of: device).values("type"), [3], "types")
    },
    Rule("1.8", "POST without messages, a body or a destination is refused with 415") { session in
      let (sender, device) = (try await session.register(), try await session.register())
      let one = entry(device)
      let bundles: [JSON] = [
        [:], ["messages": nil], ["messages": 7], ["messages": [one.without("body")]],
        ["messages": [one.without("destination")]], ["messages": [one.with(["body": "!"])]],
      ]
      for bundle in bundles { try await session.post("/v1/messages/", bundle, as: sender).expect(415) }
      try await session.mailbox(of: device).expectEmpty()
    },
    Rule("2.8", "POST takes types 0 to 4 and refuses receipts") { session in
      let (sender, device) = (try await session.register(), try await session.register())
      for type in 0...4 {
        let one = entry(device).with(["type": JSON(type), "body": .string(padded([UInt8(type)]))])
        try expectLists(try await post([one], session, sender), [device.number], [])
      }
      let receipt: JSON = ["messages": [entry(device).with(["type": 5])]]
      try await session.post("/v1/messages/", receipt, as: sender).expect(415, 422)
      try await session.mailbox(of: device).expectCount(5)
    },
    Rule("1.8", "POST shows several messages for one number in order") { session in
      let (sender, device) = (try await session.register(), try await session.register())
      let messages = ["AAAA", "AQEB", "AgIC"].map { entry(device).with(["body": .string($0)]) }
      let answer = try await post(messages, session, sender)
      guard let success = answer["success"]?.array, Set(success.compactMap(\.string)) == [device.number] else {
        throw RuleFailure(expected: "the number as success", got: shown(answer))
      }
      try expectEqual(
        try await session.mailbox(of: device).values("message"), ["AAAA", "AQEB", "AgIC"], "messages")
    },
  ]

  private static func entry(_ device: Device) -> JSON { entry(device.number) }
  private static func entry(_ number: String) -> JSON {
    ["type": 1, "destination": .string(number), "body": "Zm9v"]
  }

  private static func post(
    _ messages: [JSON], _ session: Session, _ sender: Device, path: String = "/v1/messages/"
  ) async throws -> JSON {
    try await session.post(path, ["messages": .array(messages)], as: sender).expectJSON()
  }

  private static func expectLists(_ json: JSON, _ success: [String], _ failure: [String]) throws(RuleFailure) {
    for (name, numbers) in [("success", success), ("failure", failure)] {
      let listed = (json[name]?.array ?? []).compactMap(\.string)
      try expect(
        json[name]?.array != nil && listed.count == numbers.count && Set(listed) == Set(numbers),
        "\(name) with the \(numbers.count) numbers of its own", "\(listed.count) numbers")
    }
  }
}
