import RelayCore

/// The state that one process keeps about following one peer, between two rounds.
struct PullProgress: Sendable {
  var allowance: ContactAllowance
  /// The listing is not read whole before, nor the feed.
  private var wholeRestsUntil: ContinuousClock.Instant?
  private var feedRestsUntil: ContinuousClock.Instant?
  /// When the peer is asked again without waiting for the next round; nil: with the next round.
  private(set) var asksOn: ContinuousClock.Instant?
  /// Whether the peer keeps our question until something has changed.
  private(set) var isPushed = false

  init(contactsMax: Int) { allowance = ContactAllowance(max: contactsMax) }

  func mayReadWhole(at now: ContinuousClock.Instant) -> Bool { wholeRestsUntil.map { now >= $0 } ?? true }
  func mayFollow(at now: ContinuousClock.Instant) -> Bool { feedRestsUntil.map { now >= $0 } ?? true }

  /// Reading whole listings takes a tenth of the time at most: however often a peer says that all is new, and however
  /// many entries it has.
  mutating func readWhole(since began: ContinuousClock.Instant, until now: ContinuousClock.Instant) {
    wholeRestsUntil = now + Self.rest(after: now - began)
  }

  /// Rounds of the feed that bring much take a tenth of the time at most, too: a peer whose feed never ends does not
  /// keep the store busy.
  mutating func followed(since began: ContinuousClock.Instant, until now: ContinuousClock.Instant) {
    feedRestsUntil = now + Self.rest(after: now - began)
  }

  /// A round begins.
  mutating func begin() { (asksOn, isPushed) = (nil, false) }

  /// The peer's listing was read whole: its feed is asked next.
  mutating func asksOn(at now: ContinuousClock.Instant) { asksOn = now + Self.gathering }

  /// The peer keeps our question until something has changed: it is asked on soon. Changes of the meantime travel
  /// together, so that a burst of registrations is ten requests a second at most. Taking them up takes a tenth of the
  /// time at most here too, as long as the rest is no longer than a question may be kept.
  mutating func pushed(since began: ContinuousClock.Instant, until now: ContinuousClock.Instant) {
    isPushed = true
    asksOn = now + min(max(Self.rest(after: now - began), Self.gathering), Self.restMax)
  }

  /// A single registration does not wait for this: the peer has our question then, and answers at once.
  static let gathering = Duration.milliseconds(100)
  private static let restMax = Duration.seconds(5)

  private static func rest(after busy: Duration) -> Duration { busy * 10 }
}

/// The result of one round: how much of a peer's listing it took up.
struct PullReport: Sendable, Equatable {
  /// Whether all pages were read, and not just what has changed.
  let isWhole: Bool
  /// Entries that the peer named.
  var entries = 0
  /// Entries that were not taken up, since the peer has as many as it may.
  var refused = 0
}

/// Brings what is kept of one peer's listing up to date (docs/federation.md, "The directory").
///
/// A peer that feeds changes is read whole once, from a place in its feed that was asked for before, and followed from
/// there. It may keep our question until something has changed, and is asked on then. Once a day it is read whole
/// again, so that no error lasts, and within the hour if something was not taken up for want of room. Any other peer is
/// read whole whenever its listing is not as it was (reference 1.13.5).
struct DirectoryPuller: Sendable {
  /// Asked before each write: whether it is still this process's turn. - Throws: `.displaced` when not.
  typealias Turn = @Sendable () async throws(SyncFailure) -> Void

  let reader: ListingReader
  let directory: any DirectoryStore
  let clock: WallClock
  /// How long a peer may keep the question what has changed; under a second is not at all.
  var wait = Duration.zero

  /// Pages of a feed in one round: 200,000 changes. The next round reads the rest.
  private static let feedPagesMax = 20
  private static let hoursBetweenReadings: Int64 = 24

  /// - Returns: nil when nothing had changed.
  func pull(
    from peer: KnownPeer, _ progress: inout PullProgress, turn: Turn
  ) async throws(SyncFailure) -> PullReport? {
    progress.begin()
    let last = try await SyncFailure.storing { () throws(StoreError) in try await directory.contactsPass(of: peer.name)
    }
    let mark = last.mark.map { ListingMark(text: $0) }
    if case .feed(let cursor, let hour) = mark, abs(hourNow - hour) < Self.hoursBetweenReadings {
      guard progress.mayFollow(at: .now) else { return nil }
      if let report = try await follow(peer, from: cursor, readHour: hour, &progress, turn) {
        return report.entries > 0 ? report : nil
      }
    }
    guard progress.mayReadWhole(at: .now) else { return nil }
    if await hasFeed(peer, mark), let end = try await reader.feedEnd(of: peer) {
      let report = try await readWhole(peer, count: nil, mark: .feed(end, readHour: hourNow), &progress, turn)
      progress.asksOn(at: .now)
      return report
    }
    guard let listing = try await reader.count(peer, since: mark) else { return nil }
    return try await readWhole(peer, count: listing.count, mark: listing.mark, &progress, turn)
  }

