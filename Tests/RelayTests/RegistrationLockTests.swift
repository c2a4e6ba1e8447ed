import Foundation
import TestSupport
import TestTags
import Testing

private let tokenKey = "3a078586eea8971155f5c1ebd73c8c923cbec1c3ed22a54722e4e88321dc749f"

/// The optional registration lock (reference Part 6, 4). One after the other: the relay takes pins one by one, and few
/// at once.
@Suite(
  .tags(.processes), .ownRelay(RelayUnderTest.unlimited.merging(["RELAY_VERIFICATION_TOKEN_KEY": tokenKey]) { $1 }),
  .serialized)
struct RegistrationLockTests {
  let site: RelayOperator
  let relay: RelayProcess

  init() throws {
    let suite = try suiteRelay()
    (site, relay) = (suite.site, suite.relay)
  }

  private func body(_ pin: String?) -> String {
    #"{"signalingKey":"c2ln","fetchesMessages":true\#(pin.map { #","pin":"\#($0)""# } ?? "")}"#
  }

  /// A new installation of the device's number.
  private func confirm(_ code: String, _ pin: String?, as device: TestDevice) async throws -> Answer {
    try await relay.send("PUT", "/v1/accounts/code/\(code)", json: body(pin), as: device)
  }

  private func expectLocked(_ answer: Answer, _ location: SourceLocation = #_sourceLocation) {
    #expect(answer.status == 403, "\(answer.text)", sourceLocation: location)
    #expect(answer.text.hasPrefix("registration-locked: "), sourceLocation: location)
  }

  private func expectCodeRefused(_ answer: Answer, _ location: SourceLocation = #_sourceLocation) {
    #expect(answer.status == 403, "\(answer.text)", sourceLocation: location)
    #expect(answer.text.hasPrefix("code-refused: "), "\(answer.text)", sourceLocation: location)
  }

