import RelayCore
import Storage
import TestSupport
import Testing

@testable import Federation

/// Contacts of a peer, kept current in the embedded store.
@Suite struct SyncTests {
  @Test func tokensOfAPeerAppearAndVanish() async throws {
    let listing = ListedAccounts(try tokens(25_000))
    try await withPeers(listing: listing) { _, beta in
      try await withSync(beta) {
        try await eventually("all 25,000 are known") { try await known(25_000, at: beta) == 25_000 }
        let entry = try #require(try await beta.storage.entries(for: [tokens(1)[0].token]).first)
        #expect(entry.relay == (try name("alpha")))
        // 5,000 vanish from the list, 100 become inactive, 50 are new.
        let kept = try tokens(20_000, from: 5000, inactive: Set(5000..<5100))
        listing.replace(with: kept + (try tokens(50, from: 25_000)))
        try await eventually("only what is listed is known") { try await known(25_050, at: beta) == 19_950 }
        #expect(try await beta.storage.entries(for: [tokens(1)[0].token]).isEmpty)
      }
    }
  }

  @Test func anUnchangedListingIsNotReadAgain() async throws {
    let listing = ListedAccounts(try tokens(3))
    try await withPeers(listing: listing) { _, beta in
      try await withSync(beta) {
        try await eventually("a pass is complete") { try await beta.storage.contactsPass(of: name("alpha")).pass == 1 }
      }
      #expect(try await known(3, at: beta) == 3)
      let peer = try #require(await beta.registry.peer(named: name("alpha")))
      let puller = DirectoryPuller(transport: beta.transport, directory: beta.storage, contactsMax: 100)
      #expect(try await puller.pull(from: peer) == nil)
      #expect(try await beta.storage.contactsPass(of: name("alpha")).pass == 1)
      listing.replace(with: try tokens(4))
      #expect(try await puller.pull(from: peer) == 4)
    }
  }

  @Test func aPeerThatListsTooMuchIsNotFollowedPastTheBound() async throws {
    let listing = ListedAccounts(try tokens(25_000))
    try await withPeers(listing: listing) { _, beta in
      let peer = try #require(await beta.registry.peer(named: name("alpha")))
      let puller = DirectoryPuller(transport: beta.transport, directory: beta.storage, contactsMax: 15_000)
      await #expect(throws: DirectoryPuller.Failure.self) { try await puller.pull(from: peer) }
      #expect(try await known(25_000, at: beta) == 20_000)
      #expect(try await beta.storage.contactsPass(of: name("alpha")).pass == 0)
    }
  }

  @Test func aPeerThatIsAwayIsLoggedOnceAndTriedAgain() async throws {
    try await withRelay("beta") { beta in
      try await save(TestAuthority("gone"), as: "gone", at: beta)
      try await withSync(beta) {
        try await eventually("the log says so") { beta.log.contains("directory of peer cannot be read") }
        try await Task.sleep(for: .milliseconds(300))
        #expect(beta.log.all.filter { $0.contains("directory of peer cannot be read") }.count == 1)
      }
    }
  }

  private func withSync(_ relay: TestRelay, _ body: () async throws -> Void) async throws {
    let sync = DirectorySync(
      registry: relay.registry, transport: relay.transport, directory: relay.storage, interval: .milliseconds(50),
      logger: relay.log.logger)
    let running = Task { try await sync.run() }
    defer { running.cancel() }
    try await body()
    running.cancel()
    try await running.value
  }

  /// How many of the first `count` tokens the store knows.
  private func known(_ count: Int, at relay: TestRelay) async throws -> Int {
    try await relay.storage.entries(for: tokens(count).map(\.token)).count
  }
}
