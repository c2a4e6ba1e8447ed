// Reading the whole directory, as a process does when it starts without a snapshot: `COPY` on a connection and a
// thread of its own, a million rows a second or more, at the side of everything else.

package import RelayCore

extension PostgresStorage {
  /// The place comes first: what is committed before it the copies see, and what is committed later the feed tells.
  package func readDirectory(
    _ take: @escaping @Sendable ([DirectoryEntry]) -> Void
  ) async throws(StoreError) -> DirectoryPlace {
    let tokens = try await tokens()
    let stop = try copies.begin()
    defer { copies.end(stop) }
    let (target, primary) = (maintenance.target, maintenance.primary)
    let result: Result<DirectoryPlace, StoreError> = await withTaskCancellationHandler {
      await withCheckedContinuation { caller in
        do throws(StoreError) {
          try OwnThread.start(name: "postgres-copy") {
            caller.resume(
              returning: Result { () throws(StoreError) in
                try DirectoryCopy.read(from: target, at: primary.place, tokens, stop: stop, take)
              })
          }
        } catch {
          caller.resume(returning: .failure(error))
        }
      }
    } onCancel: {
      stop.raise()
    }
    return try result.get()
  }
}

/// The queries of the copies, and the way that they are read.
enum DirectoryCopy {
  /// Plans for whole tables, as every server makes them when nobody forbids it. A copy of millions takes its time; what
  /// bounds it is that something comes.
  private static let settings = """
    SELECT set_config('statement_timeout', '0', false), set_config('lock_timeout', '5000', false)
    """
  private static let placeQuery = """
    SELECT value, pg_snapshot_xmin(pg_current_snapshot()) FROM revisions WHERE subject = 'listing-generation'
    """
  /// If several list a token, a later query decides whose entry counts, for these tokens alone. Some tokens are
  /// covered by an account that is not found, or by the claim of a peer that does not list them. They are left out at
  /// once: they are few.
  private static let copies = [
    "SELECT token, NULL::text, supports_sms, voice FROM accounts WHERE active AND discoverable",
    """
    SELECT c.token, c.peer, c.supports_sms, c.voice FROM peer_contacts AS c JOIN peers AS p ON p.name = c.peer
    WHERE p.state = 'active' AND p.contacts_mode = 'copy' AND c.unlisted IS NULL
      AND NOT EXISTS (
        SELECT FROM accounts AS o WHERE o.token = c.token AND NOT (o.active AND o.discoverable))
      AND NOT EXISTS (
        SELECT FROM peer_contacts AS e JOIN peers AS q ON q.name = e.peer
        WHERE e.token = c.token AND e.unlisted IS NOT NULL AND (e.since, e.peer) < (c.since, c.peer)
          AND q.state = 'active' AND q.contacts_mode <> 'none')
    """,
  ]
  /// Entries handed over in one call: about half a megabyte.
  private static let batchSize = 10_000

  static func read(
    from target: PostgresTarget, at known: PostgresHost.Place?, _ tokens: TokenSealer, stop: StopSignal,
    _ take: ([DirectoryEntry]) -> Void
  ) throws(StoreError) -> DirectoryPlace {
    let stream = try PostgresStream(target, known: known, stop: stop)
    _ = try stream.run(settings)
    let found = try stream.run(placeQuery)
    guard let place = try found.first(DirectoryPlace.init(row:)) else {
      throw .corrupted(reason: "the table revisions lacks a row")
    }
    for query in copies {
      var parser = DirectoryCopyParser(tokens)
      try stream.copy("COPY (\(query)) TO STDOUT (FORMAT binary)") { piece throws(StoreError) in
        try parser.read(piece)
        if parser.count >= batchSize { take(try parser.takeEntries()) }
      }
      guard parser.isEnded else { throw .corrupted(reason: "a copy of the directory ended early") }
      if parser.count > 0 { take(try parser.takeEntries()) }
    }
    return place
  }
}
