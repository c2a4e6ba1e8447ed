// A client that asks for the keys of ever new numbers, or writes to them, to find out who is registered.

import ChildProcesses
import Foundation
import TestSupport
import TestTags
import Testing

@Suite(.tags(.processes)) struct KeyRequestEnumerationTests {
  private static let first = 30
  /// The sketch takes one new contact in a hundred at most for one that was asked for before.
  private static let budget = first...first + 2
  private static let settings = Victim.unlimited.merging([
    "RELAY_DIRECTORY_BUDGET_FIRST": "\(first)", "RELAY_DIRECTORY_BUDGET_PER_DAY": "5",
  ]) { $1 }

  /// Numbers that nobody has.
  private static func unknown(_ count: Int) -> [String] {
    let begin = Int.random(in: 1_000_000...8_000_000)
    return (0..<count).map { "+49151\(begin + 97 * $0)" }
  }

  /// Asks whether `number` is registered, in one of the ways that tell.
  private static func ask(
    _ number: String, _ way: Int, _ relay: RelayProcess, _ device: TestDevice
  ) async throws -> Answer {
    switch way % 5 {
    case 0: return try await relay.send("GET", "/v2/keys/\(number)/*", as: device)
    case 1: return try await relay.send("GET", "/v1/keys/\(number)", as: device)
    case 2: return try await relay.send("PUT", "/v1/messages/\(number)", json: bundle(message()), as: device)
    case 3: return try await relay.send("PUT", "/v1/messages/\(number)", json: bundle(), as: device)
    default: return try await relay.send("GET", "/v1/keys/\(number)/1?relay=evil", as: device)
    }
  }

  private static func isSpent(_ answer: Answer) -> Bool {
    answer.status == 413 && answer.text.hasPrefix("contact-budget-exceeded: ") && answer.headers["retry-after"] != nil
  }

  @Test(arguments: StoreKind.allCases)
  func `unknown numbers cost one budget, in whichever way they are asked for`(kind: StoreKind) async throws {
    try await Victim.with(kind, settings: Self.settings) { victim in
      let evil = try await ScriptedPeer.start("evil")
      evil.answer(404)
      try await victim.trust(evil, as: "evil")
      let (relay, caller) = (victim.relay, try await victim.relay.register())
      let friend = try await relay.register()
      #expect(try await Self.ask(friend.number, 2, relay, caller).status == 200)
      try await eventually("evil is known") { try await Self.ask("+4915300000001", 4, relay, friend).status == 404 }

      var (missing, refused): (Int, Answer?) = (0, nil)
      for (way, number) in Self.unknown(3 * Self.first).enumerated() {
        let answer = try await Self.ask(number, way, relay, caller)
        guard answer.status == 404 else {
          refused = answer
          break
        }
        missing += 1
        // The same again costs nothing.
        #expect(try await Self.ask(number, way, relay, caller).status == 404)
      }
      #expect(Self.budget.contains(missing), "\(missing)")
      #expect(refused.map(Self.isSpent) == true, "\(refused?.text ?? "")")
      // Look-ups have none left either, and single messages of the first generation fail for all alike.
      let token = try TestTokens.urlSafe(Self.unknown(1)[0])
      #expect(Self.isSpent(try await relay.send("GET", "/v1/directory/\(token)", as: caller)))
      let stranger = try await relay.register()
      let entries = ([stranger.number] + Self.unknown(3)).map {
        #"{"type":1,"destination":"\#($0)","body":"Zm9v"}"#
      }
      let json = #"{"messages":[\#(entries.joined(separator: ","))]}"#
      #expect(Self.isSpent(try await relay.send("POST", "/v1/messages", json: json, as: caller)))
      try await evil.close()
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `past its budget an account cannot learn whether a number is registered`(kind: StoreKind) async throws {
    try await Victim.with(kind, settings: Self.settings) { victim in
      let (relay, caller) = (victim.relay, try await victim.relay.register())
      let (friend, stranger) = (try await relay.register(), try await relay.register())
      for device in [friend, stranger] { try await relay.upload([1, 2, 3], as: device) }
      #expect(try await Self.ask(friend.number, 0, relay, caller).status == 200)
      for number in Self.unknown(2 * Self.first) {
        guard try await Self.ask(number, 0, relay, caller).status == 404 else { break }
      }
      for way in 0..<4 {
        let registered = try await Self.ask(stranger.number, way, relay, caller)
        let missing = try await Self.ask(Self.unknown(1)[0], way, relay, caller)
        #expect(Self.isSpent(registered) && Self.isSpent(missing), "\(way): \(registered.status), \(missing.status)")
        #expect(registered.text == missing.text)
      }
      // It goes on writing to numbers that it is in contact with, and others go on as ever.
      for way in [0, 1, 2] { #expect(try await Self.ask(friend.number, way, relay, caller).status == 200) }
      #expect(try await Self.ask(caller.number, 2, relay, stranger).status == 200)
      #expect(try await Self.ask(Self.unknown(1)[0], 2, relay, stranger).status == 404)
      // A number that has written to it gets its receipt, and an answer.
      let time = try #require(
        try await relay.mailbox(of: caller).first.flatMap { ($0["timestamp"] as? NSNumber)?.int64Value })
      let receipt = try await relay.send("PUT", "/v1/receipt/\(stranger.number)/\(time)", as: caller)
      #expect(receipt.status == 200, "\(receipt.text)")
      #expect(try await Self.ask(stranger.number, 2, relay, caller).status == 200)
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `registered numbers are free up to a bound only`(kind: StoreKind) async throws {
    try await Victim.with(kind, settings: Self.settings) { victim in
      let (relay, caller) = (victim.relay, try await victim.relay.register())
      var answered = 0
      for _ in 0..<120 {
        let answer = try await Self.ask(try await relay.register().number, 2, relay, caller)
        guard answer.status == 200 else {
          #expect(Self.isSpent(answer), "\(answer.status)")
          break
        }
        answered += 1
      }
      // 50 are charged at once, which is more than the budget; as many again may come until that is known.
      #expect((50...100 + Self.budget.upperBound).contains(answered), "\(answered)")
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `many at once cost as much as one by one`(kind: StoreKind) async throws {
    try await Victim.with(kind, settings: Self.settings) { victim in
      let (relay, caller) = (victim.relay, try await victim.relay.register())
      let statuses = try await withThrowingTaskGroup(of: Int.self) { group in
        for (way, number) in Self.unknown(4 * Self.first).enumerated() {
          group.addTask { try await Self.ask(number, way % 3, relay, caller).status }
        }
        return try await group.reduce(into: []) { $0.append($1) }
      }
      let missing = statuses.count { $0 == 404 }
      // With so many at once, some find a sketch that another one has just replaced, each time they look. These are
      // refused too.
      #expect((1...Self.budget.upperBound).contains(missing), "\(missing)")
      #expect(statuses.allSatisfy { $0 == 404 || $0 == 413 })
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `an account with too large an address book can still write`(kind: StoreKind) async throws {
    try await Victim.with(kind, settings: Self.settings) { victim in
      let (relay, caller) = (victim.relay, try await victim.relay.register())
      let book = try Self.unknown(2 * Self.first).map { "\"\(try TestTokens.token(of: $0))\"" }
      for _ in 0..<2 {
        let json = #"{"contacts":[\#(book.joined(separator: ","))]}"#
        #expect(Self.isSpent(try await relay.send("PUT", "/v1/directory/tokens", json: json, as: caller)))
      }
      for _ in 0..<3 { #expect(try await Self.ask(try await relay.register().number, 2, relay, caller).status == 200) }
      #expect(try await Self.ask(Self.unknown(1)[0], 2, relay, caller).status == 404)
    }
  }

  @Test func `another process knows what was spent`() async throws {
    try await Victim.with(.servers, settings: Self.settings) { victim in
      let caller = try await victim.relay.register()
      let stranger = try await victim.relay.register()
      for number in Self.unknown(2 * Self.first) {
        guard try await Self.ask(number, 0, victim.relay, caller).status == 404 else { break }
      }
      let other = try await victim.site.serve()
      #expect(Self.isSpent(try await Self.ask(Self.unknown(1)[0], 0, other, caller)))
      #expect(Self.isSpent(try await Self.ask(stranger.number, 2, other, caller)))
      #expect(await other.terminate() == .code(0))
    }
  }
}
