// Listings of real accounts for peers to read, and what is asked of them.

import Crypto
import Federation
import Foundation
import RelayCore
import Storage
import Synchronization
import TestSupport
import Testing

/// A relay's accounts in an embedded store; counts what peers ask, and says by signals what changes.
final class RecordedListing: DirectoryStore {
  struct Asked: Sendable, Equatable {
    /// Pages of `user_tokens`.
    var pages = 0
    var changes = 0
    /// The tokens of each look-up, in the order of arrival.
    var lookUps: [Int] = []
  }
  let storage: SQLiteStorage
  private let state = Mutex((asked: Asked(), isHolding: false))
  private let signals = Mutex<(any SignalBus)?>(nil)

  init(_ storage: SQLiteStorage) { self.storage = storage }

  var asked: Asked { state.withLock { $0.asked } }
  /// From now on the processes that hear `signals` know of each change.
  func tell(by signals: any SignalBus) { self.signals.withLock { $0 = signals } }
  private func changed(_ index: Int) async {
    await signals.withLock { $0 }?.publish(.accountChanged(Self.number(index)))
  }
  /// While it holds, look-ups are not answered.
  func hold(_ holds: Bool) { state.withLock { $0.isHolding = holds } }

  /// The number of account `index`, 0 to 999.
  static func number(_ index: Int) -> AccountNumber { AccountNumber(e164: "+1415556\(1000 + index)")! }

  static func token(_ index: Int) throws -> ContactToken {
    let digest = Insecure.SHA1.hash(data: Data(number(index).e164.utf8))
    return try #require(ContactToken(bytes: Array(digest.prefix(10))))
  }

  static func tokens(_ indices: Range<Int>) throws -> [ContactToken] { try indices.map { try token($0) } }

  func register(_ indices: Range<Int>) async throws {
    let now = TestRelay.systemClock.now()
    for index in indices {
      let number = Self.number(index)
      let device = Device(
        id: .master, password: PasswordHash(salt: [1], hash: [2]), signalingKey: Secret("key"), registrationID: 7,
        fetchesMessages: true, lastSeen: now.startOfDay, created: now)
      let registration = Registration(
        number: number, token: try Self.token(index), device: device, supportsSMS: false, voice: true)
      #expect(try await storage.register(registration, proof: .trusted, now: now) == .registered)
      await changed(index)
    }
  }

  /// The account cannot be reached any more.
  func deactivate(_ index: Int) async throws {
    var change = DeviceChange()
    change.fetchesMessages = .set(false)
    #expect(try await storage.updateDevice(DeviceAddress(Self.number(index), .master), change))
    await changed(index)
  }

  func setVoice(_ voice: Bool, of index: Int) async throws {
    var change = DeviceChange()
    change.voice = .set(voice)
    #expect(try await storage.updateDevice(DeviceAddress(Self.number(index), .master), change))
    await changed(index)
  }

  func accounts(offset: Int, limit: Int) async throws(StoreError) -> [ListedAccount] {
    state.withLock { $0.asked.pages += 1 }
    return try await storage.accounts(offset: offset, limit: limit)
  }

  func listingChanges(after cursor: ListingCursor, limit: Int) async throws(StoreError) -> ListingChanges? {
    state.withLock { $0.asked.changes += 1 }
    return try await storage.listingChanges(after: cursor, limit: limit)
  }

  func localEntries(for tokens: [ContactToken]) async throws(StoreError) -> [ListedAccount] {
    state.withLock { $0.asked.lookUps.append(tokens.count) }
    while state.withLock({ $0.isHolding }), !Task.isCancelled {
      try? await Task.sleep(for: .milliseconds(5))  // Throws when cancelled, which the condition sees.
    }
    return try await storage.localEntries(for: tokens)
  }

  func entries(for tokens: [ContactToken]) async throws(StoreError) -> [DirectoryEntry] {
    try await storage.entries(for: tokens)
  }
  func accountCount() async throws(StoreError) -> Int { try await storage.accountCount() }
  func accountsRevision() async throws(StoreError) -> Int64 { try await storage.accountsRevision() }
  func listingCursor() async throws(StoreError) -> ListingCursor { try await storage.listingCursor() }
  func beginContacts(of peer: RelayName) async throws(StoreError) -> Int64? { nil }
  func mergeContacts(_ page: [ListedAccount], of peer: RelayName, pass: Int64) async throws(StoreError) {}
  func finishContacts(of peer: RelayName, pass: Int64, mark: String?) async throws(StoreError) {}
  func contactsPass(of peer: RelayName) async throws(StoreError) -> (pass: Int64, mark: String?) { (0, nil) }
  func applyContactChanges(_ changes: [ListedAccount], of peer: RelayName, mark: String) async throws(StoreError) {}
  func keptContacts(among tokens: [ContactToken], of peer: RelayName) async throws(StoreError) -> Set<ContactToken> {
    []
  }
  func contactCounts(of peer: RelayName) async throws(StoreError) -> ContactCounts { .none }
  func dropContacts(of peer: RelayName, keepingClaims: Bool) async throws(StoreError) {}
  func recountContacts(of peer: RelayName) async throws(StoreError) {}
  func claimants(of token: ContactToken) async throws(StoreError) -> [RelayName] { [] }
}

/// Runs `alpha`, which lists accounts 0..<`count`, and its peer `beta`.
/// - Parameter recheck: how late alpha sees a change whose signal was lost.
func withListing(
  _ count: Int, recheck: Duration = .seconds(2),
  _ body: @Sendable (_ listing: RecordedListing, _ beta: TestRelay) async throws -> Void
) async throws {
  try await withTemporaryFolder { path in
    let storage = try SQLiteStorage(path: path + "/listing.sqlite", clock: TestRelay.systemClock)
    try await storage.migrate { _ in }
    let listing = RecordedListing(storage)
    try await listing.register(0..<count)
    try await withPeers(listing: listing, listingRecheck: recheck) { alpha, beta in
      listing.tell(by: alpha.coordination)
      try await body(listing, beta)
    }
    await storage.close()
  }
}

extension TestRelay {
  func sync(
    holder: Int64 = 1, contactsMax: Int = 1000, interval: Duration = .milliseconds(50), wait: Duration = .seconds(1)
  ) -> DirectorySync {
    DirectorySync(
      registry: registry, transport: transport, directory: storage, signals: coordination, clock: clock,
      interval: interval, wait: wait, contactsMax: contactsMax, holder: holder, logger: log.logger)
  }

  /// Runs one process's sync, or one a holder, for the time of `body`.
  func withSync(
    holders: [Int64] = [1], contactsMax: Int = 1000, interval: Duration = .milliseconds(50),
    wait: Duration = .seconds(1), _ body: () async throws -> Void
  ) async throws {
    let running = holders.map { holder in
      let sync = sync(holder: holder, contactsMax: contactsMax, interval: interval, wait: wait)
      return Task { try await sync.run() }
    }
    defer { for task in running { task.cancel() } }
    try await body()
    for task in running {
      task.cancel()
      try await task.value
    }
  }

  /// Which of `tokens` are known here.
  func known(_ tokens: [ContactToken]) async throws -> Set<ContactToken> {
    Set(try await storage.entries(for: tokens).map(\.token))
  }

  /// Changes what this relay does with the contacts of `peer`, as `relay peer set` does.
  func setContacts(_ contacts: PeerPolicy.Contacts, of peer: String) async throws {
    let name = try #require(RelayName(peer))
    #expect(try await storage.changePeerPolicy(PeerPolicyChange(contacts: contacts), of: name))
    await coordination.publish(.peersChanged)
    await registry.refresh()
  }
}
