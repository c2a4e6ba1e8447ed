import RelayCore
import Storage
import TestTags
import Testing

// The feed of changes to our own listing.

@Suite(.tags(.stores)) struct ListingContract {
  @Test(arguments: Backend.allCases)
  func `a reader of the listing that follows the feed knows the listing`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      for index in 0..<3 { try await store.register(Sample.registration(index)) }
      var reader = try await ListingReader(of: store.storage)
      try await reader.read()
      #expect(try await reader.isCurrent())
      #expect(try await reader.follow() == 0)

      try await store.register(Sample.registration(3))
      try await store.register(Sample.registration(1, voice: true))
      try await store.register(Sample.registration(2, isReachable: false))
      #expect(try await reader.follow() == 3)
      #expect(try await reader.isCurrent())
      // If an account changes twice, the last change counts.
      let device = try Sample.address(0)
      for isReachable in [false, true] {
        var change = DeviceChange()
        change.fetchesMessages = .set(isReachable)
        #expect(try await store.storage.updateDevice(device, change))
      }
      #expect(try await reader.follow() == 1)
      #expect(try await reader.isCurrent())
    }
  }

  @Test(arguments: Backend.allCases)
  func `a write that changes nothing in the listing is no change of it`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      try await store.registerAccounts(3)
      let cursor = try await store.storage.listingCursor()
      // The same listing with another device, a linked device, keys, another name.
      #expect(try await store.register(Sample.registration(1, registrationID: 70)) == .registered)
      #expect(try await store.storage.replacePreKeys(of: Sample.address(1), with: Sample.upload([1])) == .stored)
      let linked = try await store.linkActive(1)
      var change = DeviceChange()
      change.name = .set("renamed")
      #expect(try await store.storage.updateDevice(Sample.address(2), change))
      #expect(try await store.storage.removeDevice(linked))
      let changes = try #require(try await store.storage.listingChanges(after: cursor, limit: 10))
      #expect(changes.accounts.isEmpty && !changes.isPartial)
      #expect(try await store.storage.listingCursor() == cursor)
    }
  }

  @Test(arguments: Backend.allCases)
  func `pages of the feed hold each change once, in order`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let start = try await store.storage.listingCursor()
      try await store.registerAccounts(23)
      var (cursor, tokens): (ListingCursor, [ContactToken]) = (start, [])
      while true {
        let page = try #require(try await store.storage.listingChanges(after: cursor, limit: 7))
        #expect(page.accounts.count == (page.isPartial ? 7 : 2))
        #expect(page.cursor.revision > cursor.revision)
        tokens += page.accounts.map(\.token)
        cursor = page.cursor
        if !page.isPartial { break }
      }
      #expect(tokens == (try (0..<23).map { try Sample.token(Sample.number($0)) }))
      // The same again, from anywhere.
      let second = try #require(try await store.storage.listingChanges(after: start, limit: 1))
      let rest = try #require(try await store.storage.listingChanges(after: second.cursor, limit: 100))
      #expect(rest.accounts.map(\.token) == Array(tokens[1...]))
    }
  }

  @Test(arguments: Backend.allCases) func `a place of another listing is reported`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      try await store.registerAccounts(2)
      let end = try await store.storage.listingCursor()
      func changes(_ generation: Int64, _ revision: Int64) async throws -> ListingChanges? {
        try await store.storage.listingChanges(
          after: ListingCursor(generation: generation, revision: revision), limit: 10)
      }
      #expect(try await changes(end.generation, end.revision)?.accounts.isEmpty == true)
      #expect(try await changes(end.generation, end.revision)?.cursor == end)
      #expect(try await changes(end.generation, end.revision + 1) == nil)
      #expect(try await changes(end.generation, .max) == nil)
      #expect(try await changes(end.generation + 1, 0) == nil)
      #expect(try await changes(0, 0) == nil)
      #expect(ListingCursor(text: end.text) == end)
    }
  }

  @Test(arguments: Backend.allCases)
  func `keys set aside begin another generation, each time`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      try await store.registerAccounts(2)
      var last = try await store.storage.listingCursor()
      // The epoch may be ahead of the clock, or of nothing at all.
      for epoch in [5, store.now.millis + 1_000_000_000_000, 7, 8] as [Int64] {
        try await store.storage.setAsideOneTimePreKeys(epoch: epoch, by: .process, behind: .zero)
        let next = try await store.storage.listingCursor()
        #expect(next.generation > last.generation && next.generation >= epoch)
        #expect(next.revision == last.revision)
        #expect(try await store.storage.listingChanges(after: last, limit: 10) == nil)
        last = next
      }
      var reader = try await ListingReader(of: store.storage)
      try await reader.read()
      try await store.register(Sample.registration(7))
      #expect(try await reader.follow() == 1)
      #expect(try await reader.isCurrent())
    }
  }

  @Test(arguments: Backend.allCases)
  func `a peer that asks learns which tokens are active accounts of ours`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      try await store.register(Sample.registration(1, supportsSMS: true, voice: false))
      try await store.register(Sample.registration(2, isReachable: false))
      #expect(try await store.storage.savePeer(Sample.peer("beta")))
      let tokens = try (1...3).map { try Sample.token(Sample.number($0)) }
      let listed = ListedAccount(token: tokens[2], isInactive: false, supportsSMS: true, voice: true)
      try await store.storage.mergeContacts([listed], of: Sample.relay("beta"), pass: 1)
      let expected = ListedAccount(token: tokens[0], isInactive: false, supportsSMS: true, voice: false)
      #expect(try await store.storage.localEntries(for: tokens + tokens) == [expected])
      #expect(try await store.storage.localEntries(for: []).isEmpty)
    }
  }

  @Test(arguments: Backend.allCases)
  func `a reader that follows while many register misses nobody`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      try await followWhileManyWrite(to: [store.storage], accounts: 60, limit: 5)
    }
  }
}

