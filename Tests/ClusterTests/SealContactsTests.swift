import ChildProcesses
import Foundation
import Glibc
import TestSupport
import TestTags
import Testing

/// `relay storage seal-contacts` on PostgreSQL, killed in the middle of it.
@Suite(.tags(.processes)) struct SealContactsTests {
  private static let key = ["RELAY_STORAGE_ENCRYPTION_KEY": Data(repeating: 1, count: 32).base64EncodedString()]

  /// 200,000 accounts: some tens of portions.
  private static let accounts = """
    ALTER TABLE accounts DISABLE TRIGGER USER;
    INSERT INTO accounts (account, token, active, supports_sms, voice)
    SELECT n, substring(sha256(n::text::bytea), 1, 10), true, true, false FROM generate_series(1, 200000) AS n;
    ALTER TABLE accounts ENABLE TRIGGER USER;
    """
  private static let sealed = "SELECT count(*) FROM accounts WHERE octet_length(token) = 17"

  @Test func `a move that a kill breaks off goes on, and no relay starts in between`() async throws {
    try await Cluster.with { cluster in
      let (postgres, database) = (cluster.postgres, cluster.database)
      try await Loopback.blocking { _ = try postgres.sql(Self.accounts, in: database) }
      let running = Task {
        try await cluster.site.run(["storage", "seal-contacts"], overrides: Self.key, within: .seconds(600))
      }
      // The server ends its session, as the end of its process would.
      try await eventually("it has begun", within: .seconds(60), every: .milliseconds(50)) {
        let count = try await Loopback.blocking { try postgres.sql(Self.sealed, in: database) }
        return count != "0"
      }
      try await Loopback.blocking {
        _ = try postgres.sql(
          """
          SELECT pg_terminate_backend(pid) FROM pg_stat_activity
          WHERE datname = current_database() AND application_name = 'relay'
          """, in: database)
      }
      let killed = try await running.value
      #expect(killed.exit == .code(1), "\(killed.errors)")
      let count = try await Loopback.blocking { try postgres.sql(Self.sealed, in: database) }
      #expect(count != "0" && count != "200000")

      let refused = try await cluster.site.startServing(Self.key)
      #expect(await refused.exit(within: .seconds(60)) == .code(1))
      #expect(refused.log().contains("relay storage seal-contacts"), "\(refused.log())")
      let done = try await cluster.site.run(["storage", "seal-contacts"], overrides: Self.key, within: .seconds(600))
      #expect(done.exit == .code(0), "\(done.errors)")
      #expect(done.errors.contains("of"))
      let all = try await Loopback.blocking { try postgres.sql(Self.sealed, in: database) }
      #expect(all == "200000")
      let relay = try await cluster.site.serve(Self.key)
      #expect(relay.log().contains("entries=200000"), "\(relay.log())")
      #expect(await relay.terminate() == .code(0))
    }
  }

  @Test func `it leaves a store alone that relays work on`() async throws {
    try await Cluster.with { cluster in
      try await cluster.serve(1) { _ in
        let result = try await cluster.site.run(["storage", "seal-contacts"], overrides: Self.key)
        #expect(result.exit == .code(1))
        #expect(result.errors.contains("stop all of them"), "\(result.errors)")
      }
    }
  }
}
