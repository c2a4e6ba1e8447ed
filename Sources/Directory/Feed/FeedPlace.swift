import RelayCore

/// The place from which the feed is read next, and the place up to which nothing can be missing.
///
/// If transactions run side by side, one that began later may show first. So the feed behind the settled place is
/// read again until no earlier change can still appear. Changes that were received already are recognised: reading
/// them again costs no more than the reading.
struct FeedPlace: Sendable {
  private struct Received<Subject: Hashable & Sendable>: Hashable, Sendable {
    let subject: Subject
    let revision: UInt64
  }

  /// Everything before it has been received.
  private(set) var settled: DirectoryPlace
  /// The start of the next page.
  private(set) var next: DirectoryPlace
  /// Received and not settled.
  private var tokens: Set<Received<ContactToken>> = []
  private var peers: Set<Received<RelayName>> = []
  private var readings = 0
  /// More was received than is remembered, and none of it has settled since.
  private var isFlooded = false

  /// More than these are read again with every tenth reading only: somebody's transaction is open for long, and what it
  /// does may show a little later than the rest.
  static let readAgainMax = 5_000
  private static let readingsWithoutLookingBack = 10
  /// Beyond these it is forgotten what was received: then it is looked up again, with every tenth reading.
  static let receivedMax = 50_000

  init(at place: DirectoryPlace) { (settled, next) = (place, place) }

  /// Whether the next page begins where everything before it is known: then it shows what came late.
  var looksBack: Bool { next == settled }
  /// How many changes are remembered: at most `receivedMax`.
  var rememberedCount: Int { tokens.count + peers.count }

  /// The page that begins at `next` has been read.
  /// - Returns: what was not received before, ascending.
  mutating func received(_ page: DirectoryChanges) -> [DirectoryChange] {
    let fresh = page.changes.filter { isNew($0) }
    if looksBack, settled < page.fence {
      settled = page.fence
      isFlooded = false
      tokens = tokens.filter { $0.revision >= settled.revision }
      peers = peers.filter { $0.revision >= settled.revision }
    }
    if rememberedCount > Self.receivedMax {
      (tokens, peers) = ([], [])
      isFlooded = true
    }
    guard !page.isPartial else {
      next = page.next
      return fresh
    }
    readings += 1
    let looksBackNext =
      !isFlooded && rememberedCount <= Self.readAgainMax || readings % Self.readingsWithoutLookingBack == 0
    next = looksBackNext || page.next < settled ? settled : page.next
    return fresh
  }

  private mutating func isNew(_ change: DirectoryChange) -> Bool {
    switch change.subject {
    case .token(let token): tokens.insert(Received(subject: token, revision: change.revision)).inserted
    case .peer(let peer): peers.insert(Received(subject: peer, revision: change.revision)).inserted
    }
  }
}