  /// Removes what is kept of a peer that is not to be copied.
  /// - Returns: false when there was nothing.
  func forget(_ peer: KnownPeer, turn: Turn) async throws(SyncFailure) -> Bool {
    let counts = try await SyncFailure.storing { () throws(StoreError) in
      try await directory.contactCounts(of: peer.name)
    }
    // If the peer is queried, its claims are kept.
    guard (peer.isQueried ? counts.listed : counts.claims) > 0 else { return false }
    try await turn()
    try await SyncFailure.storing { () throws(StoreError) in
      try await directory.dropContacts(of: peer.name, keepingClaims: peer.isQueried)
    }
    return true
  }

  /// A peer that was followed is asked again even when it does not say just now what it can do.
  private func hasFeed(_ peer: KnownPeer, _ mark: ListingMark?) async -> Bool {
    if case .feed = mark { return true }
    return await reader.knowsFeed(peer)
  }

  private var hourNow: Int64 { clock.now().millis / 3_600_000 }

  /// The hour to remember instead of `hour` if entries were refused. It makes the next hour begin with a whole
  /// reading, which takes them up if there is room by then.
  private func readHour(_ hour: Int64, refused: Int) -> Int64 {
    refused == 0 ? hour : min(hour, hourNow - Self.hoursBetweenReadings + 1)
  }
}

// MARK: - What has changed

extension DirectoryPuller {
  /// - Returns: nil when the cursor means nothing to the peer any more.
  private func follow(
    _ peer: KnownPeer, from start: FeedCursor, readHour: Int64, _ progress: inout PullProgress, _ turn: Turn
  ) async throws(SyncFailure) -> PullReport? {
    let asked = ContinuousClock.now
    var began = asked
    var report = PullReport(isWhole: false)
    var cursor = start
    var (hadMore, waits) = (false, false)
    // After a failure as well: what was read has cost as much.
    defer {
      if hadMore || report.entries >= WireLimits.contactsPerPage { progress.followed(since: began, until: .now) }
    }
    for number in 0..<Self.feedPagesMax {
      let wish = number == 0 ? wait : .zero
      guard
        case .changes(let accounts, let next, let isPartial, let hasWaited) = try await reader.feed(
          of: peer, after: cursor, waiting: wish)
      else { return nil }
      if number == 0 {
        // Waiting keeps nobody busy.
        began = .now
        // One that answers at once, and has nothing to say, would be asked forever.
        waits = hasWaited && (!accounts.isEmpty || began - asked >= wish / 2)
      }
      if accounts.isEmpty || next == cursor {
        // More without a step ahead would be asked for forever.
        guard accounts.isEmpty, !isPartial else { throw .malformed }
        break
      }
      hadMore = hadMore || isPartial
      try await turn()
      try await takeUp(accounts, of: peer, upTo: next, readHour, &report, &progress.allowance)
      cursor = next
      guard isPartial else { break }
    }
    if waits, !hadMore, report.entries < WireLimits.contactsPerPage { progress.pushed(since: began, until: .now) }
    return report
  }

  /// Writes down what a peer's feed brought, with the place behind it.
  private func takeUp(
    _ accounts: [ListedAccount], of peer: KnownPeer, upTo next: FeedCursor, _ hour: Int64, _ report: inout PullReport,
    _ allowance: inout ContactAllowance
  ) async throws(SyncFailure) {
    let (admitted, refused, rest) = try await admit(accounts, of: peer, allowance)
    report.entries += accounts.count
    report.refused += refused
    let mark = ListingMark.feed(next, readHour: readHour(hour, refused: report.refused))
    // Unknown unless the store says that it is written.
    allowance = ContactAllowance(max: allowance.max)
    try await SyncFailure.storing { () throws(StoreError) in
      try await directory.applyContactChanges(admitted, of: peer.name, mark: mark.text)
    }
    allowance = rest
  }

  private func admit(
    _ accounts: [ListedAccount], of peer: KnownPeer, _ allowance: ContactAllowance
  ) async throws(SyncFailure) -> (admitted: [ListedAccount], refused: Int, allowance: ContactAllowance) {
    var allowance = allowance
    if allowance.kept == nil {
      allowance.counted(
        try await SyncFailure.storing { () throws(StoreError) in
          try await directory.contactCounts(of: peer.name).claims
        })
    }
    let known = try await SyncFailure.storing { () throws(StoreError) in
      try await directory.keptContacts(among: accounts.map(\.token), of: peer.name)
    }
    let (admitted, refused) = allowance.admit(accounts, known: known)
    return (admitted, refused, allowance)
  }
}

