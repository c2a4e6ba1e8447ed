import Foundation
import Logging
import RelayCore
import TestSupport
import TestTags
import Testing

@testable import Storage

/// The parts of the schema that statements count on without naming them.
@Suite(.tags(.stores)) struct PostgresPartsTests {
  @Test func `the expected triggers and functions are those of a new store, and none is missing there`() async throws {
    let postgres = try await Loopback.blocking { try PostgresServer.shared() }
    let database = try await Loopback.blocking { try postgres.createDatabase() }
    let name = String(database.split(separator: "/").last ?? "")
    let storage = try PostgresStorage(url: database, logger: .quiet)
    try await storage.migrate { _ in }
    #expect(try await storage.missingParts() == [])
    await storage.close()
    func names(_ query: String) async throws -> [String] {
      try await Loopback.blocking { try postgres.sql(query, in: name) }
        .split(separator: "\n").map { $0.trimmingCharacters(in: .whitespaces) }.sorted()
    }
    #expect(
      try await names("SELECT DISTINCT tgname FROM pg_trigger WHERE NOT tgisinternal") == PostgresStorage.triggers)
    #expect(
      try await names("SELECT DISTINCT proname FROM pg_proc WHERE pronamespace = 'public'::regnamespace")
        == PostgresStorage.functions)
  }
}
