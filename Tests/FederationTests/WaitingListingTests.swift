import RelayCore
import ServiceLifecycle
import Storage
import Synchronization
import TestSupport
import TestTags
import Testing

@testable import Federation

/// Peers that wait for a change of our listing, and what follows it (docs/federation-wire.md, "Waiting for changes").
@Suite(.tags(.stores)) struct WaitingListingTests {
  private static let waiting = "/v1/federation/changes?after=1-1&wait=20"
  private static let empty = #"{"contacts":[],"cursor":"1-1","more":false}"#
  private static let emptyThatWaits = #"{"contacts":[],"cursor":"1-1","more":false,"waits":true}"#
  /// Longer than any test takes: nothing is seen by looking now and then.
  private static let never = Duration.seconds(3600)

  @Test func `a registration is found at the peer without a round`() async throws {
    try await withListing(3, recheck: Self.never) { listing, beta in
      let all = try RecordedListing.tokens(0..<8)
      try await beta.withSync(interval: Self.never, wait: .seconds(20)) {
        try await eventually("a pass is complete") { try await beta.known(all).count == 3 }
        for index in 3..<8 {
          try await listing.register(index..<index + 1)
          try await eventually("it is known", within: .seconds(10)) { try await beta.known([all[index]]).count == 1 }
        }
        try await listing.deactivate(1)
        try await eventually("what is gone is not", within: .seconds(10)) {
          try await beta.known([all[1]]).isEmpty
        }
        #expect(try await beta.storage.contactsPass(of: name("alpha")).pass == 1)
      }
    }
  }

  @Test func `processes of the following operator are told of new contacts`() async throws {
    try await withListing(1, recheck: Self.never) { listing, beta in
      let heard = HeardSignals()
      beta.coordination.listen { heard.add($0) }
      try await beta.withSync(interval: Self.never, wait: .seconds(20)) {
        try await eventually("the listing is read") { heard.count(.signal(.contactsChanged)) == 1 }
        try await listing.register(1..<2)
        try await eventually("a registration is told") { heard.count(.signal(.contactsChanged)) == 2 }
        #expect(try await beta.known(RecordedListing.tokens(0..<2)).count == 2)
      }
    }
  }

  @Test func `a burst of registrations leads to few requests`() async throws {
    try await withListing(1, recheck: Self.never) { listing, beta in
      try await beta.withSync(interval: Self.never, wait: .seconds(20)) {
        try await eventually("the feed is followed") { listing.asked.changes >= 1 }
        let (before, began) = (listing.asked.changes, ContinuousClock.now)
        try await listing.register(1..<201)
        try await eventually("all are known") { try await beta.known(RecordedListing.tokens(0..<201)).count == 201 }
        // A request in each tenth of a second, and a few at both ends. One that waits reads twice.
        let requestsMax = Int((ContinuousClock.now - began) / PullProgress.gathering) + 3
        #expect(listing.asked.changes - before <= 2 * requestsMax)
      }
    }
  }

  @Test func `a request waits as long as it wishes, and others not at all`() async throws {
    try await withPeerClient(listing: ListedAccounts()) { _, client in
      let began = ContinuousClock.now
      let answer = try await client.get("/v1/federation/changes?after=1-1&wait=1")
      #expect(answer.status == 200 && answer.text == Self.emptyThatWaits)
      #expect(ContinuousClock.now - began >= .seconds(1))
      for wish in ["0", "-1", "x", "1.5", ""] {
        let answer = try await client.get("/v1/federation/changes?after=1-1&wait=\(wish)")
        #expect(answer.text == Self.empty, "\(wish)")
      }
      // There is something to say.
      for place in ["0-1", "x", "2-7"] {
        let answer = try await client.get("/v1/federation/changes?after=\(place)&wait=20")
        #expect(answer.text == #"{"reset":true,"cursor":"1-1"}"#, "\(place)")
      }
      #expect(try await client.get("/v1/federation/changes?wait=20").text == Self.empty)
    }
  }

  @Test func `two requests of a peer wait, and a third is answered at once`() async throws {
    let listing = ListedAccounts()
    try await withPeerClient(listing: listing) { relay, client in
      async let first = client.get(Self.waiting).text
      async let second = client.get(Self.waiting).text
      try await eventually("two wait") { listing.changesRead >= 2 }
      #expect(try await client.get(Self.waiting).text == Self.empty)
      // What waits takes no turn of readings.
      #expect(try await client.get("/v1/federation/user_count").status == 200)
      try await withPeer("gamma", of: relay) { gamma in
        let answer = try await gamma.get("/v1/federation/changes?after=1-1&wait=1")
        #expect(answer.text == Self.emptyThatWaits)
      }
      listing.replace(with: try tokens(1))
      await relay.coordination.publish(.accountChanged(RecordedListing.number(0)))
      let texts = try await [first, second]
      #expect(texts == Array(repeating: #"{"reset":true,"cursor":"1-2"}"#, count: 2))
    }
  }

  @Test func `a peer that is suspended while it waits learns nothing`() async throws {
    let listing = ListedAccounts()
    try await withPeerClient(listing: listing) { relay, client in
      async let waiting = client.get(Self.waiting)
      try await eventually("it waits") { listing.changesRead >= 1 }
      #expect(try await relay.storage.setPeerState(.suspended, of: name("beta")))
      await relay.registry.refresh()
      listing.replace(with: try tokens(1))
      await relay.coordination.publish(.accountChanged(RecordedListing.number(0)))
      let answer = try await waiting
      #expect(answer.status == 403 && answer.text.hasPrefix("peer-refused"))
    }
  }

  @Test func `a peer that may read the listing no more while it waits learns nothing`() async throws {
    let listing = ListedAccounts()
    try await withPeerClient(listing: listing) { relay, client in
      async let waiting = client.get(Self.waiting)
      try await eventually("it waits") { listing.changesRead >= 1 }
      #expect(try await relay.storage.setPeerScopes([.messages], of: name("beta")))
      await relay.registry.refresh()
      listing.replace(with: try tokens(1))
      await relay.coordination.publish(.accountChanged(RecordedListing.number(0)))
      let answer = try await waiting
      #expect(answer.status == 403 && answer.text.hasPrefix("scope-refused"))
    }
  }

  @Test func `a process that is about to stop answers what waits`() async throws {
    let listing = ListedAccounts()
    try await withRelay("alpha", listing: listing) { alpha in
      let authority = try TestAuthority("beta")
      try await save(authority, as: "beta", at: alpha)
      let (ports, port) = AsyncStream.makeStream(of: Int.self)
      let listener = alpha.makeListener(0) { port.yield($0) }
      let group = ServiceGroup(configuration: .init(services: [listener], logger: alpha.log.logger))
      let running = Task { try await group.run() }
      let base = "https://127.0.0.1:\(try #require(await ports.first { _ in true }))"
      let configuration = try authority.leaf(relay: "beta").clientConfiguration(trusting: alpha.ownAuthority)
      try await withClient(to: base, configuration) { client in
        let began = ContinuousClock.now
        async let waiting = client.get(Self.waiting)
        try await eventually("it waits") { listing.changesRead >= 1 }
        await group.triggerGracefulShutdown()
        let answer = try await waiting
        #expect(answer.status == 200 && answer.text == Self.empty)
        #expect(ContinuousClock.now - began < .seconds(20), "it was not its time that ended the wait")
        try await running.value
      }
    }
  }
}

/// What a process hears from others.
private final class HeardSignals: Sendable {
  private let events = Mutex<[SignalEvent]>([])
  func add(_ event: SignalEvent) { events.withLock { $0.append(event) } }
  func count(_ event: SignalEvent) -> Int { events.withLock { $0.count { $0 == event } } }
}
