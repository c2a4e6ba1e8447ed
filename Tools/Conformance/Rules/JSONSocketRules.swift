import RelayClient
import RelayCore

/// The WebSocket's JSON dialects (reference 1.12.3).
enum JSONSocketRules {
  static let all: [Rule] = [
    Rule("1.12.3", "user= asks for JSON: deliveries count from 0, the envelope in padded Base64, in order", .g2) {
      session in
      let (sender, device) = (try await session.register(), try await session.register())
      for time: Int64 in [20, 10] { try await session.send(to: device.number, timestamp: time, as: sender) }
      let probe = try await session.connectJSON(device)
      try await session.send(to: device.number, timestamp: 30, as: sender)
      for (id, time) in [(0, 20), (1, 10), (2, 30)] as [(Int64, Int64)] {
        let frame = try await delivery(probe)
        try expectEqual(frame.keys, ["id", "message"], "properties")
        try expectEqual(frame["id"]?.integer, id, "id")
        let text = frame["message"]?.string ?? ""
        let envelope = Base64.decode(text) ?? []
        try expect(padded(envelope) == text, "padded Base64", "another text")
        try expectEqual(try device.open(envelope).timestamp, time, "timestamp")
      }
    },
    Rule("1.12.3", "a JSON acknowledgement removes the message, its type a number or a string", .g2) { session in
      let (sender, device) = (try await session.register(), try await session.register())
      let probe = try await session.connectJSON(device)
      for (index, type) in ["1", #""1""#].enumerated() {
        try await session.send(to: device.number, timestamp: Int64(index + 1), as: sender)
        let id = try await delivery(probe)["id"]?.integer ?? -1
        try await session.mailbox(of: device).expectCount(1)
        try await probe.send(.text(#"{"type":\#(type),"id":\#(id)}"#))
        try await session.untilMailbox(of: device, holds: 0)
      }
      try await session.untilMailbox(of: sender, holds: 2)
    },
    Rule("1.12.3", "what was not acknowledged comes again, its ids counted anew", .g2) { session in
      let (sender, device) = (try await session.register(), try await session.register())
      for time: Int64 in [1, 2] { try await session.send(to: device.number, timestamp: time, as: sender) }
      for _ in 0..<2 {
        let probe = try await session.connectJSON(device)
        for (id, time) in [(0, 1), (1, 2)] as [(Int64, Int64)] {
          let frame = try await delivery(probe)
          try expectEqual(frame["id"]?.integer, id, "id")
          let envelope = Base64.decode(frame["message"]?.string ?? "") ?? []
          try expectEqual(try device.open(envelope).timestamp, time, "timestamp")
        }
        await probe.cut()
      }
    },
    Rule("1.12.3", "a JSON ping is answered with a pong", .g2) { session in
      let probe = try await session.connectJSON(try await session.register())
      try await probe.send(.text(#"{"type":2}"#))
      guard case .text(let text) = try await probe.next("a pong"), JSON(bytes: Array(text.utf8)) == ["type": 3] else {
        throw RuleFailure(expected: #"{"type":3}"#, got: "another frame")
      }
    },
    Rule("1.12.3", "text that is no JSON, or of an unknown type, closes with 1008", .g2) { session in
      let device = try await session.register()
      for text in ["{", "no JSON", #"{"type":9,"id":0}"#, #"{"type":"x"}"#] {
        let probe = try await session.connectJSON(device)
        try await probe.send(.text(text))
        try await probe.expectClosing([1008], because: "a text could not be understood")
      }
    },
    Rule("1.12.3", "binary frames, and acknowledgements of unknown ids, are ignored", .g2) { session in
      let probe = try await session.connectJSON(try await session.register())
      try await probe.send(.binary([1, 2, 3]))
      try await probe.send(.binary([]))
      for id in ["0", "77", "9223372036854775807"] { try await probe.send(.text(#"{"type":1,"id":\#(id)}"#)) }
      try await probe.expectSilence(because: "these are ignored")
      try await probe.send(.ping([1]))
      let answer = try await probe.next("a pong")
      try expect(answer == .pong([1]), "a pong", answer.summary)
    },
    Rule("1.12", "wrong credentials open no WebSocket that user= asks for", .g2) { session in
      let device = try await session.register()
      try await session.expectRefusal(
        "/v1/websocket/?user=\(escaped(device.number))&password=wrong", because: "the password is wrong")
      try await session.expectRefusal(
        "/v1/websocket/?user=\(escaped(session.numbers.draw()))&password=x", because: "the number is unknown")
    },
  ]

  private static func delivery(_ probe: Probe) async throws -> JSON {
    guard case .text(let text) = try await probe.next("a delivery"), let json = JSON(bytes: Array(text.utf8)) else {
      throw RuleFailure(expected: "a text frame of JSON", got: "another frame")
    }
    return json
  }
}
