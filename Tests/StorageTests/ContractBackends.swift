// The back ends of the contract suite: every promise of RelayCore's store contracts is tested once, for each of them.

import Foundation
import RelayCore
import Storage
import Synchronization
import TestSupport
import Testing

enum Backend: String, CaseIterable, Sendable, CustomTestStringConvertible {
  case embedded
  case postgres
  /// PostgreSQL whose tables of messages, prekeys and wake-ups lie at two other servers (Citus).
  case distributed

  /// Without `distributed` if PostgreSQL does not offer the extension, which `DistributedStoreTests` says.
  static let allCases: [Backend] = [.embedded, .postgres] + (CitusServers.isOffered ? [.distributed] : [])

  /// The back ends that take the day from a clock which a test can move. PostgreSQL takes it from the server.
  static let withClock: [Backend] = [.embedded]

  var testDescription: String { rawValue }
}

/// A clock that stands still until it is moved.
final class ManualClock: Sendable {
  private let millis: Mutex<Int64>

  init(_ start: Timestamp) { millis = Mutex(start.millis) }

  var now: Timestamp { Timestamp(millis: millis.withLock { $0 }) }
  var wall: WallClock { WallClock { self.now } }
  func set(_ time: Timestamp) { millis.withLock { $0 = time.millis } }
  func advance(_ duration: Duration) { set(now.adding(duration)) }
}

/// A fresh, migrated store and what a test needs around it.
struct Store: Sendable {
  let storage: any Storage
  let clock: ManualClock
  var now: Timestamp { clock.now }
}

extension Backend {
  /// Runs `body` on a store of its own that is gone afterwards.
  func withStore(migrated: Bool = true, _ body: (Store) async throws -> Void) async throws {
    let clock = ManualClock(Sample.noon)
    try await withStorage(migrated: migrated, clock: clock.wall) { storage in
      if migrated { try await storage.migrate { _ in } }
      try await body(Store(storage: storage, clock: clock))
    }
  }

  private func withStorage(
    migrated: Bool, clock: WallClock, _ body: (any Storage) async throws -> Void
  ) async throws {
    switch self {
    case .embedded:
      await Turns.embedded.take()
      defer { Turns.embedded.giveBack() }
      try await withTemporaryFolder { folder in
        let storage = try SQLiteStorage(path: folder + "/relay.sqlite", sealer: Self.sealer, clock: clock)
        do {
          try await body(storage)
        } catch {
          await storage.close()
          throw error
        }
        await storage.close()
      }
    case .postgres:
      try await withPostgres(migrated: false, sealer: Self.sealer) { storage, _, _ in try await body(storage) }
    case .distributed:
      try await withDistributedDatabase { url in
        if migrated { try await distribute(url, sealer: Self.sealer) }
        let storage = try await PostgresStorage.connected(to: url, sealer: Self.sealer)
        do {
          try await body(storage)
        } catch {
          await storage.close()
          throw error
        }
        await storage.close()
      }
    }
  }

  /// Runs `body` with a way to open one migrated database under any encryption keys. Opened stores are closed.
  func withKeys(_ body: ((SecretSealer, (Store) async throws -> Void) async throws -> Void) async throws -> Void)
    async throws
  {
    let clock = ManualClock(Sample.noon)
    switch self {
    case .embedded:
      await Turns.embedded.take()
      defer { Turns.embedded.giveBack() }
      try await withTemporaryFolder { folder in
        try await body { sealer, use in
          let storage = try SQLiteStorage(path: folder + "/relay.sqlite", sealer: sealer, clock: clock.wall)
          try await Self.use(Store(storage: storage, clock: clock), use)
        }
      }
    case .postgres:
      await Turns.postgres.take()
      defer { Turns.postgres.giveBack() }
      let server = try await Loopback.blocking { try PostgresServer.shared() }
      let url = try await Loopback.blocking { try server.createDatabase() }
      try await body { sealer, use in
        let storage = try await PostgresStorage.connected(to: url, sealer: sealer)
        try await Self.use(Store(storage: storage, clock: clock), use)
      }
    case .distributed:
      try await withDistributedDatabase { url in
        try await body { sealer, use in
          try await distribute(url, sealer: sealer)
          let storage = try await PostgresStorage.connected(to: url, sealer: sealer)
          try await Self.use(Store(storage: storage, clock: clock), use)
        }
      }
    }
  }

  private static func use(_ store: Store, _ body: (Store) async throws -> Void) async throws {
    do {
      try await store.storage.migrate { _ in }
      try await body(store)
    } catch {
      await store.storage.close()
      throw error
    }
    await store.storage.close()
  }

  private static let sealer = SecretSealer(current: SecretBytes([UInt8](repeating: 7, count: 32)))
}

/// Runs `body` with a folder that is gone afterwards.
func withTemporaryFolder(_ body: (String) async throws -> Void) async throws {
  let folder = NSTemporaryDirectory() + "relay-tests-" + UUID().uuidString
  try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
  defer { try? FileManager.default.removeItem(atPath: folder) }  // A leftover there hurts nobody.
  try await body(folder)
}

/// Bounds how many tests run at once on one back end: each has connections and a disk to write to. No test takes two.
final class Turns: Sendable {
  static let embedded = Turns(8)
  static let postgres = Turns(8)
  static let distributed = Turns(4)

  private struct State {
    var free: Int
    var waiting: [CheckedContinuation<Void, Never>] = []
  }
  private let state: Mutex<State>

  init(_ count: Int) { state = Mutex(State(free: count)) }

  func take() async {
    await withCheckedContinuation { turn in
      let isMine = state.withLock { state in
        guard state.free == 0 else {
          state.free -= 1
          return true
        }
        state.waiting.append(turn)
        return false
      }
      if isMine { turn.resume() }
    }
  }

  func giveBack() {
    let next = state.withLock { state -> CheckedContinuation<Void, Never>? in
      guard state.waiting.isEmpty else { return state.waiting.removeFirst() }
      state.free += 1
      return nil
    }
    next?.resume()
  }
}
