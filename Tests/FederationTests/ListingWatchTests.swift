import RelayCore
import Storage
import Synchronization
import TestSupport
import TestTags
import Testing

@testable import Federation

/// How requests wait for a change of the listing, without a peer and on a clock that stands.
@Suite(.tags(.unit)) struct ListingWatchTests {
  @Test func `a change ends the wait by its signal`() async throws {
    try await WatchSite.with { site in
      let wait = site.wait(forAccounts: 1)
      try await eventually("it waits") { site.listing.pagesRead >= 1 }
      site.listing.replace(with: try tokens(1))
      await site.bus.publish(.accountChanged(RecordedListing.number(0)))
      try await site.letTimePass(until: "it is told") { wait.isOver }
      #expect(wait.found == 1)
    }
  }

  @Test func `a change between the question and the wait is not missed`() async throws {
    try await WatchSite.with { site in
      let accounts = try tokens(1)
      let wait = site.wait(forAccounts: 1) {
        guard site.listing.pagesRead == 1 else { return }
        site.listing.replace(with: accounts)
        await site.bus.publish(.accountChanged(RecordedListing.number(0)))
      }
      try await site.letTimePass(until: "it is told") { wait.isOver }
      #expect(wait.found == 1)
    }
  }

  @Test func `a signal of what the listing does not show wakes nobody`() async throws {
    try await WatchSite.with { site in
      let wait = site.wait(forAccounts: 1)
      // The first look finds an end that was not known, and is told as a change.
      try await site.letTimePass(until: "the end is known") {
        await site.bus.publish(.accountChanged(RecordedListing.number(0)))
        return site.listing.cursorsRead >= 2 && site.listing.pagesRead >= 2
      }
      let (looks, asked) = (site.listing.cursorsRead, site.listing.pagesRead)
      try await site.letTimePass(until: "it has looked again") {
        await site.bus.publish(.accountChanged(RecordedListing.number(0)))
        return site.listing.cursorsRead >= looks + 3
      }
      #expect(site.listing.pagesRead == asked)
      site.watch.close()
      try await eventually("it is over") { wait.isOver }
    }
  }

  @Test func `a change whose signal was lost is seen at the next look`() async throws {
    try await WatchSite.with(recheck: .seconds(2)) { site in
      let wait = site.wait(forAccounts: 1)
      try await eventually("it waits") { site.listing.pagesRead >= 1 }
      site.listing.replace(with: try tokens(1))
      try await site.letTimePass(until: "it is told") { wait.isOver }
      #expect(wait.found == 1)
    }
  }

  @Test func `a storm of signals is one look, and one more after the pause`() async throws {
    try await WatchSite.with { site in
      let wait = site.wait(forAccounts: 1)
      try await site.letTimePass(until: "the end is known") {
        await site.bus.publish(.accountChanged(RecordedListing.number(0)))
        return site.listing.cursorsRead >= 1
      }
      // Until the next look without a signal, behind the last one, and in the wait.
      try await eventually("all sleep") { site.clock.sleeperCount == 3 }
      let looks = site.listing.cursorsRead
      for _ in 0..<100 { await site.bus.publish(.accountChanged(RecordedListing.number(0))) }
      site.clock.advance(by: ListingWatch<ManualClock>.pause)
      try await eventually("it has looked, and rests") {
        site.listing.cursorsRead > looks && site.clock.sleeperCount == 3
      }
      #expect(site.listing.cursorsRead <= looks + 2)
      site.watch.close()
      try await eventually("it is over") { wait.isOver }
    }
  }

  @Test func `without a change the wait ends at its time, with a last question`() async throws {
    try await WatchSite.with { site in
      let wait = site.wait(forAccounts: 1, atMost: .seconds(5))
      try await eventually("it waits") { site.listing.pagesRead >= 1 }
      site.listing.replace(with: try tokens(1))
      try await site.letTimePass(until: "it is over") { wait.isOver }
      #expect(wait.found == 1)
      let none = site.wait(forAccounts: 2, atMost: .seconds(5))
      let began = site.clock.now
      try await site.letTimePass(until: "it is over") { none.isOver }
      #expect(none.found == nil && began.duration(to: site.clock.now) >= .seconds(5))
    }
  }

  @Test func `a process that is about to stop answers all that wait, and none waits from then on`() async throws {
    try await WatchSite.with { site in
      let waits = [site.wait(forAccounts: 1), site.wait(forAccounts: 1)]
      try await eventually("both wait") { site.listing.pagesRead >= 2 }
      #expect(site.watch.isOpen)
      site.watch.close()
      try await eventually("both are over") { waits.allSatisfy(\.isOver) }
      let late = site.wait(forAccounts: 1)
      try await eventually("it is over at once") { late.isOver }
      #expect((waits + [late]).allSatisfy { $0.found == nil } && !site.watch.isOpen)
    }
  }

  @Test func `while the store is away, nobody is woken`() async throws {
    try await WatchSite.with { site in
      let wait = site.wait(forAccounts: 1)
      try await eventually("it waits") { site.listing.pagesRead >= 1 }
      site.listing.isAway(true)
      site.listing.replace(with: try tokens(1))
      let looks = site.listing.cursorsRead
      try await site.letTimePass(until: "it has looked") {
        await site.bus.publish(.accountChanged(RecordedListing.number(0)))
        return site.listing.cursorsRead >= looks + 2
      }
      site.listing.isAway(false)
      try await site.letTimePass(until: "it is told") {
        await site.bus.publish(.accountChanged(RecordedListing.number(0)))
        return wait.isOver
      }
      #expect(wait.found == 1)
    }
  }
}

