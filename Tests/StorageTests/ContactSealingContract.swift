import Foundation
import GRDB
import RelayCore
import TestSupport
import TestTags
import Testing

@testable import Storage

// How contact tokens lie in a store, and how they are sealed in one that holds them as they are.

extension Sample {
  /// A contact whose bytes are no others' by chance.
  fileprivate static func contact(_ index: Int) throws -> ContactToken { try token(number(index)) }
}

/// A store's view of its directory.
private struct Directory: Equatable {
  let entries: [ContactToken: DirectoryEntry]
  let listing: [ContactToken: ListedAccount]
  let cursor: ListingCursor
  let generation: Int64
  let changes: [DirectoryChange]

  init(of storage: any Storage) async throws {
    let reader = try await DirectoryReader(of: storage)
    #expect(try await reader.isCurrent())
    entries = reader.entries
    generation = reader.place.generation
    let listed = try await storage.accounts(offset: 0, limit: 1000)
    listing = Dictionary(listed.map { ($0.token, $0) }) { first, _ in first }
    cursor = try await storage.listingCursor()
    changes = try await storage.recentDirectoryChanges(limit: 1000).changes
  }

  /// Accounts, one of them not reachable, and what two peers list.
  static func fill(_ store: Store) async throws {
    try await store.registerAccounts(20)
    try await store.register(Sample.registration(3, isReachable: false))
    for name in ["beta", "gamma"] { #expect(try await store.storage.savePeer(Sample.peer(name))) }
    let listed = try (100..<300).map {
      ListedAccount(token: try Sample.contact($0), isInactive: false, supportsSMS: $0.isMultiple(of: 2), voice: true)
    }
    try await store.storage.mergeContacts(listed, of: Sample.relay("beta"), pass: 1)
    try await store.storage.mergeContacts(Array(listed.suffix(50)), of: Sample.relay("gamma"), pass: 1)
  }
}

private let firstKey = SecretSealer(current: SecretBytes([UInt8](repeating: 1, count: 32)))
private let secondKey = SecretSealer(current: SecretBytes([UInt8](repeating: 2, count: 32)))
private let changingKey = SecretSealer(
  current: SecretBytes([UInt8](repeating: 2, count: 32)), former: SecretBytes([UInt8](repeating: 1, count: 32)))

@Suite(.tags(.stores)) struct ContactSealingContract {
  private static func refusal(_ storage: any Storage) async -> ContactSealingFailure? {
    do throws(ContactSealingFailure) {
      try await storage.sealContacts { _ in }
      return nil
    } catch {
      return error
    }
  }

  private static func fails(_ body: () async throws -> Void) async -> Bool {
    do { try await body() } catch is StoreError { return true } catch { return false }
    return false
  }

  @Test(arguments: Backend.allCases)
  func `a new store is sealed from the beginning where there is a key, and else is not`(_ backend: Backend) async throws
  {
    try await backend.withKeys { open in
      try await open(firstKey) { store in
        #expect(try await store.storage.contactSealing() == .sealed)
        #expect(try await store.storage.directoryFileKey()?.bytes.count == 32)
        let rows = Collected<ContactSealingProgress>()
        try await store.storage.sealContacts { rows.add($0) }
        #expect(rows.values.isEmpty)
      }
    }
    try await backend.withKeys { open in
      try await open(.none) { store in
        let (sealing, fileKey) = (try await store.storage.contactSealing(), try await store.storage.directoryFileKey())
        #expect(sealing == .plain && fileKey == nil)
        guard case .noEncryptionKey? = await Self.refusal(store.storage) else {
          Issue.record("sealed without a key")
          return
        }
      }
      // It has been brought to the newest step without one.
      try await open(firstKey) { store in
        let sealing = try await store.storage.contactSealing()
        #expect(sealing == .plain)
        // No other process can be at work on an embedded store. It is sealed once only, and not if there is a token.
        let isSealed = try await store.storage.sealIfEmpty()
        #expect(isSealed == (backend == .embedded))
        let (now, again) = (try await store.storage.contactSealing(), try await store.storage.sealIfEmpty())
        #expect(now == (isSealed ? .sealed : .plain) && !again)
      }
    }
    try await backend.withKeys { open in
      try await open(.none) { store in try await store.register(Sample.registration(3)) }
      try await open(firstKey) { store in
        let (isSealed, now) = (try await store.storage.sealIfEmpty(), try await store.storage.contactSealing())
        #expect(!isSealed && now == .plain)
      }
    }
  }

  @Test(arguments: Backend.allCases)
  func `a sealed store answers as before, and goes on`(_ backend: Backend) async throws {
    try await backend.withKeys { open in
      let before = Collected<Directory>()
      try await open(.none) { store in
        try await Directory.fill(store)
        before.add(try await Directory(of: store.storage))
      }
      try await open(firstKey) { store in
        #expect(try await store.storage.contactSealing() == .plain)
        let rows = Collected<ContactSealingProgress>()
        try await store.storage.sealContacts { rows.add($0) }
        let last = try #require(rows.values.last)
        #expect(last.done == last.total && last.total >= 270)
        #expect(try await store.storage.contactSealing() == .sealed)
        #expect(try await Directory(of: store.storage) == before.values.first)
        // Again there is nothing to do.
        try await store.storage.sealContacts { _ in Issue.record("sealed twice") }
      }
      try await open(firstKey) { store in
        var reader = try await DirectoryReader(of: store.storage)
        try await store.register(Sample.registration(3))
        try await store.register(Sample.registration(40))
        try await store.storage.mergeContacts(
          [ListedAccount(token: Sample.contact(100), isInactive: true, supportsSMS: true, voice: true)],
          of: Sample.relay("beta"), pass: 1)
        #expect(try await reader.follow() == 3)
        #expect(try await reader.isCurrent())
        let claimants = try await store.storage.claimants(of: Sample.contact(299))
        #expect(claimants.count == 2)
        let pair = [try Sample.contact(100), try Sample.contact(101)]
        let kept = try await store.storage.keptContacts(among: pair, of: Sample.relay("beta"))
        // One of them by its tombstone, which is sealed as well.
        #expect(kept == Set(pair))
        #expect(try await store.storage.claims(to: pair[0]).first?.unlisted != nil)
      }
    }
  }

  @Test(arguments: Backend.allCases)
  func `without the key, or with another, tokens are neither read nor written`(_ backend: Backend) async throws {
    try await backend.withKeys { open in
      try await open(firstKey) { store in try await Directory.fill(store) }
      for sealer in [SecretSealer.none, secondKey] {
        try await open(sealer) { store in
          #expect(try await store.storage.contactSealing() == .locked)
          let registration = try Sample.registration(50)
          let isRefused = await (
            Self.fails { _ = try await store.storage.directoryFileKey() },
            Self.fails { _ = try await store.storage.entries(for: [registration.token]) },
            Self.fails { _ = try await store.register(registration) }
          )
          #expect(isRefused == (true, true, true))
        }
      }
      try await open(secondKey) { store in
        guard case .locked? = await Self.refusal(store.storage) else {
          Issue.record("sealed under another key")
          return
        }
      }
      try await open(firstKey) { store in
        let count = try await store.storage.accountCount()
        #expect(count == 20)
      }
    }
  }

  @Test(arguments: Backend.allCases)
  func `when the encryption key changes, tokens stay as they lie`(_ backend: Backend) async throws {
    try await backend.withKeys { open in
      let before = Collected<Directory>()
      let keys = Collected<SecretBytes?>()
      try await open(firstKey) { store in
        try await Directory.fill(store)
        before.add(try await Directory(of: store.storage))
        keys.add(try await store.storage.directoryFileKey())
      }
      try await open(changingKey) { store in
        let sealing = try await store.storage.contactSealing()
        #expect(sealing == .sealed)
        _ = try await store.storage.resealSecrets(after: nil, limit: 1)
      }
      try await open(secondKey) { store in
        let (after, key) = (try await Directory(of: store.storage), try await store.storage.directoryFileKey())
        #expect(after == before.values.first && key == keys.values.first)
      }
    }
  }
}

@Suite(.tags(.stores)) struct SQLiteSealingTests {
  /// The bytes of the file, and of the log beside it.
  private static func bytes(_ path: String) throws -> Data {
    var all = try Data(contentsOf: URL(fileURLWithPath: path))
    if FileManager.default.fileExists(atPath: path + "-wal") {
      all += try Data(contentsOf: URL(fileURLWithPath: path + "-wal"))
    }
    return all
  }

  private static func use(
    _ path: String, _ sealer: SecretSealer, _ body: (Store, SQLiteStorage) async throws -> Void
  ) async throws {
    let clock = ManualClock(Sample.noon)
    let storage = try SQLiteStorage(path: path, sealer: sealer, clock: clock.wall)
    try await storage.migrate { _ in }
    try await body(Store(storage: storage, clock: clock), storage)
    await storage.close()
  }

  private static func tokens() throws -> [ContactToken] {
    try (0..<20).map { try Sample.token(Sample.number($0)) } + (100..<300).map { try Sample.contact($0) }
  }

  private static func found(_ tokens: [ContactToken], in data: Data) -> Int {
    // The last nine bytes: a sealed token begins with the first.
    tokens.count { data.range(of: Data($0.bytes.suffix(9))) != nil }
  }

  @Test func `a file has no token in it, sealed from the beginning or later`() async throws {
    let tokens = try Self.tokens()
    try await withTemporaryFolder { folder in
      let path = folder + "/relay.sqlite"
      try await Self.use(path, firstKey) { store, _ in
        try await Directory.fill(store)
        let served = try Self.bytes(path)
        #expect(Self.found(tokens, in: served) == 0)
      }
      let closed = try Self.bytes(path)
      #expect(Self.found(tokens, in: closed) == 0)
    }
    try await withTemporaryFolder { folder in
      let path = folder + "/relay.sqlite"
      try await Self.use(path, .none) { store, _ in try await Directory.fill(store) }
      let plain = try Self.bytes(path)
      #expect(Self.found(tokens, in: plain) == tokens.count)
      try await Self.use(path, firstKey) { _, storage in
        try await storage.sealContacts { _ in }
        let open = try Self.bytes(path)
        #expect(Self.found(tokens, in: open) == 0)
      }
      let closed = try Self.bytes(path)
      #expect(Self.found(tokens, in: closed) == 0)
    }
  }

  @Test func `a process that did not hear of the sealing cannot write a plain token`() async throws {
    try await withTemporaryFolder { folder in
      let path = folder + "/relay.sqlite"
      try await Self.use(path, .none) { stale, _ in
        try await Directory.fill(stale)
        try await Self.use(path, firstKey) { _, storage in try await storage.sealContacts { _ in } }
        let registration = try Sample.registration(60)
        await #expect(throws: StoreError.self) { try await stale.register(registration) }
        await #expect(throws: StoreError.self) { try await stale.storage.accounts(offset: 0, limit: 5) }
      }
      try await Self.use(path, firstKey) { store, _ in
        let count = try await store.storage.accountCount()
        #expect(count == 20)
      }
    }
  }

  @Test func `a new file that was not made to its end is sealed by the next run`() async throws {
    try await withTemporaryFolder { folder in
      let storage = try SQLiteStorage(
        path: folder + "/relay.sqlite", sealer: firstKey, clock: ManualClock(Sample.noon).wall)
      // The last step fails.
      try await storage.write { db in try db.run("CREATE TABLE oblivious_outputs (token BLOB)") }
      await #expect(throws: StoreError.self) { try await storage.migrate { _ in } }
      #expect(try await storage.migrations().allSatisfy { $0.applied == nil })
      try await storage.write { db in try db.run("DROP TABLE oblivious_outputs") }
      try await storage.migrate { _ in }
      #expect(try await storage.contactSealing() == .sealed)
      await storage.close()
    }
  }

  @Test
  func `a sealing that ended before the file was written anew goes on, and no token is read before`() async throws {
    try await withTemporaryFolder { folder in
      let path = folder + "/relay.sqlite"
      try await Self.use(path, .none) { store, _ in try await Directory.fill(store) }
      try await Self.use(path, firstKey) { _, storage in
        try await storage.sealContacts { _ in }
        // As it stood just before its last step.
        try await storage.write { db in try db.store([1], as: TokenState.progressName) }
      }
      try await Self.use(path, firstKey) { store, storage in
        #expect(try await storage.contactSealing() == .underWay)
        let contact = try Sample.contact(100)
        await #expect(throws: StoreError.self) { try await storage.entries(for: [contact]) }
        try await storage.sealContacts { _ in }
        #expect(try await storage.contactSealing() == .sealed)
        let found = try await storage.entries(for: [contact])
        #expect(found.count == 1)
      }
    }
  }
}
