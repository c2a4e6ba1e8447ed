import Foundation
import Glibc
import Logging
import RelayConfiguration
import RelayCore
import RelayHTTP
import Storage

/// The place where backups are made and taken apart: embedded stores, and folders beside them.
struct BackupSite {
  let settings: RelayConfiguration
  /// The path of the database.
  let path: String

  /// - Throws: `CommandFailure` for stores that are not embedded.
  init(_ settings: RelayConfiguration) throws {
    guard case .sqlite(let path) = settings.storage.location else {
      throw CommandFailure(
        "This relay keeps its data in PostgreSQL, whose own tools restore it (docs/backup.md). Then run `relay storage "
          + "restored`.")
    }
    self.settings = settings
    self.path = path
  }

  /// nil where attachments are kept in S3: its own means back it up.
  var attachments: String? {
    if case .folder(let folder) = settings.attachments.location { folder } else { nil }
  }

  /// Runs `body` with a folder of its own beside `place`, which is removed afterwards, however it ends. Remains of a
  /// command that was killed there go first.
  static func withFolder<Value>(
    beside place: String, _ body: (String) async throws -> Value
  ) async throws -> Value {
    let folder = place + ".relay-work"
    let descriptor =
      mkdir(folder, 0o700) == 0 || errno == EEXIST ? open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1
    guard descriptor >= 0 else {
      throw CommandFailure("The folder \(folder) cannot be made: \(FaultWords.ofSystem(errno)). Nothing was done.")
    }
    defer { close(descriptor) }
    let facts = try FileManager.default.attributesOfItem(atPath: folder)
    let (owner, mode) = (facts[.ownerAccountID] as? Int, facts[.posixPermissions] as? Int)
    guard owner == Int(geteuid()), let mode, mode & 0o077 == 0 else {
      throw CommandFailure("The folder \(folder) is somebody else's. Nothing was done: remove it.")
    }
    guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
      throw CommandFailure("Another command is at work in \(folder). Nothing was done: wait for its end.")
    }
    defer { try? FileManager.default.removeItem(atPath: folder) }  // What is left of it is no part of any store.
    for name in try FileManager.default.contentsOfDirectory(atPath: folder) {
      try FileManager.default.removeItem(atPath: "\(folder)/\(name)")
    }
    return try await body(folder)
  }

  /// Opens the database at `path` with the relay's keys.
  func openStore(_ path: String) throws(StoreError) -> SQLiteStorage {
    let sealer = SecretSealer(current: settings.storage.encryptionKey, former: settings.storage.formerEncryptionKey)
    return try SQLiteStorage(path: path, sealer: sealer, clock: .system)
  }

  /// Opens the database at `path`, and closes it.
  func withStore<Value>(at path: String, _ body: (SQLiteStorage) async throws -> Value) async throws -> Value {
    let store: SQLiteStorage
    do throws(StoreError) {
      store = try openStore(path)
    } catch {
      throw CommandFailure("The store \(path) cannot be opened: \(error).")
    }
    do {
      let value = try await body(store)
      await store.close()
      return value
    } catch {
      await store.close()
      throw error
    }
  }

  /// Makes a database out of a backup that may be served: whole, of a schema that this build knows, readable with the
  /// configured key, and with all one-time keys set aside, since some may have been handed out after the backup was
  /// made.
  /// - Returns: what was in it.
  func prepare(_ database: String) async throws -> StoreCounts {
    let counts = try await withStore(at: database) { store in
      if case .tooNew(let version, let newest) = try await store.compatibility() {
        throw CommandFailure(
          "The backup's schema is at version \(version), this relay knows \(newest) at most: run a newer relay.")
      }
      let faults = try await store.integrityFaults()
      guard faults.isEmpty else { throw CommandFailure("The backup's database is damaged: \(faults[0]).") }
      let counts = try await store.counts()
      try await store.migrate { _ in }
      let quiet = Logger(label: "relay.storage") { _ in SwiftLogNoOpLogHandler() }
      try await EncryptionKeys(settings.storage, store: store, logger: quiet).checkSecrets()
      let epoch = max(try await store.epoch(), Timestamp.now.millis) + 1
      try await store.setAsideOneTimePreKeys(epoch: epoch, by: .command, behind: .zero)
      guard try await store.counts().oneTimePreKeys == 0 else {
        throw CommandFailure("One-time keys are left in the restored store: it must not be served.")
      }
      try await store.settle()
      return counts
    }
    try Self.demandWhole(database)
    return counts
  }

  /// Demands that the file alone is the database: nothing of it is in a log beside it.
  static func demandWhole(_ database: String) throws {
    let log = try? FileManager.default.attributesOfItem(atPath: database + "-wal")[.size] as? Int
    guard (log ?? 0) == 0 else { throw CommandFailure("\(database) was not written whole: run the command again.") }
    for suffix in ["-wal", "-shm"] { unlink(database + suffix) }
  }
}