/// A reader as a peer is one: it reads the whole listing, and then follows its changes.
struct ListingReader {
  private let storage: any Storage
  private(set) var cursor: ListingCursor
  private(set) var known: [ContactToken: ListedAccount] = [:]

  init(of storage: any Storage) async throws {
    self.storage = storage
    cursor = try await storage.listingCursor()
  }

  mutating func read() async throws {
    var offset = 0
    while case let page = try await storage.accounts(offset: offset, limit: 10), !page.isEmpty {
      for account in page { known[account.token] = account }
      offset += page.count
    }
  }

  /// - Returns: how many changes there were.
  mutating func follow(limit: Int = 10) async throws -> Int {
    var count = 0
    while true {
      let changes = try #require(try await storage.listingChanges(after: cursor, limit: limit))
      for account in changes.accounts { known[account.token] = account }
      count += changes.accounts.count
      cursor = changes.cursor
      guard changes.isPartial else { return count }
    }
  }

  func isCurrent() async throws -> Bool {
    var reader = try await ListingReader(of: storage)
    try await reader.read()
    return known == reader.known
  }
}

/// Registers accounts on all of `processes` at once, and changes their devices, while a reader follows that never looks
/// back. Fails when the reader misses one.
func followWhileManyWrite(to processes: [any Storage], accounts: Int, limit: Int) async throws {
  let stores = processes.map { Store(storage: $0, clock: ManualClock(Sample.noon)) }
  var reader = try await ListingReader(of: processes[0])
  // Accounts of before, whose devices change beside the registrations.
  for index in 0..<writers { try await stores[0].register(Sample.registration(1000 + index)) }
  let written = Counter()
  try await withThrowingTaskGroup(of: Void.self) { group in
    for writer in 0..<writers {
      group.addTask { try await write(accounts, as: writer, to: stores[writer % stores.count], done: written) }
    }
    while written.value < writers { _ = try await reader.follow(limit: limit) }
    try await group.waitForAll()
  }
  _ = try await reader.follow(limit: limit)
  #expect(reader.known.count == accounts + writers)
  #expect(try await reader.isCurrent())
}

private let writers = 8

/// Every `writers`th of the accounts, each with changes of its device and of another's.
private func write(_ accounts: Int, as writer: Int, to store: Store, done: Counter) async throws {
  defer { done.add() }
  for index in stride(from: writer, to: accounts, by: writers) {
    #expect(try await store.register(Sample.registration(index)) == .registered)
    var change = DeviceChange()
    change.voice = .set(index.isMultiple(of: 2))
    change.fetchesMessages = .set(index.isMultiple(of: 3))
    for device in try [Sample.address(index), Sample.address(1000 + (writer + index) % writers)] {
      #expect(try await store.storage.updateDevice(device, change))
    }
    #expect(try await store.register(Sample.registration(1000 + writer)) == .registered)
  }
}
