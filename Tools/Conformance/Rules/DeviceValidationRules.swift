/// 409 and 410: which devices a bundle must name (reference 3.2, 3.3, 5.7).
enum DeviceValidationRules {
  static let all: [Rule] = cases.map(\.rule) + others

  private static let others: [Rule] = [
    Rule("3.2", "what is refused reaches no device", .g2) { session in
      let (sender, device) = (try await session.register(), try await session.register(registrationID: 222))
      let linked = try await session.link(to: device, registrationID: 333)
      let wrong = [
        [message()], [message(), message(device: 2), message(device: 3)],
        [message(), message(device: 2, registrationID: 9)],
      ]
      for messages in wrong { try await session.submit(messages, to: device.number, as: sender).expect(409, 410) }
      for device in [device, linked] { try await session.mailbox(of: device).expectEmpty() }
      let right = [message(registrationID: 222), message("YmFy", device: 2, registrationID: 333)]
      try await session.submit(right, to: device.number, as: sender).expect(200)
      try expectEqual(try await session.mailbox(of: device).values("message"), ["Zm9v"], "messages of device 1")
      try expectEqual(try await session.mailbox(of: linked).values("message"), ["YmFy"], "messages of device 2")
    },
    Rule("3.2", "extra devices are named as often as they were, in the order of the request", .g2) { session in
      let (sender, device) = (try await session.register(), try await session.register())
      let messages = [message(device: 7), message(), message(device: 5), message(device: 7)]
      try await session.submit(messages, to: device.number, as: sender)
        .expect(409, json: ["missingDevices": [], "extraDevices": [7, 5, 7]])
    },
    Rule("3.3", "a registration id that was never set is compared like any other", .g2) { session in
      let (sender, device) = (try await session.register(), try await session.register())
      try await session.submit([message(registrationID: 5)], to: device.number, as: sender)
        .expect(410, json: ["staleDevices": [1]])
    },
    Rule("3.2", "what a 409 and a 410 tell is all that it takes to be accepted", .g2) { session in
      let sender = try await session.register()
      let device = try await session.register(registrationID: 222)
      _ = try await session.link(to: device, registrationID: 333)
      // As a client that knows nothing: it adds and drops what it is told, and draws keys of what was stale.
      var ids = [4]
      var registrations: [Int: Int] = [1: 9]
      for _ in 0..<5 {
        let messages = ids.map { message(device: $0, registrationID: registrations[$0] ?? 0) }
        let answer = try await session.submit(messages, to: device.number, as: sender).expect(200, 409, 410)
        if answer.status == 200 { return }
        let json = try answer.expectJSON(answer.status)
        let named = { (key: String) in (json[key]?.array ?? []).compactMap { $0.integer.map(Int.init) } }
        ids = ids.filter { !named("extraDevices").contains($0) } + named("missingDevices")
        for id in named("staleDevices") { registrations[id] = [1: 222, 2: 333][id] }
      }
      throw RuleFailure(expected: "acceptance after what the answers named was mended", got: "refusal without an end")
    },
    Rule("4.1", "a device of the own account that names itself is told so", .g4) { session in
      let device = try await session.register()
      try await session.submit([message()], to: device.number, as: device)
        .expect(409, json: ["missingDevices": [], "extraDevices": [1]])
    },
  ]

  /// One row of the table of 5.7.
  private struct Case: Sendable {
    struct Second: Sendable {
      let isActive: Bool
    }
    let text: String
    /// Device 2 of the destination, whose registration id is 333; device 1 has 222.
    var second: Second? = Second(isActive: true)
    /// Ids and registration ids.
    let request: [(Int, Int)]
    /// The sender is device 1 of the destination.
    var isOwn = false
    let status: Int
    var body: JSON?

    var rule: Rule {
      Rule("5.7", text, isOwn ? .g4 : .g2) { session in
        let device = try await session.register(registrationID: 222)
        if let second { _ = try await session.link(to: device, registrationID: 333, isActive: second.isActive) }
        let sender = isOwn ? device : try await session.register()
        let messages = request.map { message(device: $0.0, registrationID: $0.1) }
        let answer = try await session.submit(messages, to: device.number, as: sender)
        guard let body else {
          try answer.expect(status)
          return
        }
        try answer.expect(status, json: body)
      }
    }
  }

  private static let cases: [Case] = [
    Case(text: "one device, no registration id: accepted", second: nil, request: [(1, 0)], status: 200),
    Case(text: "all devices, right registration ids: accepted", request: [(1, 222), (2, 333)], status: 200),
    Case(
      text: "one device missing: 409", request: [(1, 222)], status: 409,
      body: ["missingDevices": [2], "extraDevices": []]),
    Case(
      text: "one missing and one unknown: 409", request: [(1, 222), (3, 0)], status: 409,
      body: ["missingDevices": [2], "extraDevices": [3]]),
    Case(
      text: "a wrong registration id: 410", request: [(1, 222), (2, 999)], status: 410, body: ["staleDevices": [2]]),
    Case(
      text: "a mismatch wins over a stale device: 409", request: [(1, 999)], status: 409,
      body: ["missingDevices": [2], "extraDevices": []]),
    Case(text: "registration id 0 is not compared: accepted", request: [(1, 0), (2, 0)], status: 200),
    Case(
      text: "a device that is not active must not be addressed: 409", second: .init(isActive: false),
      request: [(1, 222), (2, 333)], status: 409, body: ["missingDevices": [], "extraDevices": [2]]),
    Case(
      text: "a device that is not active is left out: accepted", second: .init(isActive: false), request: [(1, 222)],
      status: 200),
    Case(
      text: "an empty list: 409 with every active device", request: [], status: 409,
      body: ["missingDevices": [1, 2], "extraDevices": []]),
    Case(
      text: "to oneself, only the others: accepted", request: [(2, 333)], isOwn: true, status: 200,
      body: ["needsSync": false]),
    Case(
      text: "to oneself, naming the sending device: 409", request: [(1, 222), (2, 333)], isOwn: true, status: 409,
      body: ["missingDevices": [], "extraDevices": [1]]),
    Case(
      text: "to oneself with one device and no messages: accepted", second: nil, request: [], isOwn: true, status: 200,
      body: ["needsSync": false]),
  ]
}