// MARK: - The whole listing

extension DirectoryPuller {
  /// Reads a listing in one pass, and un-lists what it does not name.
  private func readWhole(
    _ peer: KnownPeer, count: Int?, mark: ListingMark, _ progress: inout PullProgress, _ turn: Turn
  ) async throws(SyncFailure) -> PullReport {
    let began = ContinuousClock.now
    defer { progress.readWhole(since: began, until: .now) }
    let contactsMax = progress.allowance.max
    // Counted at the end: what an unfinished reading adds is unknown.
    progress.allowance = ContactAllowance(max: contactsMax)
    try await turn()
    let begun = try await SyncFailure.storing { () throws(StoreError) in
      try await directory.beginContacts(of: peer.name)
    }
    guard let pass = begun else { throw .displaced }
    var report = PullReport(isWhole: true)
    var allowance = ContactAllowance(max: contactsMax)
    allowance.beginWhole()
    try await readPages(of: peer, upTo: count, in: pass, &report, &allowance, turn)
    try await turn()
    let mark = mark.mapReadHour { readHour($0, refused: report.refused) }
    progress.allowance.counted(
      try await finish(pass, of: peer, mark: mark, brought: allowance.brought).claims)
    return report
  }

  /// Reads pages up to `count`, or to the first empty one, until they have brought as many contacts as the peer may
  /// have.
  ///
  /// Reading goes on when there is no room for new entries: later entries may be known ones, and must not be
  /// un-listed.
  ///
  /// Without a feed, a listing that changes between two pages may hide an entry from this pass. Its tag has changed
  /// then, and the next pass brings the entry back. With a feed there is no such pass. An account that is added
  /// meanwhile moves others to higher offsets: so the count does not say where the listing ends. One that is deleted
  /// moves them to lower ones: so the end of each page is asked for again with the next.
  private func readPages(
    of peer: KnownPeer, upTo count: Int?, in pass: Int64, _ report: inout PullReport,
    _ allowance: inout ContactAllowance, _ turn: Turn
  ) async throws(SyncFailure) {
    let entriesMax = 2 * allowance.max + WireLimits.contactsPerPage
    // Peers of another make may have smaller pages; none needs a page for each entry.
    let pagesMax = 64 + 4 * entriesMax / WireLimits.contactsPerPage
    // How far the pages have come, how much of the last one is asked for again, and its tokens.
    var (pages, reached, again, last) = (0, 0, 0, Set<ContactToken>())
    while allowance.hasPlaces, count.map({ reached < $0 }) ?? true {
      guard pages < pagesMax, report.entries < entriesMax else { throw .endless }
      let page = try await reader.page(peer, offset: reached - again)
      let fresh = page.accounts.filter { !last.contains($0.token) }
      // An empty page before the count is reached ends the listing too (reference 1.13.5), and so does one with nothing
      // but what was asked for again.
      guard page.count > 0, !fresh.isEmpty || page.count > again else { break }
      reached += page.count - again
      let found = max(0, page.count - again)
      // None of a page that is known from the last one: many accounts were added before it.
      again = fresh.isEmpty || page.count == 1 ? 0 : max(1, page.count / Self.overlap)
      last = Set(page.accounts.lazy.map(\.token))
      try await turn()
      let (admitted, refused, rest) = try await admit(fresh, of: peer, allowance)
      allowance = rest
      try await SyncFailure.storing { () throws(StoreError) in
        try await directory.mergeContacts(admitted, of: peer.name, pass: pass)
      }
      report.entries += found
      report.refused += refused
      pages += 1
    }
  }

  /// The part of a page that is asked for again: as many accounts may be deleted between two pages.
  private static let overlap = 10

  /// Ends a pass. The store lists as many contacts then as the pass brought, or they are counted anew. An entry that
  /// moved between pages and came twice makes that count needless.
  private func finish(
    _ pass: Int64, of peer: KnownPeer, mark: ListingMark, brought: Int
  ) async throws(SyncFailure) -> ContactCounts {
    try await SyncFailure.storing { () throws(StoreError) in
      try await directory.finishContacts(of: peer.name, pass: pass, mark: mark.text)
      let counts = try await directory.contactCounts(of: peer.name)
      if counts.listed == brought { return counts }
      try await directory.recountContacts(of: peer.name)
      return try await directory.contactCounts(of: peer.name)
    }
  }
}
