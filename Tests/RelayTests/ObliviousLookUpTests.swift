import ChildProcesses
import Crypto
import CryptoExtras
import Foundation
import RelayClient
import RelayCore
import TestSupport
import TestTags
import Testing

/// Look-ups that do not tell the relay what is looked for (docs/protocol.md, "Oblivious look-up").
@Suite(.tags(.processes), .ownRelay)
struct ObliviousLookUpTests {
  let site: RelayOperator
  let relay: RelayProcess
  let caller: TestDevice

  init() async throws {
    let suite = try suiteRelay()
    (site, relay) = (suite.site, suite.relay)
    caller = try await relay.register()
    try await relay.waitUntilOblivious(as: caller)
  }

  private func client() throws -> RelayClient {
    let number = try #require(PhoneNumber(caller.number))
    return try RelayClient(url: relay.url, credentials: Credentials(Correspondent(number), password: caller.password))
  }

  /// Looks `tokens` up, again while not every contact has its output.
  private func lookUp(
    _ tokens: [String], _ disclosure: ObliviousDisclosure = .nothing, _ contacts: inout ObliviousContacts
  ) async throws -> [String] {
    let client = try client()
    return try await eventually("every contact has its output", every: .milliseconds(100)) {
      do throws(RelayClientError) {
        return try await client.lookUpObliviously(tokens, telling: disclosure, contacts: &contacts).registered
      } catch {
        guard error.status == 503 else { throw error }
        return nil
      }
    }
  }

  private func waitUntil(_ tokens: [String], show expected: [String], _ contacts: inout ObliviousContacts) async throws
  {
    try await eventually("\(expected.count) of \(tokens.count) contacts", every: .milliseconds(100)) {
      try await lookUp(tokens, .nothing, &contacts) == expected
    }
  }

  private func evaluated() async throws -> Int {
    let line = try await relay.ask("/metrics").text.split(separator: "\n").first {
      $0.hasPrefix("relay_oblivious_answers_total")
    }
    return try #require(line?.split(separator: " ").last.flatMap { Int($0) })
  }

  @Test func `a client finds who is registered, here and at a peer, and asks for each contact once`() async throws {
    let devices = [try await relay.register(), try await relay.register()]
    let (theirs, unknown) = (TestDevice.freshNumber(), TestDevice.freshNumber())
    let numbers = [unknown, devices[1].number, theirs, devices[0].number]
    let tokens = try numbers.map { try TestTokens.token(of: $0) }
    var contacts = ObliviousContacts()
    try await waitUntil(tokens + tokens, show: [tokens[1], tokens[3]], &contacts)
    #expect(contacts.count == 4)
    let before = try await evaluated()

    try await site.listAtPeer("oblivious-peer", tokens: [try TestTokens.contactToken(of: theirs)])
    try await waitUntil(tokens, show: Array(tokens[1...]), &contacts)
    let gone = try await relay.send("DELETE", "/v1/accounts/wsc", as: devices[1])
    #expect(gone.status == 200)
    try await waitUntil(tokens, show: Array(tokens[2...]), &contacts)
    _ = try await relay.register(unknown)
    let expected = [tokens[0], tokens[2], tokens[3]]
    try await waitUntil(tokens, show: expected, &contacts)
    for digits in [1, 2, 8] {
      let found = try await lookUp(tokens, .digits(digits), &contacts)
      #expect(found == expected, "\(digits)")
    }
    // The client's stored contacts outlive it.
    let kept = try JSONEncoder().encode(contacts)
    var restored = try JSONDecoder().decode(ObliviousContacts.self, from: kept)
    #expect(restored == contacts)
    #expect(try await lookUp(tokens, .nothing, &restored) == expected)
    #expect(try await evaluated() == before)
    restored.keep(only: [tokens[0]])
    #expect(restored.count == 1)
  }

