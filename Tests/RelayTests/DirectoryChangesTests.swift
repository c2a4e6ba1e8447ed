import Foundation
import RelayClient
import TestSupport
import TestTags
import Testing

/// The changes since a client asked before (docs/protocol.md, "Directory").
@Suite(.tags(.processes), .ownRelay) struct DirectoryChangesTests {
  let site: RelayOperator
  let relay: RelayProcess
  let caller: TestDevice

  init() async throws {
    let suite = try suiteRelay()
    (site, relay) = (suite.site, suite.relay)
    caller = try await relay.register()
  }

  private func client() throws -> RelayClient {
    let number = try #require(PhoneNumber(caller.number))
    return try RelayClient(url: relay.url, credentials: Credentials(Correspondent(number), password: caller.password))
  }

  private func raw(_ json: String) async throws -> Answer {
    try await relay.send("PUT", "/v1/directory/changes", json: json, as: caller)
  }

  /// A client's view of its contacts after it has applied each answer.
  private struct Contacts: Equatable {
    var known: [String: String?] = [:]
    var cursor: String?

    mutating func apply(_ changes: ContactChanges) {
      if changes.isComplete { known = [:] }
      for token in changes.removed { known[token] = nil }
      for contact in changes.contacts { known[contact.token] = .some(contact.relay) }
      cursor = changes.cursor
    }
  }

  @Test func `the answer is written as documented`() async throws {
    let (known, unknown) = (try await relay.register(), TestDevice.freshNumber())
    let tokens = try [unknown, known.number].map { try TestTokens.token(of: $0) }
    let list = tokens.map { "\"\($0)\"" }.joined(separator: ",")
    let first = try await raw(#"{"contacts":[\#(list)]}"#)
    #expect(first.status == 200 && first.headers["content-type"] == "application/json")
    let cursor = try #require(first.object["cursor"] as? String)
    #expect(cursor.contains(#/^\d+-\d+$/#), "\(cursor)")
    #expect(
      first.text
        == #"{"contacts":[{"token":"\#(tokens[1])"}],"removed":[],"cursor":"\#(cursor)","complete":true}"#)
    let gone = try await relay.send("DELETE", "/v1/accounts/wsc", as: known)
    #expect(gone.status == 200)
    let second = try await raw(#"{"contacts":[\#(list)],"cursor":"\#(cursor)"}"#)
    let next = try #require(second.object["cursor"] as? String)
    #expect(
      second.text == #"{"contacts":[],"removed":["\#(tokens[1])"],"cursor":"\#(next)","complete":false}"#)
  }

  /// People come, go and change, and now and then the client asks.
  @Test func `a client that applies every answer has what the directory has`() async throws {
    let client = try client()
    var random = SeededGenerator(seed: 20)
    var devices: [TestDevice] = []
    for _ in 0..<6 { devices.append(try await relay.register()) }
    let tokens = try devices.map { try TestTokens.token(of: $0.number) }
    var contacts = Contacts()
    var incremental = 0
    for round in 0..<40 {
      for _ in 0..<Int.random(in: 0...3, using: &random) {
        let index = Int.random(in: 0..<devices.count, using: &random)
        switch Int.random(in: 0...3, using: &random) {
        case 0: devices[index] = try await relay.register(devices[index].number)
        case 1:
          let answer = try await relay.send("DELETE", "/v1/accounts/wsc", as: devices[index])
          #expect(answer.status == 200)
        default:
          let answer = try await relay.send("PUT", "/v1/accounts/wsc", as: devices[index])
          #expect(answer.status == 200)
        }
      }
      // Now and then from the beginning, or from a place that is none.
      if round % 13 == 12 { contacts.cursor = round.isMultiple(of: 2) ? nil : "0-0" }
      let changes = try await client.changes(of: tokens, since: contacts.cursor)
      incremental += changes.isComplete ? 0 : 1
      contacts.apply(changes)
      let expected = try await client.lookUpInClear(tokens)
      #expect(contacts.known == Dictionary(uniqueKeysWithValues: expected.map { ($0.token, $0.relay) }), "\(round)")
    }
    #expect(incremental >= 35)
  }

  @Test func `contacts of peers come and go with their peer`() async throws {
    let client = try client()
    let numbers = (0..<3).map { _ in TestDevice.freshNumber() }
    let tokens = try numbers.map { try TestTokens.token(of: $0) }
    var contacts = Contacts()
    contacts.apply(try await client.changes(of: tokens))
    #expect(contacts.known.isEmpty)
    try await site.listAtPeer("passing", tokens: try numbers.map { try TestTokens.contactToken(of: $0) })
    try await follow(&contacts, client, tokens, until: 3)
    #expect(contacts.known.values.allSatisfy { $0 == "passing" })
    try await site.relay("peer", "remove", "passing")
    try await follow(&contacts, client, tokens, until: 0)
  }

  private func follow(_ contacts: inout Contacts, _ client: RelayClient, _ tokens: [String], until count: Int)
    async throws
  {
    let deadline = ContinuousClock.now + MachineSpeed.allow(.seconds(60))
    while contacts.known.count != count {
      guard ContinuousClock.now < deadline else { throw TestFailure("\(contacts.known.count) known, not \(count)") }
      try await Task.sleep(for: .milliseconds(100))
      contacts.apply(try await client.changes(of: tokens, since: contacts.cursor))
    }
  }

  @Test(arguments: [
    ("{}", 415), (#"{"contacts":null}"#, 415), (#"{"contacts":[7]}"#, 415), (#"{"contacts":[],"cursor":7}"#, 415),
    (#"{"contacts":[],"cursor":{}}"#, 415), (#"{"contacts":["x"]}"#, 400), (#"{"contacts":[],"cursor":null}"#, 200),
    (#"{"contacts":[],"cursor":"-"}"#, 200),
  ])
  func `requests are refused as look-ups are, and a cursor that is none begins anew`(json: String, status: Int)
    async throws
  {
    let answer = try await raw(json)
    #expect(answer.status == status, "\(answer.text)")
    if status == 200 { #expect(answer.object["complete"] as? Bool == true) }
  }

  @Test func `it is charged as look-ups are`() async throws {
    let token = try TestTokens.token(of: TestDevice.freshNumber())
    let list = Array(repeating: "\"\(token)\"", count: 20_000).joined(separator: ",")
    // 50,000 at once, and some come back while they are asked for.
    var statuses: [Int] = []
    while statuses.count < 20, statuses.last != 413 {
      statuses.append(try await raw(#"{"contacts":[\#(list)]}"#).status)
    }
    #expect(statuses.starts(with: [200, 200]) && statuses.last == 413)
    let tooMany = try await raw(#"{"contacts":[\#(list),"\#(token)"]}"#)
    #expect(tooMany.text.hasPrefix("too-many-tokens: "))
  }
}
