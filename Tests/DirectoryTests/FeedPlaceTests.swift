import RelayCore
import TestSupport
import TestTags
import Testing

@testable import Directory

/// The order in which a reader sees what transactions that run side by side change.
@Suite(.tags(.unit)) struct FeedPlaceTests {
  /// Transactions begin, change things and commit in any order; pages are read between. Every committed change is
  /// received once, and never is anything missing before the settled place.
  @Test(arguments: 1...10 as ClosedRange<UInt64>)
  func `every change is received exactly once, whatever the order of commits`(seed: UInt64) {
    var random = SeededGenerator(seed: seed)
    var feed = ScriptedFeed()
    var place = FeedPlace(at: feed.place(1))
    var received: [UInt64] = []
    for _ in 0..<800 {
      switch Int.random(in: 0..<10, using: &random) {
      case 0...1: feed.begin()
      case 2...5: feed.change(using: &random)
      case 6...7: feed.commit(using: &random)
      default:
        let page = feed.page(after: place.next, limit: Int.random(in: 1...6, using: &random))
        received += place.received(page).map(\.position)
        #expect(Set(received).isSuperset(of: feed.committed(before: place.settled).map(\.position)))
      }
    }
    feed.commitAll()
    var isPartial = true
    while isPartial || !place.looksBack || place.settled != feed.end {
      let page = feed.page(after: place.next, limit: 50)
      received += place.received(page).map(\.position)
      isPartial = page.isPartial
    }
    #expect(received.sorted() == feed.all.map(\.position))
  }

  @Test func `behind a transaction that stays open for long, what is new is not read again and again`() {
    var feed = ScriptedFeed()
    feed.begin()
    var place = FeedPlace(at: feed.place(1))
    for _ in 0...FeedPlace.readAgainMax {
      feed.begin()
      feed.change(transaction: feed.last)
      feed.commit(feed.last)
    }
    var read = 0
    for _ in 0..<20 {
      var isPartial = true
      while isPartial {
        let page = feed.page(after: place.next, limit: 1000)
        _ = place.received(page)
        read += page.changes.count
        isPartial = page.isPartial
      }
    }
    #expect(read <= 4 * (FeedPlace.readAgainMax + 1), "\(read)")
    #expect(place.settled == feed.place(1))
    // The last changes of the long one are found soon.
    feed.change(transaction: 1)
    feed.commit(1)
    let late = feed.committed(before: feed.place(2))
    var found: [DirectoryChange] = []
    for _ in 0..<100 where found.isEmpty { found = place.received(feed.page(after: place.next, limit: 1000)) }
    #expect(found == late)
  }

  @Test func `the memory is bounded, and a full one is read again with every tenth reading`() {
    let feed = HeldFeed(count: 200_000)
    var place = FeedPlace(at: feed.start)
    var (read, remembered) = (0, 0)
    for _ in 0..<30 {
      var isPartial = true
      while isPartial {
        let page = feed.page(after: place.next, limit: 5_000)
        _ = place.received(page)
        read += page.changes.count
        remembered = max(remembered, place.rememberedCount)
        isPartial = page.isPartial
      }
    }
    #expect(read == 3 * 200_000)
    #expect(remembered <= FeedPlace.receivedMax)
    #expect(place.settled == feed.start)
    // When the fence moves, everything settles with the next look back.
    let end = DirectoryPlace(generation: 1, revision: 300_000)
    for _ in 0..<11 {
      _ = place.received(DirectoryChanges(changes: [], next: end, fence: end, isPartial: false))
    }
    #expect(place.settled == end && place.looksBack && place.rememberedCount == 0)
  }

  @Test func `peers and tokens of one revision are told apart`() throws {
    let peer = try #require(RelayName("peer"))
    let start = DirectoryPlace(generation: 1, revision: 5)
    var place = FeedPlace(at: start)
    let changes = [
      DirectoryChange(.token(ContactToken(high: 1, low: 1)), revision: 5), DirectoryChange(.peer(peer), revision: 5),
    ]
    let page = DirectoryChanges(
      changes: changes, next: DirectoryPlace(generation: 1, revision: 6), fence: start, isPartial: false)
    #expect(place.received(page) == changes)
    #expect(place.next == start && place.settled == start)
    #expect(place.received(page).isEmpty)
    let settled = DirectoryPlace(generation: 1, revision: 6)
    #expect(
      place.received(DirectoryChanges(changes: changes, next: settled, fence: settled, isPartial: false)).isEmpty)
    #expect(place.settled == settled)
  }
}