/// A watch that runs, over a listing in memory.
private struct WatchSite {
  let listing = ListedAccounts()
  let bus = LocalCoordination(buckets: [:], clock: TestRelay.systemClock)
  let clock = ManualClock()
  let watch: ListingWatch<ManualClock>

  private init(recheck: Duration) {
    watch = ListingWatch(directory: listing, signals: bus, recheck: recheck, clock: clock)
  }

  /// - Parameter recheck: by default longer than any test lets pass.
  static func with(recheck: Duration = .seconds(86_400), _ body: (WatchSite) async throws -> Void) async throws {
    let site = WatchSite(recheck: recheck)
    let running = Task { await site.watch.run() }
    let result: Result<Void, any Error>
    do {
      // Once it sleeps, it has heard of the bus.
      try await eventually("it runs") { site.clock.sleeperCount >= 1 }
      result = .success(try await body(site))
    } catch {
      result = .failure(error)
    }
    running.cancel()
    await running.value
    try result.get()
  }

  /// Begins to wait until the listing has `count` accounts.
  /// - Parameter whileAsking: called within each question, behind the reading.
  func wait(
    forAccounts count: Int, atMost limit: Duration = .seconds(3600),
    whileAsking: @escaping @Sendable () async -> Void = {}
  ) -> Wait {
    let wait = Wait()
    Task { [watch, listing] in
      do throws(Problem) {
        let found = try await watch.wait(atMost: limit) { () async throws(Problem) -> Int? in
          let page = try await storing { () throws(StoreError) in try await listing.accounts(offset: 0, limit: 10) }
          await whileAsking()
          return page.count >= count ? page.count : nil
        }
        wait.end(found)
      } catch {
        wait.end(-1)
      }
    }
    return wait
  }

  /// Moves the clock on by little until `condition` holds; by an hour at most, so that no wait ends by itself.
  func letTimePass(until what: String, _ condition: () async throws -> Bool) async throws {
    let end = clock.now.advanced(by: .seconds(3000))
    try await eventually(what) {
      if clock.now < end { clock.advance(by: ListingWatch<ManualClock>.pause) }
      return try await condition()
    }
  }

  final class Wait: Sendable {
    private let state = Mutex((isOver: false, found: Int?.none))
    var isOver: Bool { state.withLock { $0.isOver } }
    var found: Int? { state.withLock { $0.found } }
    func end(_ found: Int?) { state.withLock { $0 = (true, found) } }
  }
}
