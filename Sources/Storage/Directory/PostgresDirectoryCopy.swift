// Reading the directory or a part of it, as a process does when it starts without a snapshot: `COPY` on a connection
// and a thread of its own, a million rows a second or more, at the side of everything else.

package import RelayCore

extension PostgresStorage {
  /// The place comes first: what is committed before it the copies see, and what is committed later the feed tells.
  package func readDirectory(
    _ firstBytes: ClosedRange<UInt8>, _ take: @escaping @Sendable ([DirectoryEntry]) -> Void
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
                try DirectoryCopy.read(from: target, at: primary.place, firstBytes, tokens, stop: stop, take)
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
  private static func copies(_ firstBytes: ClosedRange<UInt8>) -> [String] {
    let (accounts, contacts) = (bounds(firstBytes, of: "token"), bounds(firstBytes, of: "c.token"))
    return [
      "SELECT token, NULL::text, supports_sms, voice FROM accounts WHERE active AND discoverable\(accounts)",
      """
      SELECT c.token, c.peer, c.supports_sms, c.voice FROM peer_contacts AS c JOIN peers AS p ON p.name = c.peer
      WHERE p.state = 'active' AND p.contacts_mode = 'copy' AND c.unlisted IS NULL\(contacts)
        AND NOT EXISTS (
          SELECT FROM accounts AS o WHERE o.token = c.token AND NOT (o.active AND o.discoverable))
        AND NOT EXISTS (
          SELECT FROM peer_contacts AS e JOIN peers AS q ON q.name = e.peer
          WHERE e.token = c.token AND e.unlisted IS NOT NULL AND (e.since, e.peer) < (c.since, c.peer)
            AND q.state = 'active' AND q.contacts_mode <> 'none')
      """,
    ]
  }

  /// A sealed token begins with the first byte of what was sealed. `COPY` takes no parameters, and a byte needs no
  /// quoting.
  private static func bounds(_ firstBytes: ClosedRange<UInt8>, of column: String) -> String {
    func literal(_ byte: UInt8) -> String { "'\\x\(byte < 16 ? "0" : "")\(String(byte, radix: 16))'::bytea" }
    let lower = firstBytes.lowerBound == .min ? "" : " AND \(column) >= \(literal(firstBytes.lowerBound))"
    let upper = firstBytes.upperBound == .max ? "" : " AND \(column) < \(literal(firstBytes.upperBound + 1))"
    return lower + upper
  }

  /// Entries handed over in one call: about half a megabyte.
  private static let batchSize = 10_000

  static func read(
    from target: PostgresTarget, at known: PostgresHost.Place?, _ firstBytes: ClosedRange<UInt8>,
    _ tokens: TokenSealer, stop: StopSignal, _ take: ([DirectoryEntry]) -> Void
  ) throws(StoreError) -> DirectoryPlace {
    let stream = try PostgresStream(target, known: known, stop: stop)
    _ = try stream.run(settings)
    let found = try stream.run(placeQuery)
    guard let place = try found.first(DirectoryPlace.init(row:)) else {
      throw .corrupted(reason: "the table revisions lacks a row")
    }
    for query in copies(firstBytes) {
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
