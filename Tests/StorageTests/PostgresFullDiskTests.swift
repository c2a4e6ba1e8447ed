import Foundation
import Glibc
import RelayCore
import TestSupport
import TestTags
import Testing

@testable import Storage

/// A PostgreSQL whose disk is full refuses a session that must write a file before it serves.
@Suite(.tags(.stores)) struct PostgresFullDiskTests {
  @Test(.enabled(if: TestDisk.isPossible, "a file system of its own takes root"))
  func `a session that is refused tells of the full disk, and is let in when there is room`() async throws {
    let server = try await Loopback.blocking { try PostgresServer(hasOwnDisk: true) }
    let url = try await Loopback.blocking { try server.createDatabase() }
    let storage = try await PostgresStorage.connected(to: url)
    do {
      #expect(storage.refusals.reason == nil)
      try await Loopback.blocking {
        let database = try server.sql("SELECT oid FROM pg_database WHERE datname = current_database()", in: url)
        let sessions = try server.sql(
          "SELECT pid FROM pg_stat_activity WHERE application_name = 'relay'", in: "postgres")
        // As after a change of the schema: the next session in this database makes the file anew.
        try FileManager.default.removeItem(atPath: "\(server.folder)/data/base/\(database)/pg_internal.init")
        try server.disk?.fill()
        // Not by a statement: psql could not write down its answer on that disk.
        for session in sessions.split(separator: "\n").compactMap({ Int32($0) }) { kill(session, SIGTERM) }
      }
      try await eventually("it is told of") { storage.refusals.reason?.contains("its disk is full") == true }
      try await Loopback.blocking { try server.disk?.free() }
      for connection in storage.connections { try await connection.untilConnected() }
      try await storage.tryWriting()
      storage.refusals.overcome(after: .zero)
      #expect(storage.refusals.reason == nil)
    } catch {
      await storage.close()
      throw error
    }
    await storage.close()
    try await Loopback.blocking { try server.stop() }
  }
}
