/// The optional registration lock of this project's relays: who has a number's code needs its pin as well
/// (reference Part 6, 4).
enum RegistrationLockRules {
  static let all: [Rule] = [
    Rule("6.4", "a number with a pin is not registered without it, nor with another: 403", .ours) { session in
      let device = try await lockedDevice(session)
      let intruder = try session.stranger(device.number)
      try await session.confirm(try await session.code(for: device.number), as: intruder).expect(403)
      try await session.get("/v1/keys", as: device).expect(200)
      let other = try await lockedDevice(session)
      let body = attributes().with(["pin": "4711"])
      try await session.confirm(try await session.code(for: other.number), body, as: try session.stranger(other.number))
        .expect(403)
      try await session.get("/v1/keys", as: other).expect(200)
    },
    Rule("6.4", "a number with a pin is registered with it", .ours) { session in
      let device = try await lockedDevice(session)
      var present = device
      present.password = Device.randomPassword()
      let code = try await session.code(for: device.number)
      try await session.confirm(code, attributes().with(["pin": "0815-π"]), as: present).expect(200)
      try await session.get("/v1/keys", as: present).expect(200)
    },
    Rule("6.4", "a pin may come with the registration", .ours) { session in
      let device = try await session.register(extra: ["pin": "0815"])
      let intruder = try session.stranger(device.number)
      try await session.confirm(try await session.code(for: device.number), as: intruder).expect(403)
    },
    Rule("6.4", "a pin is taken away by device 1", .ours) { session in
      let device = try await lockedDevice(session)
      try await session.delete("/v1/accounts/pin/", as: device).expectDone()
      _ = try await session.register(device.number)
    },
    Rule("6.4", "only device 1 sets or takes away the pin: 401 for others", .ours) { session in
      let first = try await session.register()
      let linked = try await session.link(to: first)
      try await session.put("/v1/accounts/pin/", ["pin": "0815"], as: linked).expect(401)
      try await session.delete("/v1/accounts/pin/", as: linked).expect(401)
    },
    Rule("6.4", "a pin has 4 to 100 characters", .ours) { session in
      let device = try await session.register()
      let pins: [JSON] = ["", "123", .string(String(repeating: "1", count: 101)), nil, [:]]
      for pin in pins { try await session.put("/v1/accounts/pin/", ["pin": pin], as: device).expect(415) }
      try await session.put("/v1/accounts/pin/", [:], as: device).expect(415)
    },
  ]

  /// An account whose pin is `0815-π`. - Throws: `RuleSkipped` where there are no pins.
  private static func lockedDevice(_ session: Session) async throws -> Device {
    let device = try await session.register()
    let answer = try await session.put("/v1/accounts/pin/", ["pin": "0815-π"], as: device)
    if answer.status == 404 { throw RuleSkipped(reason: "the server has no registration lock") }
    try answer.expectDone()
    return device
  }
}
