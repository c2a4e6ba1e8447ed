import GRDB
package import RelayCore

extension SQLiteStorage {
  package func acquireLease(_ name: String, holder: Int64, for duration: Duration) async throws(StoreError) -> Bool {
    let now = clock.now()
    // One that would last far longer than it was taken for was taken while the clock was ahead.
    let tooLate = now.adding(duration * 2 + .seconds(60))
    return try await write { db in
      try db.run(
        """
        INSERT INTO leases (name, holder, expires) VALUES (\(name), \(holder), \(now.adding(duration)))
        ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, expires = excluded.expires
        WHERE holder = excluded.holder OR expires <= \(now) OR expires > \(tooLate)
        """)
      return db.changesCount == 1
    }
  }

  package func releaseLease(_ name: String, holder: Int64) async throws(StoreError) {
    try await write { db in try db.run("DELETE FROM leases WHERE name = \(name) AND holder = \(holder)") }
  }
}
