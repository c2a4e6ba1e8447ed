import Foundation
import Logging
import RelayConfiguration
import RelayCore
import Storage

/// A command's demand on the schema before it works on the store.
enum SchemaDemand {
  /// Nothing: the command is about the schema.
  case asItIs
  /// Usable; brought there first where the configuration says so (`storage.migrate`).
  case usable
  /// The same of a store that is there: the command would change nothing where it is meant to.
  case existing
}

/// Opens the store that the configuration names, lets `body` use it, and closes it.
/// - Parameter note: what `body` changes; nil where it only looks, or notes by itself.
func withStorage(
  _ option: ConfigurationOption, _ demand: SchemaDemand = .usable, noting note: AuditNote? = nil,
  _ body: (any Storage) async throws -> Void
) async throws {
  let settings = try option.load().configuration
  LogOutput.bootstrap(settings.log)
  try await withStorage(settings, demand, noting: note, body)
}

func withStorage(
  _ settings: RelayConfiguration, _ demand: SchemaDemand = .usable, noting note: AuditNote? = nil,
  _ body: (any Storage) async throws -> Void
) async throws {
  if demand == .existing, case .sqlite(let path) = settings.storage.location,
    !FileManager.default.fileExists(atPath: path)
  {
    throw CommandFailure("There is no store at \(path). Give the relay's own configuration by --config.")
  }
  let storage = try openStorage(settings, logger: Logger(label: "relay.storage"))
  do {
    if demand != .asItIs { try await prepareSchema(of: storage, settings) { _ in } }
    try await storage.noting(note) { try await body(storage) }
  } catch {
    await storage.close()
    throw error
  }
  await storage.close()
}

/// Connects in the background where the store is a server.
func openStorage(_ settings: RelayConfiguration, logger: Logger) throws -> any Storage {
  let sealer = SecretSealer(current: settings.storage.encryptionKey, former: settings.storage.formerEncryptionKey)
  switch settings.storage.location {
  case .sqlite(let path):
    do throws(StoreError) {
      return try SQLiteStorage(path: path, sealer: sealer, clock: .system)
    } catch {
      throw CommandFailure("The store \(path) cannot be opened: \(error). Check storage.url and the folder's owner.")
    }
  case .postgres(let url):
    return try PostgresStorage(url: url.value, sealer: sealer, logger: logger) { [storage = settings.storage] in
      storage.presentURL?.value
    }
  }
}

extension SchemaCompatibility {
  static let movingInRemedy =
    "A store is being moved into this one: `relay storage move`, with the configuration of the former store, ends it."
  static let movedRemedy =
    "This store was moved to PostgreSQL: set storage.url to that database. While the move has not ended, `relay storage move "
    + "--cancel` takes it back."
  static let distributingRemedy =
    "The distribution of this store was begun and has not ended: run `relay storage distribute`, which goes on where it "
    + "ended."
}

/// Keeps every other process that serves off embedded stores, until what is returned ends; nil for other stores.
func lockEmbeddedStore(_ settings: RelayConfiguration) throws -> SQLiteLock? {
  guard case .sqlite(let path) = settings.storage.location else { return nil }
  do throws(SQLiteLock.Failure) {
    return try SQLiteLock(databasePath: path)
  } catch {
    if case .unusable = error { throw CommandFailure("\(error). Check storage.url and the folder's owner.") }
    throw CommandFailure("\(error). One process serves embedded stores; for several, use postgres:// and redis://.")
  }
}

/// Migrates where the configuration says so, and refuses a schema that this build cannot work on.
/// - Parameter start: waits for a store that does not answer; nil: it is an error at once.
func prepareSchema(
  of storage: any Storage, _ settings: RelayConfiguration, during start: Start? = nil,
  progress: @Sendable (MigrationStatus) -> Void
) async throws {
  while true {
    do {
      return try await bringSchema(of: storage, settings, progress: progress)
    } catch StoreError.unavailable(let reason) {
      let fault = (storage as? PostgresStorage)?.connectFault ?? reason
      if let start, try await start.goesOn(after: fault) { continue }
      throw CommandFailure("The store does not answer: \(fault). Start it, or correct storage.url.")
    }
  }
}

private func bringSchema(
  of storage: any Storage, _ settings: RelayConfiguration, progress: @Sendable (MigrationStatus) -> Void
) async throws {
  if settings.storage.migratesAtStart, await !storage.isTooNew { try await storage.migrate(progress: progress) }
  switch try await storage.compatibility() {
  case .usable: return
  case .tooOld(let version, let needed):
    throw CommandFailure(
      "The store's schema is at version \(version), this relay needs \(needed): run `relay migrate run`.")
  case .tooNew(let version, let newest):
    throw CommandFailure(
      "The store's schema is at version \(version), this relay knows \(newest) at most: run a newer relay.")
  case .movingIn: throw CommandFailure(SchemaCompatibility.movingInRemedy)
  case .moved: throw CommandFailure(SchemaCompatibility.movedRemedy)
  case .distributing: throw CommandFailure(SchemaCompatibility.distributingRemedy)
  }
}