  /// An account with a lock, and its next installation.
  private func locked(_ pin: String = "hunter22") async throws -> (former: TestDevice, next: TestDevice) {
    let former = try await relay.register(attributes: #","pin":"\#(pin)""#)
    return (former, TestDevice(number: former.number, password: "next"))
  }

  @Test func `an account with a lock is replaced by whoever knows code and pin`() async throws {
    let (former, next) = try await locked()
    let code = try await relay.code(for: former.number)
    expectLocked(try await confirm(code, nil, as: next))
    expectLocked(try await confirm(code, "hunter23", as: next))
    #expect(try await relay.send("GET", "/v1/keys", as: former).status == 200)
    #expect(try await confirm(code, "hunter22", as: next).status == 200)
    #expect(try await relay.send("GET", "/v1/keys", as: former).status == 401)
    #expect(try await relay.send("GET", "/v1/keys", as: next).status == 200)
    // The pin that opened it locks the new installation too.
    expectLocked(try await confirm(try await relay.code(for: former.number), nil, as: next))
  }

  @Test func `the pin is asked for only after the code is proved`() async throws {
    let (former, next) = try await locked()
    let code = try await relay.code(for: former.number)
    let other = code == "123456" ? "654321" : "123456"
    for pin in [nil, "hunter22", "wrong"] { expectCodeRefused(try await confirm(other, pin, as: next)) }
    #expect(try await confirm(code, "hunter22", as: next).status == 200)
  }

  @Test func `wrong and missing pins are tries, and the right one is good until the last`() async throws {
    let (former, next) = try await locked()
    var code = try await relay.code(for: former.number)
    for pin in ["wrong", nil, nil, nil] { expectLocked(try await confirm(code, pin, as: next)) }
    #expect(try await confirm(code, "hunter22", as: next).status == 200)
    code = try await relay.code(for: former.number)
    for pin in [nil, nil, nil, nil, "wrong"] { expectLocked(try await confirm(code, pin, as: next)) }
    expectCodeRefused(try await confirm(code, "hunter22", as: next))
    expectCodeRefused(try await confirm(code, "hunter22", as: next))
  }

  @Test func `device 1 sets, changes and removes the lock`() async throws {
    let device = try await relay.register()
    let next = TestDevice(number: device.number, password: "next")
    for pin in ["first pin", "second pin"] {
      let answer = try await relay.send("PUT", "/v1/accounts/pin/", json: #"{"pin":"\#(pin)"}"#, as: device)
      #expect(answer.status == 200)
      #expect(answer.body.isEmpty)
    }
    let code = try await relay.code(for: device.number)
    expectLocked(try await confirm(code, "first pin", as: next))
    #expect(try await relay.send("DELETE", "/v1/accounts/pin/", as: device).status == 200)
    #expect(try await relay.send("DELETE", "/v1/accounts/pin", as: device).status == 200)
    #expect(try await confirm(code, nil, as: next).status == 200)
  }

  @Test func `an installation without a pin has no lock`() async throws {
    let (former, next) = try await locked()
    #expect(try await confirm(try await relay.code(for: former.number), "hunter22", as: next).status == 200)
    #expect(try await relay.send("DELETE", "/v1/accounts/pin", as: next).status == 200)
    for _ in 0..<2 { #expect(try await confirm(try await relay.code(for: former.number), nil, as: next).status == 200) }
  }

  @Test func `nobody but device 1 touches the lock`() async throws {
    let (master, next) = try await locked()
    let linked = try await site.linkDevice(2, registrationID: 0, to: master)
    _ = try await relay.send("PUT", "/v1/accounts/wsc", as: master)  // The relay reads the account anew.
    #expect(try await relay.send("GET", "/v1/keys", as: linked).status == 200)
    #expect(try await relay.send("PUT", "/v1/accounts/pin", json: #"{"pin":"1234"}"#, as: linked).status == 401)
    #expect(try await relay.send("DELETE", "/v1/accounts/pin", as: linked).status == 401)
    #expect(try await relay.send("DELETE", "/v1/accounts/pin").status == 401)
    expectLocked(try await confirm(try await relay.code(for: master.number), "1234", as: next))
  }

  @Test(arguments: ["", "123", String(repeating: "a", count: 101)])
  func `a malformed pin is refused and changes nothing`(pin: String) async throws {
    let (device, next) = try await locked()
    let answer = try await relay.send("PUT", "/v1/accounts/pin/", json: #"{"pin":"\#(pin)"}"#, as: device)
    #expect(answer.status == 415)
    let code = try await relay.code(for: device.number)
    #expect(try await confirm(code, pin, as: next).status == 415)
    #expect(try await confirm(code, "hunter22", as: next).status == 200)
  }

  @Test func `a lock holds for a week after the account was last seen`() async throws {
    let (former, next) = try await locked()
    try await site.age(former.number, byDays: 7)
    let code = try await relay.code(for: former.number)
    expectLocked(try await confirm(code, nil, as: next))
    try await site.age(former.number, byDays: 1)
    #expect(try await confirm(code, nil, as: next).status == 200)
    #expect(try await confirm(try await relay.code(for: former.number), nil, as: next).status == 200)
  }

  @Test func `a lock that is set holds from that day, however long ago the account was seen`() async throws {
    let device = try await relay.register()
    let next = TestDevice(number: device.number, password: "next")
    try await site.age(device.number, byDays: 40)
    #expect(try await relay.send("PUT", "/v1/accounts/pin", json: #"{"pin":"hunter22"}"#, as: device).status == 200)
    expectLocked(try await confirm(try await relay.code(for: device.number), nil, as: next))
  }

  @Test func `a device that fetches is seen, and a lock holds`() async throws {
    let (former, next) = try await locked()
    try await site.age(former.number, byDays: 40)
    _ = try await relay.send("PUT", "/v1/accounts/wsc", as: former)  // The relay reads the account anew.
    #expect(try await relay.send("GET", "/v1/messages", as: former).status == 200)
    expectLocked(try await confirm(try await relay.code(for: former.number), nil, as: next))
  }

  @Test func `a linked device that fetches is seen, and stays active`() async throws {
    let (master, sender) = (try await relay.register(), try await relay.register())
    let linked = try await site.linkDevice(2, registrationID: 0, to: master)
    try await site.age(master.number, byDays: 40)
    _ = try await relay.send("PUT", "/v1/accounts/wsc", as: master)  // The relay reads the account anew.
    let both = bundle(message(), message(device: 2))
    let send = { try await relay.send("PUT", "/v1/messages/\(master.number)", json: both, as: sender) }
    #expect(try await send().status == 409)
    let seen = { () async throws -> [Int64?] in
      try await relay.send("GET", "/v1/devices", as: master).list("devices")
        .map { ($0["lastSeen"] as? NSNumber)?.int64Value }
    }
    let before = try await seen()
    #expect(try await relay.send("GET", "/v1/messages", as: linked).status == 200)
    #expect(try await send().status == 200)
    let after = try await seen()
    #expect(after.first == before.first, "device 1 did not fetch")
    let days = try #require(after[1]) - (try #require(before[1]))
    #expect(days >= 40 * 86_400_000 && days % 86_400_000 == 0)
  }

  @Test func `a number token does not pass the lock either`() async throws {
    let (former, next) = try await locked()
    let token = try #require(try await relay.send("GET", "/v1/accounts/token", as: former).object["token"] as? String)
    for pin in [nil, "wrong"] {
      expectLocked(try await relay.send("PUT", "/v1/accounts/token/\(token)", json: body(pin), as: next))
    }
    let answer = try await relay.send("PUT", "/v1/accounts/token/\(token)", json: body("hunter22"), as: next)
    #expect(answer.status == 200)
  }
}

private let fewPins = [
  "RELAY_LIMITS_REGISTRATION_LOCK_SIZE": "2", "RELAY_LIMITS_REGISTRATION_LOCK_PER_MINUTE": "0.1",
]

@Suite(.tags(.processes), .ownRelay(RelayUnderTest.unlimited.merging(fewPins) { $1 })) struct RegistrationLockLimitTests
{
  @Test func `pins are limited by number, once the code is proved`() async throws {
    let relay = try suiteRelay().relay
    let former = try await relay.register(attributes: #","pin":"hunter22""#)
    let next = TestDevice(number: former.number, password: "next")
    let attempt = { (code: String, pin: String) in
      try await relay.send(
        "PUT", "/v1/accounts/code/\(code)", json: #"{"signalingKey":"c2ln","pin":"\#(pin)"}"#, as: next)
    }
    // A caller who does not know the code uses nothing up.
    for _ in 0..<4 { #expect(try await attempt("111", "hunter22").status == 403) }
    let code = try await relay.code(for: former.number)
    for _ in 0..<2 { #expect(try await attempt(code, "wrong").text.hasPrefix("registration-locked: ")) }
    let refused = try await attempt(code, "hunter22")
    #expect(refused.status == 413)
    #expect(refused.headers["retry-after"] != nil)
    // Setting one has a bucket of its own.
    #expect(try await relay.send("PUT", "/v1/accounts/pin", json: #"{"pin":"1234"}"#, as: former).status == 200)
  }
}

@Suite(.tags(.time), .ownRelay) struct RegistrationLockFloodTests {
  @Test func `a flood of pins is refused beyond a bound, and holds nobody else up`() async throws {
    let relay = try suiteRelay().relay
    let device = try await relay.register()
    let start = ContinuousClock.now
    let (answers, others) = try await withThrowingTaskGroup(of: Answer.self) { group in
      for index in 0..<50 {
        group.addTask {
          try await relay.send("PUT", "/v1/accounts/pin", json: #"{"pin":"pin \#(index)"}"#, as: device)
        }
      }
      #expect(try await relay.send("GET", "/v1/keys", as: device).status == 200)
      let others = ContinuousClock.now - start
      return (try await group.reduce(into: [Answer]()) { $0.append($1) }, others)
    }
    #expect(others * 2 < ContinuousClock.now - start)
    let refused = answers.filter { $0.status == 503 }
    #expect(!refused.isEmpty && refused.allSatisfy { $0.headers["retry-after"] != nil })
    #expect(answers.count { $0.status == 200 } == answers.count - refused.count)
    #expect(refused.count < answers.count)
  }
}
