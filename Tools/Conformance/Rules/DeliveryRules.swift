import RelayClient
import RelayCore

/// Deliveries over the WebSocket, protobuf dialect (reference 1.12.1, 1.12.4, 2.4, 3.10).
enum DeliveryRules {
  static let all: [Rule] = delivery + acknowledgement + connections

  private static let delivery: [Rule] = [
    Rule(
      "1.12.4", "what waits is delivered on connecting: PUT /api/v1/message, a positive id, the envelope encrypted", .g3
    ) { session in
      let (sender, device) = (try await session.register(), try await session.register())
      try await session.submit(
        [message("Zm9vYmFyego=", type: 3)], to: device.number, timestamp: 1_447_500_000_000, as: sender
      ).expect(200)
      let probe = try await session.connect(device)
      let (id, delivered) = try await probe.expectDelivery(to: device)
      try expect((1...UInt64(Int64.max)).contains(id), "an id of 63 bits, not 0", "\(id)")
      try expectEqual(delivered.type, 3, "type")
      try expectEqual(delivered.source.number.e164 == sender.number, true, "the sender's number as source")
      try expectEqual(delivered.source.deviceID, 1, "source device")
      try expectEqual(delivered.relay, nil, "relay")
      try expectEqual(delivered.timestamp, 1_447_500_000_000, "timestamp")
      try expectEqual(delivered.body, Base64.decode("Zm9vYmFyego="), "message")
      try expectEqual(delivered.content, [], "content")
    },
    Rule("2.4", "every copy is encrypted anew, under the key of its device", .g2) { session in
      let (sender, first) = (try await session.register(), try await session.register())
      let linked = try await session.link(to: first)
      try await session.submit(
        [message(), message(device: 2)], to: first.number, timestamp: 3, as: sender
      ).expect(200)
      var sealed: [[UInt8]] = []
      for device in [first, linked, first] {
        let probe = try await session.connect(device)
        sealed.append(try await probe.expectSealed().envelope)
        try expectEqual(try device.open(sealed[sealed.count - 1]).timestamp, 3, "timestamp")
        await probe.cut()
      }
      try expect(Set(sealed).count == 3, "three different envelopes", "\(Set(sealed).count)")
    },
    Rule("1.12.1", "what comes while a device is connected is delivered at once, contents too", .g3) { session in
      let (sender, device) = (try await session.register(), try await session.register())
      let probe = try await session.connect(device)
      try await probe.expectAlive()
      let one = message().without("body").with(["content": "AAECAw=="])
      try await session.submit([one], to: device.number, timestamp: 9, as: sender).expect(200)
      let (_, delivered) = try await probe.expectDelivery(to: device)
      try expectEqual(delivered.timestamp, 9, "timestamp")
      try expectEqual(delivered.content, [0, 1, 2, 3], "content")
      try expectEqual(delivered.body, [], "message")
    },
    Rule("3.10", "messages are delivered in the order of their arrival, those that waited first", .g3) { session in
      let (sender, device) = (try await session.register(), try await session.register())
      for time: Int64 in [30, 10, 20] { try await session.send(to: device.number, timestamp: time, as: sender) }
      let probe = try await session.connect(device)
      for time: Int64 in [5, 40, 1] { try await session.send(to: device.number, timestamp: time, as: sender) }
      try expectEqual(try await probe.take(6, as: device), [30, 10, 20, 5, 40, 1], "timestamps")
    },
    Rule("1.12.4", "each delivery of a connection has an id of its own", .g3) { session in
      let (sender, device) = (try await session.register(), try await session.register())
      for time: Int64 in 1...5 { try await session.send(to: device.number, timestamp: time, as: sender) }
      let probe = try await session.connect(device)
      var ids: Set<UInt64> = []
      for _ in 0..<5 { ids.insert(try await probe.expectSealed().id) }
      try expectEqual(ids.count, 5, "different ids of 5 deliveries")
    },
    Rule("1.12.4", "a mailbox of more than one page is delivered whole, in order", .g3) { session in
      let device = try await session.register()
      // Four senders: none sends so many that it is limited.
      var senders: [Device] = []
      for _ in 0..<4 { senders.append(try await session.register()) }
      for index in 0..<130 {
        try await session.send(to: device.number, timestamp: Int64(index + 1), as: senders[index % 4])
      }
      let probe = try await session.connect(device)
      try expectEqual(try await probe.take(130, as: device) == Array(1...130), true, "130 messages in order")
      try await session.untilMailbox(of: device, holds: 0)
    },
  ]

