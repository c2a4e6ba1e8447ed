/// Submitting messages (reference 1.8, 2.2, 2.7, 2.8, 3.4).
enum MessageRules {
  static let all: [Rule] = acceptance + contents + synchronisation

  private static let acceptance: [Rule] = [
    Rule("1.8", "what is accepted is answered with needsSync and lies in the mailbox", .g2) { session in
      let (sender, device) = (try await session.register(), try await session.register())
      try await session.submit(
        [message("Zm9vYmFyego=", type: 3)], to: device.number, timestamp: 1_447_500_000_000, as: sender
      )
      .expect(200, json: ["needsSync": false])
      try expectEqual(
        try await session.mailbox(of: device).messages,
        [
          [
            "type": 3, "relay": "", "timestamp": 1_447_500_000_000, "source": .string(sender.number),
            "sourceDevice": 1, "message": "Zm9vYmFyego=", "content": nil,
          ]
        ], "the mailbox")
    },
    Rule("1.8", "an unknown number, one without a reachable device, and what is no number are not found", .g2) {
      session in
      let sender = try await session.register()
      let away = try await session.register(fetches: false)
      for number in [session.numbers.draw(), away.number, "x", "%2B123"] {
        try await session.submit([message()], to: number, as: sender).expect(404)
      }
    },
    Rule("1.8", "an unknown relay is not found, an empty or null one is none", .g2) { session in
      let (sender, device) = (try await session.register(), try await session.register())
      let path = "/v1/messages/\(device.number)"
      for name: JSON in ["no-such-relay", "NOT A NAME"] {
        try await session.put(path, ["messages": [message()], "relay": name], as: sender).expect(404)
      }
      for (name, time) in [("", 1), (nil, 2)] as [(JSON, JSON)] {
        let bundle: JSON = ["messages": [message()], "relay": name, "timestamp": time]
        try await session.put(path, bundle, as: sender).expect(200)
      }
      try await session.mailbox(of: device).expectCount(2)
    },
    Rule("1.8", "a message to the own number goes through no relay, whatever it is called", .g2) { session in
      let sender = try await session.register()
      for name: JSON in ["no-such-relay", "NOT A NAME"] {
        let bundle: JSON = ["messages": [message()], "relay": name]
        try await session.put("/v1/messages/\(sender.number)", bundle, as: sender).expect(400)
      }
    },
    Rule("1.13", "a number that a relay does not know is not found there by a message", .g2) { session in
      guard !session.relays.isEmpty else { throw RuleSkipped(reason: "needs --relay") }
      let sender = try await session.register()
      for relay in session.relays {
        let bundle: JSON = ["messages": [message()], "relay": .string(relay)]
        try await session.put("/v1/messages/\(session.numbers.draw())", bundle, as: sender).expect(404)
      }
    },
    Rule("1.8", "a message is for device 1, and compares no registration id, unless it says so", .g2) { session in
      let sender = try await session.register()
      let device = try await session.register(registrationID: 11)
      try await session.submit([["type": 1, "body": "Zm9v"]], to: device.number, as: sender).expect(200)
      try await session.mailbox(of: device).expectCount(1)
    },
    Rule("1.8", "a linked device sends in its own name", .g2) { session in
      let (sender, device) = (try await session.register(), try await session.register())
      let linked = try await session.link(to: sender)
      try await session.submit([message()], to: device.number, as: linked).expect(200)
      try expectEqual(try await session.mailbox(of: device).values("sourceDevice"), [2], "source devices")
    },
    Rule("1.8", "malformed bundles are refused and nothing is delivered", .g2) { session in
      let (sender, device) = (try await session.register(), try await session.register())
      let one = message()
      let bundles: [JSON] = [
        [:], ["messages": nil], ["messages": [:]], ["messages": [7]], ["messages": [one], "timestamp": "soon"],
        ["messages": [one.with(["type": "x"])]], ["messages": [one.with(["body": 7])]],
        ["messages": [one.with(["destinationRegistrationId": [:]])]],
        ["messages": [one, one.with(["destinationDeviceId": "two"])]],
      ]
      for bundle in bundles { try await session.put("/v1/messages/\(device.number)", bundle, as: sender).expect(415) }
      try await session.mailbox(of: device).expectEmpty()
    },
  ]

