import RelayCore
import Storage
import Synchronization
import TestTags
import Testing

// The stores' view of the directory as a whole, by ranges, and of accounts that do not want to be found.

@Suite(.tags(.stores)) struct DirectoryRangeContract {
  @Test(arguments: Backend.allCases)
  func `a range's digest is that of its entries, wherever their tokens begin`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      try await store.registerAccounts(40)
      try await store.register(Sample.registration(3, isReachable: false))
      for name in ["beta", "gamma"] { #expect(try await store.storage.savePeer(Sample.peer(name))) }
      var page: [ListedAccount] = []
      for firstByte: UInt64 in [0, 1, 0x7F, 0x80, 0xFE, 0xFF] {
        for (rest, flag) in [(0, true), (UInt64.max >> 8, false)] {
          for low in [UInt16.min, .max] {
            let token = ContactToken(high: firstByte << 56 | rest, low: low)
            page.append(ListedAccount(token: token, isInactive: false, supportsSMS: flag, voice: low == 0))
          }
        }
      }
      try await store.storage.mergeContacts(page, of: Sample.relay("beta"), pass: 1)
      try await store.storage.mergeContacts(page.suffix(9), of: Sample.relay("gamma"), pass: 1)
      let reader = try await DirectoryReader(of: store.storage)
      #expect(reader.entries.count == 39 + page.count)
      #expect(try await reader.isCurrent())
      var checksums: Set<UInt64> = []
      for range in DirectoryRange.all {
        let digest = try await store.storage.directoryDigest(of: range)
        #expect(digest == reader.digest(of: range))
        checksums.insert(digest.checksum)
      }
      // Empty ranges are all alike, and no other two.
      #expect(checksums.count > 20)
    }
  }

  @Test(arguments: Backend.allCases)
  func `each of 100,000 entries is read once, and doubly listed ones are told`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      try await store.registerAccounts(20)
      for name in ["beta", "gamma", "away"] { #expect(try await store.storage.savePeer(Sample.peer(name))) }
      let listed = (0..<100_000).map { index in
        let value = UInt64(index) &* 0x9E37_79B9_7F4A_7C15
        return ListedAccount(
          token: ContactToken(high: value, low: UInt16(index & 0xFFFF)), isInactive: false,
          supportsSMS: index.isMultiple(of: 2), voice: index.isMultiple(of: 3))
      }
      for some in stride(from: 0, to: 90_000, by: 10_000) {
        try await store.storage.mergeContacts(Array(listed[some..<some + 10_000]), of: Sample.relay("beta"), pass: 1)
      }
      try await store.storage.mergeContacts(Array(listed[89_000..<99_000]), of: Sample.relay("gamma"), pass: 1)
      try await store.storage.mergeContacts(Array(listed[99_000...]), of: Sample.relay("away"), pass: 1)
      #expect(try await store.storage.setPeerState(.suspended, of: Sample.relay("away")))

      let read = Mutex<[ContactToken: Set<String>]>([:])
      let largest = Mutex(0)
      let place = try await store.storage.readDirectory { entries in
        largest.withLock { $0 = max($0, entries.count) }
        read.withLock { known in
          for entry in entries {
            let flags = (entry.supportsSMS ? "s" : "-") + (entry.voice ? "v" : "-")
            known[entry.token, default: []].insert("\(entry.relay?.text ?? "") \(flags)")
          }
        }
      }
      #expect(try await store.storage.directoryPlace().generation == place.generation)
      #expect((1...10_000).contains(largest.withLock { $0 }))
      let found = read.withLock { $0 }
      #expect(found.count == 99_020)
      var wrong = 0
      for (index, contact) in listed.enumerated() {
        let flags = (contact.supportsSMS ? "s" : "-") + (contact.voice ? "v" : "-")
        let (beta, gamma) = ("beta \(flags)", "gamma \(flags)")
        let expected: [Set<String>] =
          switch index {
          case ..<89_000: [[beta]]
          // The store may know already which one it is.
          case ..<90_000: [[beta], [beta, gamma]]
          case ..<99_000: [[gamma]]
          default: [[]]
          }
        if !expected.contains(found[contact.token, default: []]) { wrong += 1 }
      }
      #expect(wrong == 0)
    }
  }

  @Test(arguments: Backend.allCases)
  func `the directory is read by first bytes, each entry in one of the runs`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      try await store.registerAccounts(20)
      #expect(try await store.storage.savePeer(Sample.peer("beta")))
      // Two of each first byte.
      let listed = (0..<512).map { index in
        ListedAccount(
          token: ContactToken(high: UInt64(index / 2) << 56 | UInt64(index), low: 0), isInactive: false,
          supportsSMS: false, voice: false)
      }
      try await store.storage.mergeContacts(listed, of: Sample.relay("beta"), pass: 1)
      func read(_ firstBytes: ClosedRange<UInt8>) async throws -> [ContactToken] {
        let read = Mutex<[ContactToken]>([])
        _ = try await store.storage.readDirectory(firstBytes) { entries in
          read.withLock { $0 += entries.map(\.token) }
        }
        return read.withLock { $0 }
      }
      let whole = try await read(.min ... .max)
      #expect(whole.count == 532 && Set(whole).count == 532)
      var together: [ContactToken] = []
      for firstBytes in [0...0, 1...9, 10...127, 128...254, 255...255] as [ClosedRange<UInt8>] {
        let part = try await read(firstBytes)
        #expect(part.allSatisfy { firstBytes.contains(UInt8($0.high >> 56)) })
        #expect(part.count >= 2 * firstBytes.count)
        together += part
      }
      #expect(together.count == 532 && Set(together) == Set(whole))
    }
  }

  @Test(arguments: Backend.allCases)
  func `a peer's contacts are read page by page, each once`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      for name in ["beta", "gamma"] { #expect(try await store.storage.savePeer(Sample.peer(name))) }
      let tokens = try (0..<23).map { try Sample.token($0) }
      let page = tokens.map { ListedAccount(token: $0, isInactive: false, supportsSMS: true, voice: true) }
      try await store.storage.mergeContacts(page.reversed(), of: Sample.relay("beta"), pass: 1)
      var (read, last): ([ContactToken], ContactToken?) = ([], nil)
      while case let page = try await store.storage.contactTokens(of: Sample.relay("beta"), after: last, limit: 7),
        !page.isEmpty
      {
        #expect(page.count <= 7)
        read += page
        last = page.last
      }
      #expect(read.count == tokens.count && Set(read) == Set(tokens))
      #expect(try await store.storage.contactTokens(of: Sample.relay("gamma"), after: nil, limit: 7).isEmpty)
      #expect(try await store.storage.contactTokens(of: Sample.relay("nobody"), after: nil, limit: 7).isEmpty)
    }
  }

  @Test(arguments: Backend.allCases)
  func `accounts are found by the tokens of their numbers, active or not`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let numbers = try await store.registerAccounts(3)
      try await store.register(Sample.registration(1, isReachable: false))
      let tokens = try (0..<5).map { try Sample.token(Sample.number($0)) }
      #expect(Set(try await store.storage.accounts(holding: tokens + tokens)) == Set(numbers))
      #expect(try await store.storage.accounts(holding: [tokens[1]]) == [numbers[1]])
      #expect(try await store.storage.accounts(holding: [tokens[4]]).isEmpty)
      #expect(try await store.storage.accounts(holding: []).isEmpty)
    }
  }
}

