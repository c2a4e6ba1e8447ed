import RelayCore
import Storage
import TestSupport
import TestTags
import Testing

@testable import Federation

/// Contacts of a peer, read whole into the embedded store.
@Suite(.tags(.stores)) struct SyncTests {
  @Test func `tokens of a peer appear and vanish`() async throws {
    let listing = ListedAccounts(try tokens(25_000))
    try await withPeers(listing: listing) { _, beta in
      #expect(try await pull(beta) == PullReport(isWhole: true, entries: 25_000))
      #expect(try await known(25_000, at: beta) == 25_000)
      let entry = try #require(try await beta.storage.entries(for: [tokens(1)[0].token]).first)
      #expect(entry.relay == (try name("alpha")))
      // 5,000 vanish from the list, 100 become inactive, 50 are new.
      let kept = try tokens(20_000, from: 5000, inactive: Set(5000..<5100))
      listing.replace(with: kept + (try tokens(50, from: 25_000)))
      #expect(try await pull(beta)?.isWhole == true)
      #expect(try await known(25_050, at: beta) == 19_950)
      #expect(try await beta.storage.entries(for: [tokens(1)[0].token]).isEmpty)
    }
  }

  @Test func `an unchanged listing is not read again`() async throws {
    let listing = ListedAccounts(try tokens(3))
    try await withPeers(listing: listing) { _, beta in
      try await beta.withSync {
        try await eventually("a pass is complete") { try await beta.storage.contactsPass(of: name("alpha")).pass == 1 }
      }
      #expect(try await known(3, at: beta) == 3)
      #expect(try await pull(beta) == nil)
      #expect(try await beta.storage.contactsPass(of: name("alpha")).pass == 1)
      listing.replace(with: try tokens(4))
      #expect(try await pull(beta)?.entries == 4)
    }
  }

  @Test func `a peer that lists too much is not followed past the bound`() async throws {
    let listing = ListedAccounts(try tokens(25_000))
    try await withPeers(listing: listing) { _, beta in
      let report = try await pull(beta, contactsMax: 15_000)
      // A tenth of the first page comes again with the second.
      #expect(report == PullReport(isWhole: true, entries: 19_000, refused: 4000))
      #expect(try await known(25_000, at: beta) == 15_000)
      #expect(try await beta.storage.contactsPass(of: name("alpha")).pass == 1)
    }
  }

  @Test func `a listing is read whole again after a day`() async throws {
    try await withPeers(listing: ListedAccounts(try tokens(3))) { _, beta in
      let first = try await pull(beta)
      #expect(first?.isWhole == true)
      let hours = { (count: Int64) in
        WallClock { Timestamp(millis: TestRelay.systemClock.now().millis + count * 3_600_000) }
      }
      #expect(try await pull(beta, clock: hours(22)) == nil)
      #expect(try await pull(beta, clock: hours(24))?.isWhole == true)
    }
  }

  @Test func `refused contacts are taken up within the hour, if there is room`() async throws {
    try await withPeers(listing: ListedAccounts(try tokens(3))) { _, beta in
      let first = try await pull(beta, contactsMax: 2)
      let knownFirst = try await known(3, at: beta)
      #expect(first?.refused == 1 && knownFirst == 2)
      let inAnHour = WallClock { Timestamp(millis: TestRelay.systemClock.now().millis + 3_600_000) }
      let second = try await pull(beta, clock: inAnHour)
      let knownThen = try await known(3, at: beta)
      #expect(second?.entries == 3 && knownThen == 3)
      let third = try await pull(beta, clock: inAnHour)
      #expect(third == nil)
    }
  }

  @Test func `a peer that is away is logged once, and tried again`() async throws {
    try await withRelay("beta") { beta in
      try await save(TestAuthority("gone"), as: "gone", at: beta)
      try await beta.withSync {
        try await eventually("the log says so") { beta.log.contains("directory of peer cannot be read") }
        try await Task.sleep(for: .milliseconds(300))
        #expect(beta.log.all.filter { $0.contains("directory of peer cannot be read") }.count == 1)
      }
    }
  }

  /// One round of a process that has just begun.
  private func pull(
    _ beta: TestRelay, contactsMax: Int = 100_000, clock: WallClock = TestRelay.systemClock
  ) async throws -> PullReport? {
    let peer = try #require(await beta.registry.peer(named: name("alpha")))
    let puller = DirectoryPuller(
      reader: ListingReader(transport: beta.transport), directory: beta.storage, clock: clock)
    var progress = PullProgress(contactsMax: contactsMax)
    return try await puller.pull(from: peer, &progress) { () async throws(SyncFailure) in }
  }

  /// How many of the first `count` tokens the store knows.
  private func known(_ count: Int, at relay: TestRelay) async throws -> Int {
    try await relay.storage.entries(for: tokens(count).map(\.token)).count
  }
}