  private static let contents: [Rule] = [
    Rule("2.2", "bodies and contents are read padded, unpadded and with white space, and shown padded") { session in
      let (sender, device) = (try await session.register(), try await session.register())
      let spellings = [
        ("Zm9vYmFyego", "Zm9vYmFyego="), ("Zm9vYmFyego=", "Zm9vYmFyego="), ("Zm9vYg", "Zm9vYg=="),
        ("Zm9vYg==", "Zm9vYg=="), ("Zm 9v\nYg==", "Zm9vYg=="), ("Zm9vYmFy", "Zm9vYmFy"),
      ]
      for (index, spelling) in spellings.enumerated() {
        let one = message(spelling.0).with(["content": .string(spelling.0)])
        try await session.submit([one], to: device.number, timestamp: Int64(index + 1), as: sender).expect(200)
      }
      let mail = try await session.mailbox(of: device)
      let expected = spellings.map { JSON.string($0.1) }
      try expectEqual(mail.values("message"), expected, "messages")
      try expectEqual(mail.values("content"), expected, "contents")
    },
    Rule("1.8", "an empty body or content counts as absent; either may be", .g4) { session in
      let (sender, device) = (try await session.register(), try await session.register())
      let one = message().without("body")
      let messages = [
        message().with(["content": ""]), one.with(["body": "", "content": "AAECAw=="]),
        one.with(["content": "AAECAw=="]),
      ]
      for (index, one) in messages.enumerated() {
        try await session.submit([one], to: device.number, timestamp: Int64(index + 1), as: sender).expect(200)
      }
      let mail = try await session.mailbox(of: device)
      try expectEqual(mail.values("message"), ["Zm9v", nil, nil], "messages")
      try expectEqual(mail.values("content"), [nil, "AAECAw==", "AAECAw=="], "contents")
    },
    Rule("1.8", "a body or content that is not Base64 is refused with 415") { session in
      let (sender, device) = (try await session.register(), try await session.register())
      for text: JSON in ["!", "Zm9vY", "Zm9v====", "Zg==Zg=="] {
        for name in ["body", "content"] {
          try await session.submit([message().with([name: text])], to: device.number, as: sender).expect(415)
        }
      }
      try await session.mailbox(of: device).expectEmpty()
    },
    Rule("2.8", "types 0 to 4 pass through; receipts and unknown types are refused") { session in
      let (sender, device) = (try await session.register(), try await session.register())
      for type in 0...4 {
        try await session.submit([message(type: type)], to: device.number, timestamp: Int64(type + 1), as: sender)
          .expect(200)
      }
      for type in [5, 6, -1, 65_536] {
        try await session.submit([message(type: type)], to: device.number, as: sender).expect(415, 422)
      }
      try expectEqual(try await session.mailbox(of: device).values("type"), [0, 1, 2, 3, 4], "types")
    },
    Rule("2.7", "the time is the bundle's, else the first message's that has one", .g3) { session in
      let (sender, device) = (try await session.register(), try await session.register())
      let one = message()
      let bundles: [JSON] = [
        ["messages": [one], "timestamp": 11], ["messages": [one], "timestamp": "12"],
        ["messages": [one.with(["timestamp": 13])]], ["messages": [one.with(["timestamp": "14"])], "timestamp": 0],
        ["messages": [one.with(["timestamp": 99])], "timestamp": 15],
      ]
      for bundle in bundles { try await session.put("/v1/messages/\(device.number)", bundle, as: sender).expect(200) }
      try expectEqual(
        try await session.mailbox(of: device).values("timestamp"), [11, 12, 13, 14, 15], "timestamps")
    },
    Rule("2.7", "without a time, the server's clock in milliseconds serves") { session in
      let (sender, device) = (try await session.register(), try await session.register())
      try await session.submit([message()], to: device.number, as: sender).expect(200)
      guard let time = try await session.mailbox(of: device).values("timestamp").first?.integer else {
        throw RuleFailure(expected: "a timestamp", got: "none")
      }
      // Two days either way: clocks may differ, units must not.
      try expect(abs(time - now()) < 2 * 86_400_000, "a present time in milliseconds", "another one")
    },
    Rule("3.11", "a body of 64 KiB is taken") { session in
      let (sender, device) = (try await session.register(), try await session.register())
      let body = padded([UInt8](repeating: 7, count: 64 << 10))
      try await session.submit([message(body)], to: device.number, as: sender).expect(200)
      try expectEqual(
        try await session.mailbox(of: device).values("message") == [.string(body)], true, "body kept whole")
    },
  ]

  private static let synchronisation: [Rule] = [
    Rule("1.8", "a sender with other active devices is told to copy them", .g4) { session in
      let (sender, device) = (try await session.register(), try await session.register())
      let linked = try await session.link(to: sender)
      for caller in [sender, linked] {
        try await session.submit([message()], to: device.number, as: caller).expect(200, json: ["needsSync": true])
      }
    },
    Rule("1.8", "devices that are not active need no copy", .g4) { session in
      let (sender, device) = (try await session.register(), try await session.register())
      _ = try await session.link(to: sender, isActive: false)
      try await session.submit([message()], to: device.number, as: sender).expect(200, json: ["needsSync": false])
    },
    Rule("3.4", "a copy to the own number reaches the other devices and needs no copy itself", .g4) { session in
      let sender = try await session.register()
      let linked = try await session.link(to: sender)
      try await session.submit([message(device: 2)], to: sender.number, as: sender)
        .expect(200, json: ["needsSync": false])
      try expectEqual(
        try await session.mailbox(of: linked).values("source"), [.string(sender.number)], "sources")
      try await session.submit([message()], to: sender.number, as: linked).expect(200, json: ["needsSync": false])
      try expectEqual(try await session.mailbox(of: sender).values("sourceDevice"), [2], "source devices")
    },
    Rule("3.4", "a copy to the own number cannot go through a relay: 400", .g4) { session in
      let sender = try await session.register()
      let bundle: JSON = ["messages": [], "relay": "no-such-relay"]
      try await session.put("/v1/messages/\(sender.number)", bundle, as: sender).expect(400)
    },
    Rule("3.4", "whether the own account is active does not matter to a copy", .g4) { session in
      let sender = try await session.register(fetches: false)
      try await session.submit([], to: sender.number, as: sender).expect(200, json: ["needsSync": false])
    },
  ]
}
