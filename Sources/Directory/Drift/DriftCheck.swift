import Logging
import RelayCore
import RelayWork

/// Compares the table with the store in the background, range by range, and repairs what differs.
///
/// Nothing differs as long as every change reaches the feed: what does is a defect of ours, a change that somebody made
/// past the triggers, or damaged memory. It is counted and logged.
struct DriftCheck: Sendable {
  private let reader: DirectoryReader
  private let view: DirectoryView
  private let metrics: DirectoryMetrics
  private let logger: Logger
  /// In an order of its own, so that the processes of an operator look at different ranges.
  private let order: [DirectoryRange]
  private var store: any DirectoryFeedStore { reader.store }

  /// A range in which something changes just now is left for the next round.
  private static let triesMax = 4

  init(reader: DirectoryReader, view: DirectoryView, metrics: DirectoryMetrics, logger: Logger) {
    self.reader = reader
    self.view = view
    self.metrics = metrics
    self.logger = logger
    order = view.part.ranges.shuffled()
  }

  /// Compares the `turn`th range, counted round and round.
  ///
  /// The store's digest is of some moment; then the feed is read, and where it brings nothing of the range, the table
  /// holds of it what the store held at that moment. A difference that shows twice is repaired.
  func check(_ turn: Int, _ following: inout Following) async throws(FollowFailure) {
    let range = order[turn % order.count]
    var differs = false
    for _ in 0..<Self.triesMax {
      // Without that, the reading tells nothing of what came late.
      guard following.work.isEmpty, following.place.looksBack else { return }
      guard let stored = try await storedDigest(of: range) else { return }
      let brought = try await reader.follow(&following)
      metrics.changed(brought.count)
      guard brought.isWhole else { return }
      if brought.hasPeers || brought.ranges.contains(range.firstByte) { continue }
      guard let held = await digest(of: range, following.table) else { return }
      guard held != stored else { return metrics.checked() }
      if differs {
        try await repair(range, following)
        return metrics.checked()
      }
      differs = true
    }
  }

  /// - Returns: nil when the process is ending.
  private func storedDigest(of range: DirectoryRange) async throws(FollowFailure) -> DirectoryDigest? {
    guard view.relays.hasRefused || !view.part.isWhole else {
      return try await FollowFailure.storing { () async throws(StoreError) in
        try await store.directoryDigest(of: range)
      }
    }
    // The store's digest counts what the table has to leave out, such as other parts' tokens: without that it is made
    // here.
    let entries = try await FollowFailure.storing { () async throws(StoreError) in
      try await store.directoryEntries(in: range)
    }
    let (resolver, relays, part) = (TokenResolver(store: store, relays: view.relays), view.relays, view.part)
    return await BlockingWork.run {
      let known = entries.filter { part.holds($0.token) }
        .compactMap { entry in resolver.tableEntry(entry).map { (entry.token, $0) } }
      // Behind the entries: one of them may be the first of its relay.
      var digest = RangeDigest(names: relays.names)
      for (token, entry) in known { digest.add(token, entry) }
      return digest.digest
    }
  }

  private func digest(of range: DirectoryRange, _ table: TokenTable) async -> DirectoryDigest? {
    let relays = view.relays
    return await BlockingWork.run { table.digest(of: range, relays) }
  }

  /// Changes made meanwhile are in the feed, and are looked up again.
  private func repair(_ range: DirectoryRange, _ following: Following) async throws(FollowFailure) {
    let entries = try await FollowFailure.storing { () async throws(StoreError) in
      try await store.directoryEntries(in: range)
    }.filter { view.part.holds($0.token) }
    let resolver = TokenResolver(store: store, relays: view.relays)
    let table = following.table
    guard let held = await BlockingWork.run({ table.entries(in: range) }) else { return }
    let stored = Dictionary(
      entries.compactMap { entry in resolver.tableEntry(entry).map { (entry.token, $0) } }
    ) { first, _ in first }
    let changes =
      stored.filter { held[$0.key] != $0.value }.map { TokenChange($0.key, $0.value) }
      + held.keys.filter { stored[$0] == nil }.map { TokenChange($0, nil) }
    guard !changes.isEmpty else { return }
    try FollowFailure.writing { () throws(TokenTable.OutOfMemory) in try table.apply(changes) }
    view.noted(changes.map { ($0.token, following.place.settled.revision) })
    metrics.repaired(changes.count)
    logger.warning(
      "the directory in memory differed from the store, and was repaired",
      metadata: ["range": "\(range.firstByte)", "entries": "\(changes.count)"])
  }
}
