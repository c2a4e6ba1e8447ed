import GRDB
package import RelayCore

extension EmbeddedStorage {
  package func acquireLease(_ name: String, holder: Int64, for duration: Duration) async throws(StoreError) -> Bool {
    let now = clock.now()
    return try await write { db in
      try db.run(
        """
        INSERT INTO leases (name, holder, expires) VALUES (?, ?, ?)
        ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, expires = excluded.expires
        WHERE holder = excluded.holder OR expires <= ? OR expires > ?
        """,
        [
          name, holder, now.adding(duration).millis, now.millis,
          // One that would last far longer than it was taken for was taken while the clock was ahead.
          now.adding(duration * 2 + .seconds(60)).millis,
        ])
      return db.changesCount == 1
    }
  }

  package func releaseLease(_ name: String, holder: Int64) async throws(StoreError) {
    try await write { db in try db.run("DELETE FROM leases WHERE name = ? AND holder = ?", [name, holder]) }
  }
}
