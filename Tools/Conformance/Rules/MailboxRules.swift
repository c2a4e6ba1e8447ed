/// Fetching and acknowledging over HTTP (reference 1.9, 3.10).
enum MailboxRules {
  static let all: [Rule] = [
    Rule("1.9", "an empty mailbox has both its properties", .g4) { session in
      let device = try await session.register()
      for path in ["/v1/messages/", "/v1/messages"] {
        try await session.get(path, as: device).expect(200, json: ["messages": [], "more": false])
      }
    },
    Rule("1.9", "messages come in the order of their arrival, whatever their times; reading removes nothing", .g4) {
      session in
      let (sender, device) = (try await session.register(), try await session.register())
      for time: Int64 in [30, 10, 20] { try await session.send(to: device.number, timestamp: time, as: sender) }
      for _ in 0..<2 {
        try expectEqual(try await session.mailbox(of: device).values("timestamp"), [30, 10, 20], "timestamps")
      }
    },
    Rule("1.9", "an acknowledgement removes the message with its source and time, and no other", .g4) { session in
      let (sender, other) = (try await session.register(), try await session.register())
      let device = try await session.register()
      for time: Int64 in [1, 2] { try await session.send(to: device.number, timestamp: time, as: sender) }
      try await session.send(to: device.number, timestamp: 1, as: other)
      try await session.acknowledge(sender.number, 1, as: device)
      let mail = try await session.mailbox(of: device)
      try expectEqual(mail.values("timestamp"), [2, 1], "timestamps")
      try expectEqual(mail.values("source").last, .string(other.number), "source of the last")
    },
    Rule("1.9", "what matches nothing is acknowledged all the same", .g4) { session in
      let (sender, device) = (try await session.register(), try await session.register())
      try await session.send(to: device.number, timestamp: 1, as: sender)
      try await session.acknowledge(sender.number, 99, as: device)
      try await session.acknowledge(session.numbers.draw(), 1, as: device)
      try await session.mailbox(of: device).expectCount(1)
    },
    Rule("1.9", "an acknowledgement is of the own device's message alone", .g4) { session in
      let (sender, device) = (try await session.register(), try await session.register())
      let linked = try await session.link(to: device)
      try await session.submit([message(), message(device: 2)], to: device.number, timestamp: 1, as: sender).expect(200)
      try await session.acknowledge(sender.number, 1, as: linked)
      try await session.mailbox(of: linked).expectEmpty()
      try await session.mailbox(of: device).expectCount(1)
    },
    Rule("1.9", "an acknowledgement sends the source a receipt on each of its devices, once", .g4) { session in
      let (sender, device) = (try await session.register(), try await session.register())
      let linked = try await session.link(to: sender)
      try await session.send(to: device.number, timestamp: 77, as: sender)
      for _ in 0..<2 { try await session.acknowledge(sender.number, 77, as: device) }
      for receiver in [sender, linked] {
        try expectEqual(
          try await session.mailbox(of: receiver).messages,
          [
            [
              "type": 5, "relay": "", "timestamp": 77, "source": .string(device.number), "sourceDevice": 1,
              "message": "", "content": nil,
            ]
          ], "the sender's mailbox")
      }
    },
    Rule("1.9", "a receipt that is acknowledged brings no further one", .g4) { session in
      let (sender, device) = (try await session.register(), try await session.register())
      try await session.send(to: device.number, timestamp: 5, as: sender)
      try await session.acknowledge(sender.number, 5, as: device)
      try await session.acknowledge(device.number, 5, as: sender)
      for receiver in [sender, device] { try await session.mailbox(of: receiver).expectEmpty() }
    },
    Rule("1.9", "nobody gets a receipt for copies to himself", .g4) { session in
      let sender = try await session.register()
      let linked = try await session.link(to: sender)
      try await session.submit([message(device: 2)], to: sender.number, timestamp: 6, as: sender).expect(200)
      try await session.acknowledge(sender.number, 6, as: linked)
      for device in [sender, linked] { try await session.mailbox(of: device).expectEmpty() }
    },
    Rule("1.9", "a page holds at most 100 messages and says whether there are more", .g4) { session in
      let device = try await session.register()
      // Three senders: none sends so many that it is limited.
      var senders: [Device] = []
      for _ in 0..<3 { senders.append(try await session.register()) }
      for index in 0..<103 {
        try await session.send(to: device.number, timestamp: Int64(index + 1), as: senders[index % 3])
      }
      let first = try await session.mailbox(of: device)
      try first.expectCount(100)
      try expectEqual(first.more, true, "more")
      for (index, time) in first.values("timestamp").enumerated() {
        guard let time = time.integer, let source = first.messages[index]["source"]?.string else { continue }
        try await session.acknowledge(source, time, as: device)
      }
      let second = try await session.mailbox(of: device)
      try expectEqual(second.values("timestamp"), [101, 102, 103], "timestamps of the second page")
      try expectEqual(second.more, false, "more")
    },
    Rule("1.9", "a mailbox is read by its device alone", .g4) { session in
      let (sender, device) = (try await session.register(), try await session.register())
      let linked = try await session.link(to: device)
      let messages = [message("AAAA"), message("AQEB", device: 2)]
      try await session.submit(messages, to: device.number, as: sender).expect(200)
      try expectEqual(try await session.mailbox(of: device).values("message"), ["AAAA"], "messages of device 1")
      try expectEqual(try await session.mailbox(of: linked).values("message"), ["AQEB"], "messages of device 2")
    },
  ]
}
