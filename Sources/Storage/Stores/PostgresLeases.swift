package import RelayCore

extension PostgresStorage {
  /// By the database's clock at the beginning of the call: who waits for the row has the lease that much shorter. One
  /// that would last far longer than it was taken for was taken while the clock was ahead.
  package func acquireLease(_ name: String, holder: Int64, for duration: Duration) async throws(StoreError) -> Bool {
    let millis = PostgresParameter(duration.wholeMillis)
    let result = try await write(
      "acquire_lease",
      """
      INSERT INTO leases AS l (name, holder, expires)
      VALUES (\(name), \(holder), now() + \(millis) * interval '1 millisecond')
      ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, expires = excluded.expires
      WHERE l.holder = excluded.holder OR l.expires <= now()
        OR l.expires > now() + \(millis) * interval '2 milliseconds' + interval '1 minute'
      """)
    return result.affectedRows == 1
  }

  package func releaseLease(_ name: String, holder: Int64) async throws(StoreError) {
    _ = try await write(
      "release_lease", "DELETE FROM leases WHERE name = \(name) AND holder = \(holder)")
  }
}

extension Duration {
  var wholeMillis: Int64 { Int64(self / .milliseconds(1)) }
}