  @Test(arguments: [
    ("{}", 415, "malformed-body"), (#"{"elements":null}"#, 415, "malformed-body"),
    (#"{"elements":[7]}"#, 415, "malformed-body"), (#"{"elements":["AAAA"]}"#, 400, "undecodable-element"),
    (#"{"elements":["Av//Av//Av//"]}"#, 400, "undecodable-element"),
    // The right form, but no element: above the field's size, and the identity.
    (#"{"elements":["//////////////////////////////////////////8="]}"#, 400, "undecodable-element"),
    (#"{"elements":["AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="]}"#, 400, "undecodable-element"),
  ])
  func `an element that cannot be evaluated is refused`(json: String, status: Int, code: String) async throws {
    let answer = try await relay.send("PUT", "/v1/directory/oblivious/evaluations", json: json, as: caller)
    #expect(answer.status == status && answer.text.hasPrefix("\(code): "), "\(answer.text)")
  }

  @Test func `a request has a thousand elements at most, and without any it tells the key`() async throws {
    let path = "/v1/directory/oblivious/evaluations"
    let element = Base64.encode([UInt8](repeating: 0xFF, count: 32), padded: true)
    let list = Array(repeating: "\"\(element)\"", count: 1001).joined(separator: ",")
    let tooMany = try await relay.send("PUT", path, json: #"{"elements":[\#(list)]}"#, as: caller)
    #expect(tooMany.status == 413 && tooMany.text.hasPrefix("too-many-elements: "))
    let none = try await relay.send("PUT", path, json: #"{"elements":[]}"#, as: caller)
    let key = try #require(none.object["key"] as? String)
    #expect(none.status == 200 && none.text == #"{"key":"\#(key)","evaluations":[]}"#)
    #expect(Base64.decode(key)?.count == ObliviousCodec.elementBytes)
    #expect(try await relay.send("PUT", path, json: #"{"elements":[]}"#).status == 401)
  }

  @Test(arguments: ["prefix=g", "prefix=123456789", "after=0", "after=zzzzzzzzzzzzzzzz", "prefix=0&after=%20"])
  func `a malformed prefix or place is refused`(query: String) async throws {
    let answer = try await relay.send("GET", "/v1/directory/oblivious/registered?\(query)", as: caller)
    #expect(answer.status == 400 && answer.text.hasPrefix("invalid-prefix: "), "\(answer.text)")
  }

  @Test func `pages are written as documented`() async throws {
    var contacts = ObliviousContacts()
    _ = try await lookUp([try TestTokens.token(of: caller.number)], .nothing, &contacts)
    let key = try #require(contacts.key)
    let last = try await relay.send(
      "GET", "/v1/directory/oblivious/registered?prefix=ABC&after=ffffffffffffffff", as: caller)
    #expect(last.text == #"{"key":"\#(key)","prefix-suggested":0,"outputs":"","homes":"","relays":[]}"#)
    #expect(try await relay.send("GET", "/v1/directory/oblivious/registered").status == 401)
  }
}

extension RelayProcess {
  /// Waits until it knows its key. Nothing is charged for that.
  func waitUntilOblivious(as caller: TestDevice) async throws {
    try await eventually("the key is known") {
      try await send("PUT", "/v1/directory/oblivious/evaluations", json: #"{"elements":[]}"#, as: caller).status == 200
    }
  }
}

/// The cost of oblivious look-ups to an account.
@Suite(.tags(.processes)) struct ObliviousLimitTests {
  private static let path = "/v1/directory/oblivious/evaluations"

  private static func serve(
    _ settings: [String: String], _ body: (_ relay: RelayProcess, _ caller: TestDevice) async throws -> Void
  ) async throws {
    try await RelayOperator.with(settings: RelayUnderTest.unlimited.merging(settings) { $1 }) { site in
      let relay = try await site.serve()
      let caller = try await relay.register()
      try await relay.waitUntilOblivious(as: caller)
      try await body(relay, caller)
      #expect(await relay.terminate() == .code(0))
    }
  }

  private static func elements(_ range: Range<UInt64>) throws -> String {
    let batch = try ObliviousBatch(range.map { ContactToken(high: $0, low: 0) })
    return batch.elements.map { "\"\(Base64.encode($0, padded: true))\"" }.joined(separator: ",")
  }

  @Test func `every other element is another contact of the budget, and the same again is none`() async throws {
    let settings = ["RELAY_DIRECTORY_BUDGET_FIRST": "20", "RELAY_DIRECTORY_BUDGET_PER_DAY": "5"]
    try await Self.serve(settings) { relay, caller in
      let first = try Self.elements(0..<18)
      for _ in 0..<3 {
        let answer = try await relay.send("PUT", Self.path, json: #"{"elements":[\#(first)]}"#, as: caller)
        #expect(answer.status == 200, "\(answer.text)")
      }
      // The same contacts, blinded anew.
      let again = try Self.elements(0..<18)
      let refused = try await relay.send("PUT", Self.path, json: #"{"elements":[\#(again)]}"#, as: caller)
      #expect(refused.status == 413 && refused.text.hasPrefix("contact-budget-exceeded: "), "\(refused.text)")
      #expect(refused.headers["retry-after"] != nil)
    }
  }

  @Test func `after a lost answer the same elements are sent again, and cost the budget nothing`() async throws {
    let settings = ["RELAY_DIRECTORY_BUDGET_FIRST": "20", "RELAY_DIRECTORY_BUDGET_PER_DAY": "5"]
    try await Self.serve(settings) { relay, caller in
      let port = try #require(relay.url.split(separator: ":").last.flatMap { Int($0) })
      let proxy = try await CuttingProxy(to: port, seed: 1)
      let number = try #require(PhoneNumber(caller.number))
      let client = try RelayClient(
        url: "http://127.0.0.1:\(proxy.port)",
        credentials: Credentials(Correspondent(number), password: caller.password))
      let tokens = (0..<18).map { ContactToken(high: $0, low: 0).base64 }
      // Behind the whole request of 1.2 KB, amid the answer of a kilobyte.
      proxy.cut(after: 1700...1700)
      let healing = Task {
        try await eventually("a connection was cut") { !proxy.cuts.isEmpty }
        proxy.cut(after: nil)
      }
      let deadline = ContinuousClock.now + MachineSpeed.allow(.seconds(120))
      var contacts = ObliviousContacts()
      while contacts.count < tokens.count {
        do throws(RelayClientError) {
          _ = try await client.lookUpObliviously(tokens, contacts: &contacts)
        } catch {
          // An answer to the pages, while not every contact has its output.
          guard error.status == 503, contacts.count == tokens.count else { throw error }
        }
        guard ContinuousClock.now < deadline else { throw TestFailure("no outputs in time") }
      }
      try await healing.value
      try await proxy.close()
    }
  }

  @Test func `elements and pages have their buckets`() async throws {
    let settings = [
      "RELAY_LIMITS_OBLIVIOUS_ELEMENTS_SIZE": "10", "RELAY_LIMITS_OBLIVIOUS_ELEMENTS_PER_MINUTE": "1",
      "RELAY_LIMITS_OBLIVIOUS_PAGES_SIZE": "2", "RELAY_LIMITS_OBLIVIOUS_PAGES_PER_MINUTE": "1",
    ]
    try await Self.serve(settings) { relay, caller in
      let elements = try Self.elements(0..<6)
      // Not even the very same elements are evaluated for nothing.
      var statuses: [Int] = []
      for _ in 0..<2 {
        statuses.append(
          try await relay.send("PUT", Self.path, json: #"{"elements":[\#(elements)]}"#, as: caller).status)
      }
      #expect(statuses == [200, 413])
      var pages: [Answer] = []
      for _ in 0..<3 {
        pages.append(try await relay.send("GET", "/v1/directory/oblivious/registered", as: caller))
      }
      #expect(pages.last?.status == 413 && pages.last?.text.hasPrefix("rate-limited: ") == true)
      #expect(pages[..<2].allSatisfy { $0.status == 200 || $0.status == 503 })
    }
  }
}
