/// Explicit delivery receipts (reference 1.9), accepted only for messages that were delivered (Part 6, 12).
enum ReceiptRules {
  static let all: [Rule] = [
    Rule("1.9", "a receipt reaches every device of the message's sender", .g3) { session in
      let (sender, device) = (try await session.register(), try await session.register())
      let linked = try await session.link(to: sender)
      try await session.send(to: device.number, timestamp: 77, as: sender)
      try await session.put("/v1/receipt/\(sender.number)/77", as: device).expectDone()
      for receiver in [sender, linked] {
        let mail = try await session.mailbox(of: receiver)
        try expectEqual(mail.values("type"), [5], "types")
        try expectEqual(mail.values("timestamp"), [77], "timestamps")
        try expectEqual(mail.values("source"), [.string(device.number)], "sources")
        try expectEqual(mail.values("sourceDevice"), [1], "source devices")
        try expectEqual(mail.values("message"), [""], "messages")
      }
    },
    Rule("1.9", "a receipt names the device that received", .g3) { session in
      let (sender, device) = (try await session.register(), try await session.register())
      let linked = try await session.link(to: device)
      try await session.submit([message(), message(device: 2)], to: device.number, timestamp: 8, as: sender).expect(200)
      try await session.put("/v1/receipt/\(sender.number)/8", as: linked).expectDone()
      try expectEqual(try await session.mailbox(of: sender).values("sourceDevice"), [2], "source devices")
    },
    Rule("1.9", "a receipt's body and type are ignored, an escaped number and an empty relay taken", .g3) { session in
      let (sender, device) = (try await session.register(), try await session.register())
      try await session.send(to: device.number, timestamp: 9, as: sender)
      let path = "/v1/receipt/%2B\(sender.number.dropFirst())/9/"
      try await session.ask("PUT", path, as: device, extra: [("Content-Type", "application/json")]).expect(200)
      try await session.put(path + "?relay=", [:], as: device).expect(200)
    },
    Rule("1.9", "a receipt may follow the message's acknowledgement", .g4) { session in
      let (sender, device) = (try await session.register(), try await session.register())
      try await session.send(to: device.number, timestamp: 10, as: sender)
      try await session.acknowledge(sender.number, 10, as: device)
      try await session.put("/v1/receipt/\(sender.number)/10", as: device).expect(200)
    },
    Rule("1.9", "an unknown destination or relay is not found", .g3) { session in
      let (sender, device) = (try await session.register(), try await session.register())
      try await session.send(to: device.number, timestamp: 1, as: sender)
      try await session.put("/v1/receipt/\(session.numbers.draw())/1", as: device).expect(404)
      try await session.put("/v1/receipt/\(sender.number)/1?relay=no-such-relay", as: device).expect(404)
      try await session.mailbox(of: sender).expectEmpty()
    },
    Rule("6.12", "a receipt for what was never received is not found, as an unknown number is", .ours) { session in
      let (sender, device) = (try await session.register(), try await session.register())
      let bystander = try await session.register()
      try await session.send(to: device.number, timestamp: 1, as: sender)
      let unknown = try await session.put("/v1/receipt/\(session.numbers.draw())/1", as: bystander).expect(404)
      for (caller, time) in [(bystander, 1), (device, 2)] {
        let answer = try await session.put("/v1/receipt/\(sender.number)/\(time)", as: caller).expect(404)
        try answer.expect(answer.body == unknown.body, "the answer that an unknown number has", "another")
      }
      try await session.mailbox(of: sender).expectEmpty()
    },
    Rule("1.9", "a receipt for a copy to oneself is taken and sends nothing", .g4) { session in
      let sender = try await session.register()
      let linked = try await session.link(to: sender)
      try await session.submit([message(device: 2)], to: sender.number, timestamp: 3, as: sender).expect(200)
      try await session.put("/v1/receipt/\(sender.number)/3", as: linked).expect(200)
      try await session.mailbox(of: sender).expectEmpty()
    },
  ]
}
