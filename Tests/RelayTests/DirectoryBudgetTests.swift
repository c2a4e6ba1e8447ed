import ChildProcesses
import Foundation
import TestSupport
import TestTags
import Testing

/// How many different contacts an account may ask for (docs/directory.md, "Look-ups and budgets").
@Suite(
  .tags(.processes),
  .ownRelay(
    RelayUnderTest.unlimited.merging([
      "RELAY_DIRECTORY_BUDGET_FIRST": "200", "RELAY_DIRECTORY_BUDGET_PER_DAY": "50",
    ]) { $1 }))
struct DirectoryBudgetTests {
  let relay: RelayProcess
  let caller: TestDevice

  init() async throws {
    relay = try suiteRelay().relay
    caller = try await relay.register()
  }

  /// Tokens of numbers that nobody has.
  private static func tokens(_ range: Range<Int>) throws -> [String] {
    try range.map { try TestTokens.token(of: "+4915\($0 * 7919 % 90_000_000 + 10_000_000)") }
  }

  private func ask(_ tokens: [String], _ resource: String = "tokens", as device: TestDevice? = nil) async throws
    -> Answer
  {
    let list = tokens.map { "\"\($0)\"" }.joined(separator: ",")
    return try await relay.send(
      "PUT", "/v1/directory/\(resource)", json: #"{"contacts":[\#(list)]}"#, as: device ?? caller)
  }

  @Test func `an address book costs its contacts once, whatever is asked again in whatever order`() async throws {
    let book = try Self.tokens(0..<200)
    for tokens in [Array(book[..<120]), book, book.reversed(), Array(book[50...]), book + book[..<50]] {
      #expect(try await ask(tokens).status == 200)
    }
    for resource in ["tokens", "changes"] { #expect(try await ask(book, resource).status == 200) }
    #expect(try await ask(try Self.tokens(200..<203)).status == 413)
    #expect(try await ask(book).status == 200, "what was asked for before goes on being answered")
  }

  @Test func `beyond the budget new contacts are refused, with the time until there is room again`() async throws {
    let book = try Self.tokens(0..<195)
    #expect(try await ask(book).status == 200)
    let more = try Self.tokens(195..<245)
    let refused = try await ask(more)
    #expect(refused.status == 413 && refused.text.hasPrefix("contact-budget-exceeded: "), "\(refused.text)")
    let wait = try #require(refused.headers["retry-after"].flatMap { Int($0) })
    #expect((10 * 86_400 - 3600...10 * 86_400).contains(wait), "\(wait) s: 50 more than 200 after the tenth day")
    // A contact that was asked for before costs nothing, also just after a refusal, and in parts that were never
    // asked for as such.
    for start in 0..<30 { #expect(try await ask(Array(book[start..<start + 7])).status == 200, "part \(start)") }
    let known = "/v1/directory/\(book[3].replacing("/", with: "_").replacing("+", with: "-"))"
    #expect(try await relay.send("GET", known, as: caller).status == 404, "asked about, and nobody's")
    // For a minute nothing new is even counted: neither in a list nor alone.
    let path = "/v1/directory/\(try TestTokens.urlSafe("+4915112345678"))"
    for answer in [
      try await ask(Array(more[..<2])), try await ask(more, "changes"), try await relay.send("GET", path, as: caller),
    ] {
      #expect(answer.status == 413 && answer.text.hasPrefix("contact-budget-exceeded: "))
      let pause = try #require(answer.headers["retry-after"].flatMap { Int($0) })
      #expect((1...60).contains(pause))
    }
    // Others have budgets of their own.
    #expect(try await ask(more, as: try await relay.register()).status == 200)
  }

  @Test func `single look-ups are counted too, and unreadable ones are not`() async throws {
    #expect(try await ask(try Self.tokens(0..<199)).status == 200)
    for token in ["x", "AAAA"] {
      #expect(try await relay.send("GET", "/v1/directory/\(token)", as: caller).status == 404)
      #expect(try await ask(try Self.tokens(300..<400) + [token]).status == 400)
    }
    let numbers = ["+4915112345678", "+4915112345679", "+4915112345680"]
    let paths = try numbers.map { "/v1/directory/\(try TestTokens.urlSafe($0))" }
    #expect(try await relay.send("GET", paths[0], as: caller).status == 404)
    #expect(try await relay.send("GET", paths[0], as: caller).status == 404, "the same again")
    var statuses: [Int] = []
    for path in paths[1...] { statuses.append(try await relay.send("GET", path, as: caller).status) }
    #expect(statuses.last == 413, "one in a hundred is taken for one that was asked for before")
  }

  @Test func `a request that is too long says so, and costs nothing`() async throws {
    let answer = try await ask(try Self.tokens(0..<20_001))
    #expect(answer.status == 413 && answer.text.hasPrefix("too-many-tokens: "))
    #expect(answer.headers["retry-after"] == nil)
    #expect(try await ask(try Self.tokens(500..<700)).status == 200)
  }

  @Test func `a refusal that no waiting ends promises no time`() async throws {
    try await RelayOperator.with(
      settings: RelayUnderTest.unlimited.merging([
        "RELAY_DIRECTORY_BUDGET_FIRST": "5", "RELAY_DIRECTORY_BUDGET_PER_DAY": "0",
      ]) { $1 }
    ) { site in
      let relay = try await site.serve()
      let device = try await relay.register()
      let list = try Self.tokens(0..<10).map { "\"\($0)\"" }.joined(separator: ",")
      let answer = try await relay.send("PUT", "/v1/directory/tokens", json: #"{"contacts":[\#(list)]}"#, as: device)
      #expect(answer.status == 413 && answer.text.hasPrefix("contact-budget-exceeded: "))
      #expect(answer.headers["retry-after"] == nil)
      #expect(await relay.terminate() == .code(0))
    }
  }
}

/// Look-ups that look like an enumeration.
@Suite(.tags(.processes)) struct EnumerationTests {
  /// In a row of 200 numbers every twentieth has an account.
  private static func serve(
    refusing: Bool, _ body: (_ relay: RelayProcess, _ row: [String], _ known: [String]) async throws -> Void
  ) async throws {
    let settings = ["RELAY_DIRECTORY_REFUSE_ENUMERATION": "\(refusing)"]
    try await RelayOperator.with(settings: RelayUnderTest.unlimited.merging(settings) { $1 }) { site in
      let relay = try await site.serve()
      let row = (0..<200).map { "+4915\(100_000_000 + $0)" }
      let known = stride(from: 5, to: 200, by: 20).map { row[$0] }
      for number in known { _ = try await relay.register(number) }
      try await body(relay, row, known)
      #expect(await relay.terminate() == .code(0))
    }
  }

  private static func ask(_ numbers: [String], as device: TestDevice, at relay: RelayProcess) async throws -> Answer {
    let list = try numbers.map { "\"\(try TestTokens.token(of: $0))\"" }.joined(separator: ",")
    return try await relay.send("PUT", "/v1/directory/tokens", json: #"{"contacts":[\#(list)]}"#, as: device)
  }

  /// An address book of 200 with the same ten people.
  private static func book(with known: [String]) -> [String] {
    known + (0..<190).map { "+4917\(100_000_000 + $0 * 104_729)" }
  }

  private static func suspicions(_ relay: RelayProcess) async throws -> Int {
    let line = try await relay.ask("/metrics").text.split(separator: "\n").first {
      $0.hasPrefix(#"relay_directory_suspicious_total{kind="sequential"}"#)
    }
    return line.flatMap { $0.split(separator: " ").last }.flatMap { Int($0) } ?? 0
  }

  @Test func `numbers in a row are counted, and answered where the operator does not refuse them`() async throws {
    try await Self.serve(refusing: false) { relay, row, known in
      let caller = try await relay.register()
      #expect(try await Self.ask(Self.book(with: known), as: caller, at: relay).list("contacts").count == known.count)
      #expect(try await Self.suspicions(relay) == 0)
      for _ in 0..<3 {
        #expect(try await Self.ask(row, as: caller, at: relay).list("contacts").count == known.count)
        #expect(try await Self.suspicions(relay) == 1, "the same again is no other suspicion")
      }
    }
  }

  @Test func `if sequential numbers are refused, they are refused each time, and address books are not`() async throws {
    try await Self.serve(refusing: true) { relay, row, known in
      let caller = try await relay.register()
      for count in 1...3 {
        let answer = try await Self.ask(row, as: caller, at: relay)
        #expect(answer.status == 413 && answer.text.hasPrefix("enumeration-refused: "))
        #expect(answer.headers["retry-after"] == nil)
        #expect(try await Self.suspicions(relay) == count)
      }
      let answer = try await Self.ask(Self.book(with: known), as: caller, at: relay)
      #expect(answer.list("contacts").count == known.count)
    }
  }
}