  private static let acknowledgement: [Rule] = [
    Rule("1.12.4", "an acknowledgement removes the message, and sends its source a receipt", .g3) { session in
      let (sender, device) = (try await session.register(), try await session.register())
      let probe = try await session.connect(device)
      try await session.send(to: device.number, timestamp: 77, as: sender)
      let (id, _) = try await probe.expectDelivery(to: device)
      try await session.mailbox(of: device).expectCount(1)
      try await probe.answer(id)
      try await session.untilMailbox(of: device, holds: 0)
      try await session.untilMailbox(of: sender, holds: 1)
      let receipts = try await session.mailbox(of: sender)
      try expectEqual(receipts.values("type"), [5], "types in the sender's mailbox")
      try expectEqual(receipts.values("timestamp"), [77], "timestamps in the sender's mailbox")
      await probe.close()
      try await session.connect(device).expectSilence(because: "everything was acknowledged")
    },
    Rule("1.12.4", "any status from 200 to 299 acknowledges", .g3) { session in
      let (sender, device) = (try await session.register(), try await session.register())
      let probe = try await session.connect(device)
      for (index, status) in [200, 204, 299].enumerated() {
        try await session.send(to: device.number, timestamp: Int64(index + 1), as: sender)
        try await probe.answer(try await probe.expectDelivery(to: device).id, status: status)
        try await session.untilMailbox(of: device, holds: 0)
      }
    },
    Rule("1.12.4", "a message that is refused stays, and comes again on the next connection", .g3) { session in
      let (sender, device) = (try await session.register(), try await session.register())
      try await session.send(to: device.number, timestamp: 8, as: sender)
      for status in [500, 404, 300] {
        let probe = try await session.connect(device)
        let (id, delivered) = try await probe.expectDelivery(to: device)
        try expectEqual(delivered.timestamp, 8, "timestamp")
        try await probe.answer(id, status: status)
        // Over the same connection, behind the refusal: it has been heard.
        try await probe.expectAlive()
        await probe.close()
        try await session.mailbox(of: device).expectCount(1)
      }
      try await session.mailbox(of: sender).expectEmpty()
    },
    Rule("1.12.1", "what was not acknowledged comes again on the next connection, in order", .g3) { session in
      let (sender, device) = (try await session.register(), try await session.register())
      for time: Int64 in 1...3 { try await session.send(to: device.number, timestamp: time, as: sender) }
      let first = try await session.connect(device)
      var ids: [UInt64] = []
      for _ in 0..<3 { ids.append(try await first.expectDelivery(to: device).id) }
      try await first.answer(ids[1])
      try await session.untilMailbox(of: device, holds: 2)
      await first.cut()
      try expectEqual(
        try await session.connect(device).take(2, as: device), [1, 3], "timestamps on the next connection")
    },
    Rule("1.12.4", "ids are of one connection: an acknowledgement on another one removes nothing", .g3) { session in
      let (sender, device) = (try await session.register(), try await session.register())
      let other = try await session.register()
      try await session.send(to: device.number, timestamp: 1, as: sender)
      let id = try await session.connect(device).expectDelivery(to: device).id
      let probe = try await session.connect(other)
      try await probe.answer(id)
      try await probe.expectAlive()
      try await session.mailbox(of: device).expectCount(1)
    },
    Rule(
      "1.9", "a receipt is delivered as a message of type 5 without a body; to acknowledge it brings no further one",
      .g3
    ) { session in
      let (sender, device) = (try await session.register(), try await session.register())
      try await session.send(to: device.number, timestamp: 6, as: sender)
      try await session.acknowledge(sender.number, 6, as: device)
      let probe = try await session.connect(sender)
      let (id, receipt) = try await probe.expectDelivery(to: sender)
      try expectEqual(receipt.type, 5, "type")
      try expectEqual(receipt.source.number.e164 == device.number, true, "the recipient's number as source")
      try expectEqual(receipt.timestamp, 6, "timestamp")
      try expectEqual(receipt.body.isEmpty && receipt.content.isEmpty, true, "nothing else")
      try await probe.answer(id)
      try await session.untilMailbox(of: sender, holds: 0)
      try await session.mailbox(of: device).expectEmpty()
    },
    Rule("1.9", "copies to oneself that are acknowledged bring no receipts", .g4) { session in
      let first = try await session.register()
      let linked = try await session.link(to: first)
      try await session.submit([message(device: 2)], to: first.number, timestamp: 6, as: first).expect(200)
      let probe = try await session.connect(linked)
      try expectEqual(try await probe.take(1, as: linked), [6], "timestamps")
      try await session.untilMailbox(of: linked, holds: 0)
      try await probe.expectSilence(because: "nobody is told")
      try await session.mailbox(of: first).expectEmpty()
    },
  ]

  private static let connections: [Rule] = [
    Rule("1.12.1", "a newer connection of a device closes the older one with 1000", .g4) { session in
      let (sender, device) = (try await session.register(), try await session.register())
      let older = try await session.connect(device)
      try await older.expectAlive()
      let newer = try await session.connect(device)
      try await older.expectClosing([1000], because: "a newer connection stands")
      try await newer.expectAlive()
      try await session.send(to: device.number, timestamp: 4, as: sender)
      try expectEqual(try await newer.take(1, as: device), [4], "timestamps")
    },
    Rule("1.12.1", "devices of one account are connected side by side, each with its own messages", .g3) { session in
      let (sender, first) = (try await session.register(), try await session.register())
      let linked = try await session.link(to: first)
      let (one, two) = (try await session.connect(first), try await session.connect(linked))
      try await session.submit(
        [message("AAAA"), message("AQEB", device: 2)], to: first.number, timestamp: 2, as: sender
      ).expect(200)
      try expectEqual(try await one.expectDelivery(to: first).message.body, [0, 0, 0], "message of device 1")
      try expectEqual(try await two.expectDelivery(to: linked).message.body, [1, 1, 1], "message of device 2")
    },
    Rule("1.12.1", "a message that is fetched and acknowledged over HTTP is not delivered on the next connection", .g4)
    {
      session in
      let (sender, device) = (try await session.register(), try await session.register())
      try await session.send(to: device.number, timestamp: 5, as: sender)
      try await session.acknowledge(sender.number, 5, as: device)
      try await session.connect(device).expectSilence(because: "the mailbox is empty")
    },
  ]
}
