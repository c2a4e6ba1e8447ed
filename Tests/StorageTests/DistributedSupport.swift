import RelayCore
import TestSupport

@testable import Storage

/// Runs `body` with the URL of an empty database at a coordinator of Citus, when its turn comes.
func withDistributedDatabase(_ body: (String) async throws -> Void) async throws {
  await Turns.distributed.take()
  defer { Turns.distributed.giveBack() }
  let url = try await Loopback.blocking { try DistributedDatabases.shared.take() }
  do {
    try await body(url)
  } catch {
    // The test's own error is what matters.
    try? await Loopback.blocking { try DistributedDatabases.shared.giveBack(url) }
    throw error
  }
  try await Loopback.blocking { try DistributedDatabases.shared.giveBack(url) }
}

/// Makes the schema, and distributes its tables: before the stores of a test connect, which learn the layout then.
func distribute(_ url: String, sealer: SecretSealer = .none) async throws {
  let storage = try await PostgresStorage.connected(to: url, sealer: sealer)
  do {
    try await storage.migrate { _ in }
    _ = try await storage.distribute(shards: 4) { _ in }
  } catch {
    await storage.close()
    throw error
  }
  await storage.close()
}