extension DirectoryChange {
  /// `ScriptedFeed` numbers its changes by their tokens.
  fileprivate var position: UInt64 {
    if case .token(let token) = subject { token.high } else { 0 }
  }
}

/// Changes behind a transaction that stays open: all visible, none settled.
private struct HeldFeed {
  let count: UInt64
  let start = DirectoryPlace(generation: 1, revision: 1)

  func page(after place: DirectoryPlace, limit: UInt64) -> DirectoryChanges {
    let first = place.revision + 1
    let end = min(first + limit, start.revision + count + 1)
    let changes = (first..<end).map { DirectoryChange(.token(ContactToken(high: $0, low: 0)), revision: $0) }
    let next = changes.last.map { DirectoryPlace(generation: 1, revision: $0.revision, position: 1) } ?? place
    return DirectoryChanges(changes: changes, next: next, fence: start, isPartial: changes.count == Int(limit))
  }
}

/// The feed as PostgreSQL keeps it: changes by the number of their transaction, visible once that has committed.
private struct ScriptedFeed {
  private struct Row {
    let transaction: UInt64
    let position: Int64
    let token: ContactToken
  }

  private(set) var last: UInt64 = 0
  private var open: [UInt64] = []
  private var rows: [Row] = []

  /// The lowest transaction that is open, or the next one.
  private var fence: UInt64 { open.min() ?? last + 1 }
  var end: DirectoryPlace { place(last + 1) }
  func place(_ revision: UInt64) -> DirectoryPlace { DirectoryPlace(generation: 1, revision: revision) }

  mutating func begin() {
    last += 1
    open.append(last)
  }

  mutating func change(using random: inout SeededGenerator) {
    if let transaction = open.randomElement(using: &random) { change(transaction: transaction) }
  }

  mutating func change(transaction: UInt64) {
    let position = Int64(rows.count + 1)
    rows.append(
      Row(transaction: transaction, position: position, token: ContactToken(high: UInt64(position), low: 0)))
  }

  mutating func commit(using random: inout SeededGenerator) {
    if let transaction = open.randomElement(using: &random) { commit(transaction) }
  }

  mutating func commit(_ transaction: UInt64) { open.removeAll { $0 == transaction } }
  mutating func commitAll() { open = [] }

  var all: [DirectoryChange] { rows.map(change) }
  func committed(before place: DirectoryPlace) -> [DirectoryChange] {
    rows.filter { ($0.transaction, $0.position) <= (place.revision, place.position) && !open.contains($0.transaction) }
      .map(change)
  }

  private func change(_ row: Row) -> DirectoryChange { DirectoryChange(.token(row.token), revision: row.transaction) }

  func page(after place: DirectoryPlace, limit: Int) -> DirectoryChanges {
    let visible =
      rows.filter {
        !open.contains($0.transaction) && ($0.transaction, $0.position) > (place.revision, place.position)
      }.sorted { ($0.transaction, $0.position) < ($1.transaction, $1.position) }.prefix(limit)
    let isPartial = visible.count == limit
    var next =
      visible.last.map { DirectoryPlace(generation: 1, revision: $0.transaction, position: $0.position) } ?? place
    let settled = self.place(fence)
    if !isPartial, next < settled { next = settled }
    return DirectoryChanges(
      changes: visible.map(change), next: next, fence: settled < next ? settled : next, isPartial: isPartial)
  }
}
