import Foundation
import NIOHTTP1
import RelayCore
import Storage
import Synchronization
import TestSupport
import TestTags
import Testing

@testable import Federation

/// Peers that are asked at look-up time (docs/federation.md, "Asking instead of copying").
@Suite(.tags(.stores)) struct LookupTests {
  @Test func `a contact is found by asking and nothing is copied`() async throws {
    try await withListing(3) { listing, beta in
      try await beta.setContacts(.query, of: "alpha")
      try await listing.deactivate(2)
      let tokens = try RecordedListing.tokens(0..<4)
      let found = await beta.finder().find(tokens)
      #expect(
        found.sorted { $0.token < $1.token }
          == (try tokens.prefix(2).sorted().map {
            DirectoryEntry(token: $0, relay: try name("alpha"), supportsSMS: false, voice: true)
          }))
      #expect(try await beta.known(tokens).isEmpty)
      #expect(try await beta.storage.contactCount(of: name("alpha")) == 0)
    }
  }

  @Test func `a peer's answer is remembered for a minute`() async throws {
    try await withListing(1) { listing, beta in
      try await beta.setContacts(.query, of: "alpha")
      let time = Mutex(Timestamp(millis: 1_700_000_000_000))
      let finder = beta.finder(clock: WallClock { time.withLock { $0 } })
      let tokens = try RecordedListing.tokens(0..<2)
      for _ in 1...3 { #expect(await finder.find(tokens).map(\.token) == [tokens[0]]) }
      #expect(listing.asked.lookUps == [2])
      try await listing.register(1..<2)
      time.withLock { $0 = $0.adding(.seconds(59)) }
      #expect(await finder.find(tokens).count == 1)
      time.withLock { $0 = $0.adding(.seconds(1)) }
      #expect(await finder.find(tokens).count == 2)
      #expect(listing.asked.lookUps == [2, 2])
    }
  }

  @Test func `look-ups that gather travel together`() async throws {
    try await withListing(20) { listing, beta in
      try await beta.setContacts(.query, of: "alpha")
      let finder = beta.finder(timeout: .seconds(60))
      listing.hold(true)
      try await withThrowingTaskGroup(of: Int.self) { group in
        group.addTask { await finder.find(try RecordedListing.tokens(0..<1)).count }
        try await eventually("the first is under way") { listing.asked.lookUps == [1] }
        for index in 1..<10 {
          group.addTask { await finder.find(try RecordedListing.tokens(index..<index + 2)).count }
        }
        // They have nothing to wait for but the first: it is enough that they had time to begin.
        try await Task.sleep(for: MachineSpeed.allow(.milliseconds(200)))
        listing.hold(false)
        let found = try await group.reduce(into: 0) { $0 += $1 }
        #expect(found == 1 + 9 * 2)
      }
      #expect(listing.asked.lookUps.reduce(0, +) == 11)
      #expect(listing.asked.lookUps.count <= 3)
    }
  }

  @Test func `a peer that is slow is passed over`() async throws {
    try await withListing(2) { listing, beta in
      try await beta.setContacts(.query, of: "alpha")
      let timeout = MachineSpeed.allow(.seconds(2))
      let finder = beta.finder(timeout: timeout)
      let tokens = try RecordedListing.tokens(0..<2)
      // The capabilities are asked for first.
      #expect(try await eventually("it answers") { await finder.find([tokens[0]]).first }.token == tokens[0])
      listing.hold(true)
      let began = ContinuousClock.now
      #expect(await finder.find(tokens).map(\.token) == [tokens[0]])
      #expect(.now - began >= timeout)
      // No look-up waits for that long behind a request that is under way.
      try await Task.sleep(for: .milliseconds(100))
      let again = ContinuousClock.now
      #expect(await finder.find(tokens).count == 1)
      #expect(.now - again < timeout)
      listing.hold(false)
      try await eventually("its answer serves later look-ups") { await finder.find(tokens).count == 2 }
      #expect(listing.asked.lookUps == [1, 1])
    }
  }

  @Test func `a peer that is not to be asked is forgotten`() async throws {
    try await withListing(1) { listing, beta in
      let finder = beta.finder()
      let tokens = try RecordedListing.tokens(0..<1)
      #expect(await finder.find(tokens).isEmpty)
      try await beta.setContacts(.query, of: "alpha")
      #expect(await finder.find(tokens).count == 1)
      #expect(try await beta.storage.setPeerState(.suspended, of: name("alpha")))
      await beta.registry.refresh()
      #expect(await finder.find(tokens).isEmpty)
      #expect(try await beta.storage.setPeerState(.active, of: name("alpha")))
      await beta.registry.refresh()
      #expect(await finder.find(tokens).count == 1)
      #expect(listing.asked.lookUps == [1, 1])
    }
  }

  /// By the name that sorts first a peer wins nothing: it was remembered that the other one had it.
  @Test func `the first peer that claimed a contact has it`() async throws {
    let token = try RecordedListing.token(0)
    let claim = #"{"contacts":[{"token":"\#(token.base64)"}]}"#
    try await withScriptedPeers(["gamma", "alpha"]) { beta, peers in
      peers[0].answer(by: Self.lookUps(claim))
      peers[1].answer(by: Self.lookUps(#"{"contacts":[]}"#))
      for name in ["gamma", "alpha"] { try await beta.setContacts(.query, of: name) }
      #expect(await beta.finder().find([token]).map(\.relay) == [try name("gamma")])
      peers[1].answer(by: Self.lookUps(claim))
      // Another process, which remembers nothing itself.
      #expect(await beta.finder().find([token]).map(\.relay) == [try name("gamma")])
      #expect(try await beta.storage.claimants(of: token) == [name("gamma")])
      // While it does not say so, nobody has it.
      peers[0].answer(by: Self.lookUps(#"{"contacts":[]}"#))
      #expect(await beta.finder().find([token]).isEmpty)
      #expect(peers.allSatisfy { $0.requests.contains { $0.path == "/v1/federation/tokens" } })
    }
  }

  @Test func `if two peers claim a contact at once, neither has it`() async throws {
    let token = try RecordedListing.token(0)
    try await withScriptedPeers(["gamma", "alpha"]) { beta, peers in
      for peer in peers { peer.answer(by: Self.lookUps(#"{"contacts":[{"token":"\#(token.base64)"}]}"#)) }
      for name in ["gamma", "alpha"] { try await beta.setContacts(.query, of: name) }
      #expect(await beta.finder().find([token]).isEmpty)
      #expect(try await beta.storage.claimants(of: token).isEmpty)
      // The operator decides.
      #expect(try await beta.storage.setContactOwner(of: token, to: name("gamma")) == nil)
      #expect(await beta.finder().find([token]).map(\.relay) == [try name("gamma")])
    }
  }

  /// Else whoever waits until another is away would have its contacts for good.
  @Test func `a lone answer is not remembered`() async throws {
    let token = try RecordedListing.token(0)
    let claim = #"{"contacts":[{"token":"\#(token.base64)"}]}"#
    try await withScriptedPeers(["gamma", "evil"]) { beta, peers in
      peers[0].answer(by: Self.lookUps("", status: 500))
      peers[1].answer(by: Self.lookUps(claim))
      for name in ["gamma", "evil"] { try await beta.setContacts(.query, of: name) }
      #expect(await beta.finder().find([token]).map(\.relay) == [try name("evil")])
      #expect(try await beta.storage.claimants(of: token).isEmpty)
      peers[0].answer(by: Self.lookUps(claim))
      #expect(await beta.finder().find([token]).isEmpty)
    }
  }

  @Test func `a number with an account here is no peer's, however it is asked for`() async throws {
    let token = try RecordedListing.token(0)
    try await withScriptedPeers(["evil"]) { beta, peers in
      peers[0].answer(by: Self.lookUps(#"{"contacts":[{"token":"\#(token.base64)"}]}"#))
      try await beta.setContacts(.query, of: "evil")
      let listing = RecordedListing(beta.storage)
      try await listing.register(0..<1)
      try await listing.deactivate(0)
      #expect(await beta.finder().find([token]).isEmpty)
      #expect(try await beta.storage.claimants(of: token).isEmpty)
    }
  }

  @Test(arguments: [
    // Not what was asked for; inactive; no token; too many; no JSON.
    #"{"contacts":[{"token":"AAAAAAAAAAAAAA"}]}"#, #"{"contacts":[{"token":"TOKEN","inactive":true}]}"#,
    #"{"contacts":[{"token":"x"}]}"#, #"{"contacts":[MANY]}"#, "nothing",
  ])
  func `an answer that a peer may not give is not believed`(answer: String) async throws {
    let token = try RecordedListing.token(0)
    let entry = #"{"token":"\#(token.base64)"}"#
    let many = Array(repeating: entry, count: 10_001).joined(separator: ",")
    let answer = answer.replacing("TOKEN", with: token.base64).replacing("MANY", with: many)
    try await withScriptedPeers(["alpha"]) { beta, peers in
      peers[0].answer(by: Self.lookUps(answer))
      try await beta.setContacts(.query, of: "alpha")
      #expect(await beta.finder().find([token]).isEmpty)
    }
  }

  @Test func `a peer that cannot be asked is shown no tokens`() async throws {
    try await withScriptedPeers(["alpha"]) { beta, peers in
      peers[0].answer(404)
      try await beta.setContacts(.query, of: "alpha")
      let finder = beta.finder()
      func saidTimes() -> Int { beta.log.all.count { $0.contains("peer cannot be asked for contacts") } }
      let token = try RecordedListing.token(0)
      // A slow machine may not reach it at the first attempts, and that is said elsewhere.
      try await eventually("it is said") {
        let found = await finder.find([token])
        #expect(found.isEmpty)
        return saidTimes() > 0
      }
      for _ in 1...3 { #expect(await finder.find([token]).isEmpty) }
      #expect(!peers[0].requests.contains { $0.path == "/v1/federation/tokens" })
      #expect(saidTimes() == 1)
    }
  }

  @Test func `a peer that refuses is left alone for as long as it says`() async throws {
    try await withScriptedPeers(["alpha"]) { beta, peers in
      peers[0].answer(by: Self.lookUps("", status: 413, headers: [("Retry-After", "60")]))
      try await beta.setContacts(.query, of: "alpha")
      let finder = beta.finder()
      for _ in 1...3 { #expect(await finder.find([try RecordedListing.token(0)]).isEmpty) }
      #expect(peers[0].requests.count { $0.path == "/v1/federation/tokens" } == 1)
    }
  }

  private static func lookUps(
    _ body: String, status: Int = 200, headers: [(String, String)] = []
  ) -> ScriptedPeer.Rule {
    { request in
      switch request.path {
      case "/v1/federation/peering":
        .init(status: 200, body: #"{"name":"beta","state":"active","capabilities":["lookup"]}"#)
      case "/v1/federation/tokens": .init(status: status, headers: headers, body: body)
      default: .init(status: 404)
      }
    }
  }
}

/// A peer's requests to us with the scope `lookup`, as a peer of any make would make them.
@Suite(.tags(.stores)) struct LookupRouteTests {
  private let path = "/v1/federation/tokens"

  @Test func `the scope lookup covers look-ups and nothing else of the directory`() async throws {
    let listing = ListedAccounts(try tokens(3, inactive: [2]))
    let all = try tokens(4).map(\.token)
    try await withPeerClient(scopes: [.lookup], listing: listing) { relay, client in
      let answer = try await client.send(.PUT, path, body: Self.body(all))
      #expect(answer.status == 200)
      #expect(
        answer.text
          == #"{"contacts":[{"token":"\#(all[0].base64)"},{"token":"\#(all[1].base64)"}]}"#)
      for path in ["user_count", "user_tokens/0", "changes"] {
        #expect(try await client.get("/v1/federation/\(path)").status == 403)
      }
      #expect(try await client.get(path).status == 405)
      try await withPeer("gamma", of: relay, scopes: [.directory]) { gamma in
        let tokens = try await gamma.send(.PUT, path, body: Self.body(all))
        let changes = try await gamma.get("/v1/federation/changes")
        #expect(tokens.status == 200 && changes.status == 200)
      }
      try await withPeer("delta", of: relay, scopes: [.messages, .keys, .attachments]) { delta in
        let refused = try await delta.send(.PUT, path, body: Self.body(all))
        #expect(refused.status == 403)
      }
    }
  }

  @Test func `a look-up is bounded and charged`() async throws {
    let listing = ListedAccounts(try tokens(1))
    try await withPeerClient(
      scopes: [.lookup], listing: listing, buckets: [.peerTokens: Bucket(size: 10_001, perMinute: 60)]
    ) { _, client in
      let many = try tokens(10_001).map(\.token)
      #expect(try await client.send(.PUT, path, body: Self.body(many)).status == 413)
      #expect(try await client.send(.PUT, path, body: #"{"contacts":["AAAA"]}"#).status == 400)
      #expect(try await client.send(.PUT, path, body: #"{"contacts":[1]}"#).status == 415)
      #expect(try await client.send(.PUT, path, body: Self.body(Array(many.prefix(10_000)))).status == 200)
      let refused = try await client.send(.PUT, path, body: Self.body(Array(many.prefix(5))))
      #expect(refused.status == 413)
      #expect(refused.headers.first(name: "Retry-After") != nil)
      #expect(try await client.send(.PUT, path, body: Self.body([])).text == #"{"contacts":[]}"#)
    }
  }

  @Test func `changes come behind a cursor`() async throws {
    let listing = ListedAccounts(try tokens(1))
    try await withPeerClient(listing: listing) { _, client in
      let start = try await client.get("/v1/federation/changes")
      #expect(start.text == #"{"contacts":[],"cursor":"1-1","more":false}"#)
      #expect(try await client.get("/v1/federation/changes?after=1-1").text == start.text)
      for cursor in ["2-1", "1-9", "", "x", "-1-1", "1-1%00"] {
        let answer = try await client.get("/v1/federation/changes?after=\(cursor)")
        #expect(answer.status == 200)
        #expect(answer.text == #"{"reset":true,"cursor":"1-1"}"#)
      }
    }
  }

  private static func body(_ tokens: [ContactToken]) -> String {
    String(decoding: ContactCodec.encode(tokens: tokens), as: UTF8.self)
  }
}

/// The gathered and the remembered look-ups, without a peer.
@Suite(.tags(.unit)) struct LookupStateTests {
  @Test func `look-ups that gather travel together, up to a batch`() throws {
    let tokens = try tokens(7).map(\.token)
    var queue = LookupQueue(batchMax: 2, waitingMax: 6)
    #expect(queue.begin() == nil)
    #expect(queue.add(tokens[0..<1]) == 1)
    #expect(queue.begin() == [tokens[0]])
    // The batch under way takes nothing more; what waits already is not asked for twice.
    #expect(queue.add(tokens[0..<4]) == 3)
    #expect(queue.add(tokens[1..<2]) == 2)
    // Full: of the last two, one finds room.
    #expect(queue.add(tokens[4..<7]) == 4)
    queue.batchEnded()
    #expect(queue.ended == 1)
    #expect(queue.begin() == Array(tokens[1...2]))
    queue.batchEnded()
    #expect(queue.begin() == Array(tokens[3...4]))
    queue.allEnded()
    #expect(queue.ended == 4)
    #expect(queue.begin() == nil)
    #expect(queue.add(tokens[6..<7]) == 5)
  }

  @Test func `findings are bounded in number and time`() throws {
    let tokens = try tokens(5)
    var cache = LookupCache(entriesMax: 4, life: .seconds(60))
    let start = Timestamp(millis: 1_000_000)
    for account in tokens { cache.remember(.known(account), of: account.token, at: start) }
    #expect(cache.count <= 4)
    #expect(cache.finding(for: tokens[0].token, at: start) == nil)
    #expect(cache.finding(for: tokens[4].token, at: start) == .known(tokens[4]))
    cache.remember(.unknown, of: tokens[3].token, at: start)
    #expect(cache.finding(for: tokens[3].token, at: start.adding(.milliseconds(59_999))) == .unknown)
    #expect(cache.finding(for: tokens[3].token, at: start.adding(.seconds(60))) == nil)
    #expect(cache.finding(for: tokens[3].token, at: Timestamp(millis: start.millis - 1)) == nil)
  }
}

extension TestRelay {
  fileprivate func finder(
    clock: WallClock = TestRelay.systemClock, timeout: Duration = .seconds(30)
  ) -> PeerDirectory {
    PeerDirectory(
      registry: registry, transport: transport, store: storage, clock: clock, timeout: timeout, logger: log.logger)
  }
}
