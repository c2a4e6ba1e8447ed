import Foundation
import GRDB
import RelayCore
import TestSupport
import TestTags
import Testing

@testable import Federation
@testable import Storage

/// A peer's contacts, followed change by change (docs/federation.md, "The directory").
@Suite(.tags(.stores)) struct FeedTests {
  @Test func `a registration is found at the peer without reading the listing again`() async throws {
    try await withListing(3) { listing, beta in
      let all = try RecordedListing.tokens(0..<5)
      try await beta.withSync {
        try await eventually("a pass is complete") { try await beta.storage.contactsPass(of: name("alpha")).pass == 1 }
        #expect(try await beta.known(all).count == 3)
        let read = listing.asked.pages
        try await listing.register(3..<5)
        try await eventually("what is new is known", within: .seconds(5)) { try await beta.known(all).count == 5 }
        let entry = try #require(try await beta.storage.entries(for: [all[4]]).first)
        #expect(entry == DirectoryEntry(token: all[4], relay: try name("alpha"), supportsSMS: false, voice: true))
        try await listing.deactivate(1)
        try await eventually("what is gone is not", within: .seconds(5)) {
          try await beta.known(all) == Set(all).subtracting([all[1]])
        }
        #expect(listing.asked.pages == read)
        #expect(try await beta.storage.contactsPass(of: name("alpha")).pass == 1)
      }
    }
  }

  @Test func `a listing that begins anew is read whole`() async throws {
    try await withListing(3) { listing, beta in
      try await beta.withSync {
        try await eventually("a pass is complete") { try await beta.storage.contactsPass(of: name("alpha")).pass == 1 }
        try await listing.storage.setAsideOneTimePreKeys(epoch: 100, by: .process, behind: .zero)
        try await eventually("another is") { try await beta.storage.contactsPass(of: name("alpha")).pass == 2 }
        try await listing.register(3..<4)
        try await eventually("the feed is followed") { try await beta.known(RecordedListing.tokens(0..<4)).count == 4 }
        #expect(try await beta.storage.contactsPass(of: name("alpha")).pass == 2)
      }
    }
  }

  @Test func `a peer claims no more than it may`() async throws {
    try await withListing(5) { listing, beta in
      let all = try RecordedListing.tokens(0..<8)
      try await beta.withSync(contactsMax: 3) {
        try await eventually("a pass is complete") { try await beta.storage.contactsPass(of: name("alpha")).pass == 1 }
        let kept = try await beta.known(all)
        #expect(kept.count == 3)
        try await listing.register(5..<8)
        let before = listing.asked.changes
        try await eventually("the feed was read further") { listing.asked.changes > before + 3 }
        #expect(try await beta.known(all) == kept)
        #expect(beta.log.all.filter { $0.contains("lets it claim") }.count == 1)
        // A contact that vanishes makes no one else's claim true, but goes.
        let index = try #require(all.firstIndex { kept.contains($0) })
        try await listing.deactivate(index)
        try await eventually("it vanishes") { try await beta.known(all) == kept.subtracting([all[index]]) }
      }
    }
  }

  @Test func `known contacts are refreshed even without room`() async throws {
    try await withListing(3) { listing, beta in
      let token = try RecordedListing.token(1)
      try await beta.withSync(contactsMax: 3) {
        try await eventually("a pass is complete") { try await beta.storage.contactsPass(of: name("alpha")).pass == 1 }
        // Changed twice: the first time alone would not tell a bound that counts changes.
        for voice in [false, true, false] {
          try await listing.setVoice(voice, of: 1)
          try await eventually("it is known") {
            try await beta.storage.entries(for: [token]).first?.voice == voice
          }
        }
        #expect(!beta.log.contains("lets it claim"))
        #expect(try await beta.storage.contactsPass(of: name("alpha")).pass == 1)
      }
    }
  }

  @Test func `one process follows a peer, and another takes over`() async throws {
    try await withListing(3) { listing, beta in
      let (lease, duration) = ("directory alpha", MachineSpeed.allow(.seconds(4)))
      // A process that died holds the lease until it ends.
      #expect(try await beta.storage.acquireLease(lease, holder: 9, for: duration))
      try await beta.withSync(holders: [1, 2]) {
        try await Task.sleep(for: .milliseconds(500))
        #expect(listing.asked == RecordedListing.Asked())
        let all = try RecordedListing.tokens(0..<4)
        try await eventually("another took over") {
          try await beta.storage.contactsPass(of: name("alpha")).pass == 1
        }
        try await listing.register(3..<4)
        try await eventually("the feed is followed") { try await beta.known(all).count == 4 }
        #expect(try await beta.storage.contactsPass(of: name("alpha")).pass == 1)
        #expect(try await !beta.storage.acquireLease(lease, holder: 9, for: duration))
      }
      // A process that ends in order gives the lease up.
      #expect(try await beta.storage.acquireLease(lease, holder: 9, for: duration))
    }
  }

  @Test func `contacts that are not to be copied are removed`() async throws {
    try await withListing(3) { listing, beta in
      let all = try RecordedListing.tokens(0..<3)
      try await beta.withSync {
        try await eventually("a pass is complete") { try await beta.storage.contactsPass(of: name("alpha")).pass == 1 }
        #expect(try await beta.known(all).count == 3)
        try await beta.setContacts(.query, of: "alpha")
        try await eventually("nothing is kept") {
          try await beta.storage.contactCount(of: name("alpha")) == 0
        }
        // A round that was under way may still ask.
        try await eventually("it is not asked any more") {
          let asked = listing.asked
          try await Task.sleep(for: .milliseconds(300))
          return listing.asked == asked
        }
        try await beta.setContacts(.copy, of: "alpha")
        try await eventually("it is copied again") { try await beta.known(all).count == 3 }
      }
    }
  }

  @Test func `a refused listing is logged once with the remedy`() async throws {
    try await withScriptedPeers(["gamma"]) { beta, peers in
      peers[0].answer(403, #"{"error":"scope-refused"}"#)
      try await beta.withSync {
        try await eventually("the log says so") { beta.log.contains("--contacts query") }
        let asked = peers[0].requests.count
        try await eventually("it was asked again") { peers[0].requests.count > asked + 3 }
        #expect(beta.log.all.filter { $0.contains("--contacts query") }.count == 1)
      }
    }
  }
}

/// Peers of other makes, and hostile ones, against the relay that follows them: nothing is asked without end.
@Suite(.tags(.stores)) struct HostileListingTests {
  private static let alpha = "alpha"

  @Test func `a peer without a feed is read as before`() async throws {
    try await withScriptedPeers([Self.alpha]) { beta, peers in
      let token = try RecordedListing.token(0)
      peers[0].answer { request in
        switch request.path {
        case "/v1/federation/user_count": .init(status: 200, headers: [("ETag", "\"1\"")], body: #"{"count":1}"#)
        case "/v1/federation/user_tokens/0": .init(status: 200, body: #"{"contacts":[{"token":"\#(token.base64)"}]}"#)
        default: .init(status: 404)
        }
      }
      try await beta.withSync {
        try await eventually("a pass is complete") {
          try await beta.storage.contactsPass(of: name(Self.alpha)).mark == "\"1\""
        }
        #expect(try await beta.known([token]) == [token])
        #expect(!peers[0].requests.contains { $0.path.contains("changes") })
      }
    }
  }

  /// Its pages have 20 entries, and two accounts of the first one are deleted behind it.
  @Test func `an account that is deleted meanwhile hides no other`() async throws {
    try await withScriptedPeers([Self.alpha]) { beta, peers in
      let tokens = try (0..<40).map { try RecordedListing.token($0) }
      let pages = "/v1/federation/user_tokens/"
      peers[0].answer { request in
        switch request.path {
        case "/v1/federation/peering":
          return .init(status: 200, body: #"{"name":"beta","state":"active","capabilities":["changes"]}"#)
        case let path where path.hasPrefix("/v1/federation/changes"):
          return .init(status: 200, body: #"{"contacts":[],"cursor":"1-1","more":false}"#)
        case let path where path.hasPrefix(pages):
          let offset = Int(path.dropFirst(pages.count)) ?? 0
          let listed = (offset == 0 ? tokens : Array(tokens.dropFirst(2))).dropFirst(offset).prefix(20)
          let entries = listed.map { #"{"token":"\#($0.base64)"}"# }.joined(separator: ",")
          return .init(status: 200, body: #"{"contacts":[\#(entries)]}"#)
        default: return .init(status: 404)
        }
      }
      try await beta.withSync {
        try await eventually("a pass is complete") {
          try await beta.storage.contactsPass(of: name(Self.alpha)).pass == 1
        }
        #expect(try await beta.known(tokens).count == 40)
      }
    }
  }

  @Test(arguments: [
    // More, and nothing; more, and no step ahead; no cursor; one that is none.
    #"{"contacts":[],"cursor":"1-5","more":true}"#, #"{"contacts":[{"token":"TOKEN"}],"cursor":"1-1","more":true}"#,
    #"{"contacts":[{"token":"TOKEN"}],"more":true}"#, #"{"contacts":[],"cursor":"1 OR 1&x=y","more":false}"#,
  ])
  func `a feed that goes nowhere is asked once a round`(page: String) async throws {
    let token = try RecordedListing.token(1)
    let page = page.replacing("TOKEN", with: token.base64)
    try await withFeed { _ in
      .init(status: 200, body: page)
    } following: { beta, peer in
      try await eventually("the log says so") { beta.log.contains("directory of peer cannot be read") }
      let mark = try await beta.storage.contactsPass(of: name(Self.alpha)).mark
      #expect(mark.map { ListingMark(text: $0) }?.cursor == "1-1")
      #expect(try await beta.known([token]).isEmpty)
      #expect(peer.requests.filter { $0.path.hasSuffix("user_tokens/0") }.count == 1)
    }
  }

  /// As an older relay does, and as one does that says that it waits and does not.
  @Test(arguments: ["", #","waits":true"#])
  func `a feed that has nothing to say at once is asked once a round`(field: String) async throws {
    try await withFeed(interval: .seconds(1)) { _ in
      .init(status: 200, body: #"{"contacts":[],"cursor":"1-1","more":false\#(field)}"#)
    } following: { beta, peer in
      let asked = { peer.requests.count { $0.path == "/v1/federation/changes?after=1-1&wait=1" } }
      let (before, began) = (asked(), ContinuousClock.now)
      try await eventually("three more rounds") { asked() >= before + 3 }
      // The first may come behind the whole reading.
      #expect(ContinuousClock.now - began > .seconds(1))
    }
  }

  @Test func `an endless feed is read a few pages a round`() async throws {
    let token = try RecordedListing.token(1)
    try await withFeed { request in
      let last = request.path.split(separator: "-").last.flatMap { Int($0.prefix { $0.isNumber }) } ?? 0
      return .init(
        status: 200, body: #"{"contacts":[{"token":"\#(token.base64)"}],"cursor":"1-\#(last + 1)","more":true}"#)
    } following: { beta, peer in
      let known = try #require(await beta.registry.peer(named: name(Self.alpha)))
      try await eventually("it is followed") { try await beta.known([token]) == [token] }
      let puller = DirectoryPuller(
        reader: ListingReader(transport: beta.transport), directory: beta.storage, clock: beta.clock)
      var progress = PullProgress(contactsMax: 10)
      let report = try await puller.pull(from: known, &progress) { () async throws(SyncFailure) in }
      #expect(report?.entries == 20)
      // It rests for ten times as long as that took.
      let resting = try await puller.pull(from: known, &progress) { () async throws(SyncFailure) in }
      #expect(resting == nil)
    }
  }

  @Test func `contacts of failed readings are bounded, and go with the next complete one`() async throws {
    try await withScriptedPeers([Self.alpha]) { beta, peers in
      let alpha = try name(Self.alpha)
      // The contacts of a complete reading stay through failed ones.
      peers[0].answer(by: Self.listing(try RecordedListing.tokens(0..<4), isWhole: true))
      #expect(try await Self.pull(from: peers[0], at: beta)?.entries == 4)
      for attempt in 0..<6 {
        peers[0].answer(
          by: Self.listing(try RecordedListing.tokens(10 + attempt * 10..<20 + attempt * 10), isWhole: false))
        await #expect(throws: SyncFailure.self) { try await Self.pull(from: peers[0], at: beta) }
        #expect(try await beta.storage.contactCounts(of: alpha).claims <= 10)
        #expect(try await beta.known(RecordedListing.tokens(0..<4)).count == 4)
      }
      // A contact that it lists no longer is gone, and takes its room until its tombstone ends.
      peers[0].answer(by: Self.listing(try RecordedListing.tokens(2..<5), isWhole: true))
      let report = try await Self.pull(from: peers[0], at: beta)
      #expect(report?.entries == 3 && report?.refused == 1)
      #expect(try await beta.storage.contactCounts(of: alpha) == ContactCounts(listed: 2, unlisted: 8))
      #expect(try await beta.known(RecordedListing.tokens(0..<100)) == Set(RecordedListing.tokens(2..<4)))
    }
  }

  @Test func `a complete reading corrects the count of contacts`() async throws {
    try await withScriptedPeers([Self.alpha]) { beta, peers in
      let alpha = try name(Self.alpha)
      peers[0].answer(by: Self.listing(try RecordedListing.tokens(0..<4), isWhole: true))
      #expect(try await Self.pull(from: peers[0], at: beta)?.entries == 4)
      #expect(try await beta.storage.contactCount(of: alpha) == 4)
      // As after somebody wrote past the triggers.
      try await beta.storage.write { db in try db.run("UPDATE contact_counts SET contacts = 9") }
      #expect(try await beta.storage.contactCount(of: alpha) == 9)
      peers[0].answer(by: Self.listing(try RecordedListing.tokens(2..<5), isWhole: true))
      #expect(try await Self.pull(from: peers[0], at: beta)?.entries == 3)
      #expect(try await beta.storage.contactCount(of: alpha) == 3)
    }
  }

  @Test func `a slow reading keeps its turn`() async throws {
    try await withScriptedPeers([Self.alpha]) { beta, peers in
      let tokens = try RecordedListing.tokens(0..<3)
      let answers = Self.listing(tokens, isWhole: true)
      peers[0].answer { $0.path.contains("/user_tokens/") ? nil : answers($0) }
      // The lease is for three intervals.
      let interval = MachineSpeed.allow(.milliseconds(700))
      try await beta.withSync(holders: [1, 2], interval: interval) {
        try await eventually("a page is asked for") { Self.pagesAsked(of: peers[0]) == 1 }
        try await Task.sleep(for: interval * 6)
        #expect(Self.pagesAsked(of: peers[0]) == 1)
        peers[0].answer(by: answers)
        try await eventually("a pass is complete") {
          try await beta.storage.contactsPass(of: name(Self.alpha)).mark != nil
        }
        #expect(try await beta.known(tokens).count == 3)
      }
    }
  }

  private static func pagesAsked(of peer: ScriptedPeer) -> Int {
    peer.requests.count { $0.path.contains("/user_tokens/") }
  }

  /// A peer without a feed that lists `tokens` on one page; where that is not all, the second fails.
  private static func listing(_ tokens: [ContactToken], isWhole: Bool) -> ScriptedPeer.Rule {
    let count = tokens.count + (isWhole ? 0 : 1)
    let entries = tokens.map { #"{"token":"\#($0.base64)"}"# }.joined(separator: ",")
    let tag = "\"\(tokens[0].base64)\""
    return { request in
      switch request.path {
      case "/v1/federation/user_count":
        ScriptedPeer.Answer(status: 200, headers: [("ETag", tag)], body: #"{"count":\#(count)}"#)
      case "/v1/federation/user_tokens/0":
        ScriptedPeer.Answer(status: 200, body: #"{"contacts":[\#(entries)]}"#)
      case let path where path.hasPrefix("/v1/federation/user_tokens/"): ScriptedPeer.Answer(status: 500)
      default: ScriptedPeer.Answer(status: 404)
      }
    }
  }

  /// One round of a process that has just begun.
  private static func pull(from peer: ScriptedPeer, at beta: TestRelay) async throws -> PullReport? {
    let known = try #require(await beta.registry.peer(named: name(alpha)))
    let puller = DirectoryPuller(
      reader: ListingReader(transport: beta.transport), directory: beta.storage, clock: beta.clock)
    var progress = PullProgress(contactsMax: 10)
    return try await puller.pull(from: known, &progress) { () async throws(SyncFailure) in }
  }

  @Test func `an endless listing is given up`() async throws {
    try await withScriptedPeers([Self.alpha]) { beta, peers in
      peers[0].answer { request in
        request.path.hasSuffix("user_count")
          ? .init(status: 200, body: #"{"count":9000000000}"#)
          : .init(status: 200, body: #"{"contacts":[{"token":"AAAAAAAAAAAAAA","inactive":true}]}"#)
      }
      try await beta.withSync(contactsMax: 5) {
        try await eventually("the log says so") { beta.log.contains("more entries than are read") }
        #expect(try await beta.storage.contactsPass(of: name(Self.alpha)).pass == 0)
        #expect(peers[0].requests.count < 100)
      }
    }
  }

  /// Runs `beta` following a scripted peer that lists account 0 and whose feed, from `1-1` on, answers what `feed`
  /// says.
  private func withFeed(
    interval: Duration = .milliseconds(50), _ feed: @escaping @Sendable (ScriptedPeer.Request) -> ScriptedPeer.Answer,
    following body: @Sendable (TestRelay, ScriptedPeer) async throws -> Void
  ) async throws {
    let first = try RecordedListing.token(0)
    try await withScriptedPeers([Self.alpha]) { beta, peers in
      peers[0].answer { request in
        switch request.path {
        case "/v1/federation/peering":
          .init(status: 200, body: #"{"name":"beta","state":"active","capabilities":["changes"]}"#)
        case "/v1/federation/changes": .init(status: 200, body: #"{"contacts":[],"cursor":"1-1","more":false}"#)
        case "/v1/federation/user_tokens/0": .init(status: 200, body: #"{"contacts":[{"token":"\#(first.base64)"}]}"#)
        case let path where path.hasPrefix("/v1/federation/user_tokens/"): .init(status: 200, body: #"{"contacts":[]}"#)
        case let path where path.hasPrefix("/v1/federation/changes?after=1-"): feed(request)
        default: .init(status: 404)
        }
      }
      try await beta.withSync(interval: interval) {
        try await eventually("a pass is complete") {
          try await beta.storage.contactsPass(of: name(Self.alpha)).pass == 1
        }
        try await body(beta, peers[0])
      }
    }
  }
}

extension ListingMark {
  fileprivate var cursor: String? {
    guard case .feed(let cursor, _) = self else { return nil }
    return cursor.text
  }
}
