import HTTPTypes
import Hummingbird
import RelayCore
import RelayHTTP
import Synchronization

/// Our accounts' contact tokens, for peers: whole (reference 1.13.2, 1.13.5), and as they change (docs/federation.md,
/// "The directory").
///
/// A page or a count reads as much of an index as there are accounts: a peer has two such readings under way in each
/// process at most, and what comes on top is 503. A request that waits for a change has no such turn while it waits.
final class ListingController: Sendable {
  /// Says of a request that has waited whether its peer may still ask. - Throws: the refusal.
  typealias Admission = @Sendable (PeerContext) throws(Problem) -> Void

  private let directory: any DirectoryStore
  private let watch: ListingWatch<ContinuousClock>
  private let admit: Admission
  private let turns = PeerTurns(perPeer: 2, retryAfter: .seconds(1))
  /// Requests that wait. A peer needs one, and a second one while another of its processes takes over.
  private let places = PeerTurns(perPeer: 2, all: 1000, retryAfter: .seconds(1))
  /// The accounts counted last, and the listing's revision before.
  private let counted = Mutex<(revision: Int64, count: Int)?>(nil)

  init(directory: any DirectoryStore, watch: ListingWatch<ContinuousClock>, admit: @escaping Admission) {
    self.directory = directory
    self.watch = watch
    self.admit = admit
  }

  func addRoutes(to group: some RouterMethods<PeerContext>) {
    group.resource("v1/federation/user_count", [(.get, inTurn(userCount))])
    group.resource("v1/federation/user_tokens/{offset}", [(.get, inTurn(userTokens))])
    group.resource(RouterPath(Self.changesPath), [(.get, changes)])
  }

  /// As metrics name it.
  static let changesPath = "/v1/federation/changes"

  private typealias Handler = @Sendable (Request, PeerContext) async throws(Problem) -> Response

  private func inTurn(_ handler: @escaping Handler) -> Handler {
    { [turns] request, context async throws(Problem) in
      try await turns.take(of: context.peer.name) { () async throws(Problem) in try await handler(request, context) }
    }
  }

  /// `{"count": n}` under an entity tag that changes whenever a listing does: 304 spares a peer that has seen this
  /// state from reading all pages again.
  @Sendable private func userCount(_ request: Request, _ context: PeerContext) async throws(Problem) -> Response {
    // The revision is read first: if the listing changes in between, the tag is too old, never too new.
    let revision = try await revision()
    let tag = "\"\(revision)\""
    if request.headers[.ifNoneMatch] == tag {
      return Response(status: .notModified, headers: [.eTag: tag])
    }
    let count = try await count(at: revision)
    var response = Response.json(PreKeyCodec.encode(count: count))
    response.headers[.eTag] = tag
    return response
  }

  /// One page of entries without `relay`; empty past the end.
  @Sendable private func userTokens(_ request: Request, _ context: PeerContext) async throws(Problem) -> Response {
    guard let offset = Int(try context.segment("offset")), offset >= 0 else { throw Problem(.notFound) }
    // No account is listed there: a look at the number spares reading over all of them.
    if offset > 0 {
      let count = try await count(at: try await revision())
      guard offset < count else { return .json(ContactCodec.encode([ListedAccount]())) }
    }
    let page = try await storing { () throws(StoreError) in
      try await directory.accounts(offset: offset, limit: WireLimits.contactsPerPage)
    }
    return .json(ContactCodec.encode(page))
  }

  private func revision() async throws(Problem) -> Int64 {
    try await storing { () throws(StoreError) in try await directory.accountsRevision() }
  }

  /// Counted once for each state of the listing.
  /// - Parameter revision: as it was read just before: accounts that are added in between are counted then, and belong
  ///   to a later one.
  private func count(at revision: Int64) async throws(Problem) -> Int {
    if let known = counted.withLock({ $0 }), known.revision == revision { return known.count }
    let count = try await storing { () throws(StoreError) in try await directory.accountCount() }
    counted.withLock { $0 = (revision, count) }
    return count
  }
}

// MARK: - What has changed

extension ListingController {
  /// One page of what has changed behind `after`; without it nothing, and where the feed ends. A cursor that is none of
  /// ours is answered with `reset`, not refused: the peer cannot have known. With `wait` an answer without changes may
  /// come late, and is then one with changes as soon as there are any.
  @Sendable private func changes(_ request: Request, _ context: PeerContext) async throws(Problem) -> Response {
    let (after, wish) = (request.uri.queryParameters.get("after"), request.uri.queryParameters.get("wait"))
    let peer = context.peer.name
    if let wait = Self.duration(of: wish), let cursor = after.flatMap({ ListingCursor(text: $0) }) {
      let page = try await places.takeIfFree(of: peer) { () async throws(Problem) -> FeedPage in
        try await nextPage(behind: cursor, within: wait, context)
      }
      if let page { return .json(page.json) }
    }
    return .json(try await readPage(behind: after, of: peer).json)
  }

  /// Longer waits are cut: every balancer between relays has a longer time-out (deploy/).
  private static let secondsMax = 20

  /// - Returns: nil for anything but whole seconds, 1 or more.
  private static func duration(of wish: String?) -> Duration? {
    guard let seconds = wish.flatMap({ Int($0) }), seconds > 0 else { return nil }
    return .seconds(min(seconds, secondsMax))
  }

  /// As soon as there are changes; after `limit` one without any.
  private func nextPage(
    behind cursor: ListingCursor, within limit: Duration, _ context: PeerContext
  ) async throws(Problem) -> FeedPage {
    let found = try await watch.wait(atMost: limit) { () async throws(Problem) -> FeedPage? in
      // The peer may have been suspended since, or may read the listing no more.
      try admit(context)
      let page = try await readPage(behind: cursor.text, of: context.peer.name)
      return page.hasNews ? page : nil
    }
    return (found ?? .changes([], cursor: FeedCursor(cursor), isPartial: false)).saying(waits: watch.isOpen)
  }

  private func readPage(behind after: String?, of peer: RelayName) async throws(Problem) -> FeedPage {
    try await turns.take(of: peer) { () async throws(Problem) -> FeedPage in
      try await storing { () throws(StoreError) in
        guard let after else {
          return FeedPage.changes([], cursor: FeedCursor(try await directory.listingCursor()), isPartial: false)
        }
        if let cursor = ListingCursor(text: after),
          let changes = try await directory.listingChanges(after: cursor, limit: WireLimits.contactsPerPage)
        {
          return .changes(changes.accounts, cursor: FeedCursor(changes.cursor), isPartial: changes.isPartial)
        }
        return .reset(FeedCursor(try await directory.listingCursor()))
      }
    }
  }
}

extension FeedPage {
  /// Whether there is anything in it that a peer does not know.
  fileprivate var hasNews: Bool {
    if case .changes(let accounts, _, _, _) = self { !accounts.isEmpty } else { true }
  }

  fileprivate func saying(waits: Bool) -> FeedPage {
    guard case .changes(let accounts, let cursor, let isPartial, _) = self else { return self }
    return .changes(accounts, cursor: cursor, isPartial: isPartial, waits: waits)
  }
}