@Suite(.tags(.stores)) struct DiscoverabilityContract {
  /// The sight of account 1: by a look-up, by a peer that asks, in the listing, and in its feed.
  private struct Sight: Equatable {
    let isEntry: Bool
    let isLocalEntry: Bool
    let isListed: Bool

    static let found = Sight(isEntry: true, isLocalEntry: true, isListed: true)
    static let hidden = Sight(isEntry: false, isLocalEntry: false, isListed: false)

    init(isEntry: Bool, isLocalEntry: Bool, isListed: Bool) {
      (self.isEntry, self.isLocalEntry, self.isListed) = (isEntry, isLocalEntry, isListed)
    }

    init(in storage: any Storage) async throws {
      let token = try Sample.token(Sample.number(1))
      let listing = try await storage.accounts(offset: 0, limit: 10)
      #expect(listing.count <= 1)
      isEntry = try await !storage.entries(for: [token]).isEmpty
      isLocalEntry = try await !storage.localEntries(for: [token]).isEmpty
      isListed = listing.contains { $0.token == token && !$0.isInactive }
    }
  }

  private static func set(_ isDiscoverable: Bool, in store: Store) async throws {
    var change = DeviceChange()
    change.isDiscoverable = .set(isDiscoverable)
    #expect(try await store.storage.updateDevice(Sample.address(1), change))
  }

  private static func hidden(_ isDiscoverable: Bool?) throws -> Registration {
    let sample = try Sample.registration(1)
    return Registration(
      number: sample.number, token: sample.token, device: sample.device, supportsSMS: true, voice: false,
      isDiscoverable: isDiscoverable)
  }

  @Test(arguments: Backend.allCases)
  func `an account that does not want to be found is in no listing and no feed`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      try await store.register(Sample.registration(1))
      #expect(try await Sight(in: store.storage) == .found)
      var peer = try await ListingReader(of: store.storage)
      try await peer.read()
      var revision = try await store.storage.accountsRevision()
      for isDiscoverable in [false, true, false] {
        try await Self.set(isDiscoverable, in: store)
        #expect(try await Sight(in: store.storage) == (isDiscoverable ? .found : .hidden))
        #expect(try await peer.follow() == 1)
        #expect(try await peer.isCurrent())
        let next = try await store.storage.accountsRevision()
        #expect(next > revision)
        revision = next
        // The same again is no change.
        try await Self.set(isDiscoverable, in: store)
        #expect(try await peer.follow() == 0)
        #expect(try await store.storage.accountsRevision() == revision)
      }
      // It is an account all the same.
      #expect(try await store.storage.accountCount() == 1)
      #expect(try await store.storage.account(Sample.number(1))?.isActive(at: store.now) == true)
    }
  }

  @Test(arguments: Backend.allCases) func `a registration leaves it, or says it`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      var reader = try await DirectoryReader(of: store.storage)
      // Hidden from the beginning: no look-up ever shows it.
      #expect(try await store.register(Self.hidden(false)) == .registered)
      #expect(try await Sight(in: store.storage) == .hidden)
      // The entry that it covers changes with it: a peer's claim, if there was one.
      #expect(try await reader.follow() == 1)
      #expect(try await store.storage.accounts(offset: 0, limit: 10).isEmpty)
      #expect(try await store.register(Self.hidden(nil)) == .registered)
      #expect(try await Sight(in: store.storage) == .hidden)
      var peer = try await ListingReader(of: store.storage)
      try await peer.read()
      #expect(try await store.register(Self.hidden(true)) == .registered)
      #expect(try await Sight(in: store.storage) == .found)
      #expect(try await peer.follow() == 1)
      #expect(try await store.register(Self.hidden(nil)) == .registered)
      #expect(try await Sight(in: store.storage) == .found)
      #expect(try await store.register(Self.hidden(false)) == .registered)
      #expect(try await Sight(in: store.storage) == .hidden)
      #expect(try await peer.follow() == 1)
      #expect(try await peer.isCurrent())
      #expect(try await reader.follow() == 2)
      #expect(reader.entries.isEmpty)
    }
  }
}
