import HTTPTypes
import Hummingbird
import RelayCore
import RelayHTTP

/// Our accounts' contact tokens, for peers: whole (reference 1.13.2, 1.13.5), and as they change (docs/federation.md,
/// "The directory").
struct ListingController: Sendable {
  let directory: any DirectoryStore

  func addRoutes(to group: some RouterMethods<PeerContext>) {
    group.resource("v1/federation/user_count", [(.get, userCount)])
    group.resource("v1/federation/user_tokens/{offset}", [(.get, userTokens)])
    group.resource("v1/federation/changes", [(.get, changes)])
  }

  /// `{"count": n}` under an entity tag that changes whenever a listing does: 304 spares a peer that has seen this
  /// state from reading all pages again.
  private func userCount(_ request: Request, _ context: PeerContext) async throws(Problem) -> Response {
    // The revision is read first: if the listing changes in between, the tag is too old, never too new.
    let revision = try await storing { () throws(StoreError) in try await directory.accountsRevision() }
    let tag = "\"\(revision)\""
    if request.headers[.ifNoneMatch] == tag {
      return Response(status: .notModified, headers: [.eTag: tag])
    }
    let count = try await storing { () throws(StoreError) in try await directory.accountCount() }
    var response = Response.json(PreKeyCodec.encode(count: count))
    response.headers[.eTag] = tag
    return response
  }

  /// One page of entries without `relay`; empty past the end.
  private func userTokens(_ request: Request, _ context: PeerContext) async throws(Problem) -> Response {
    guard let offset = Int(try context.segment("offset")), offset >= 0 else { throw Problem(.notFound) }
    let page = try await storing { () throws(StoreError) in
      try await directory.accounts(offset: offset, limit: WireLimits.contactsPerPage)
    }
    return .json(ContactCodec.encode(page))
  }

  /// One page of what has changed behind `after`; without it nothing, and where the feed ends. A cursor that is none of
  /// ours is answered with `reset`, not refused: the peer cannot have known.
  private func changes(_ request: Request, _ context: PeerContext) async throws(Problem) -> Response {
    let after = request.uri.queryParameters.get("after")
    let page = try await storing { () throws(StoreError) in
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
    return .json(page.json)
  }
}
