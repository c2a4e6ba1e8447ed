import RelayCore
import Storage
import TestTags
import Testing

@Suite(.tags(.stores)) struct DirectoryContract {
  @Test(arguments: Backend.allCases)
  func `active accounts are listed with their flags, unknown and inactive ones are not`(_ backend: Backend) async throws
  {
    try await backend.withStore { store in
      try await store.register(Sample.registration(1, supportsSMS: true, voice: false))
      try await store.register(Sample.registration(2, supportsSMS: false, voice: true))
      try await store.register(Sample.registration(3, isReachable: false))
      let tokens = try (1...4).map { try Sample.token(Sample.number($0)) }
      let entries = try await store.storage.entries(for: tokens + tokens)
      #expect(entries.count == 2)
      #expect(entries.contains(DirectoryEntry(token: tokens[0], relay: nil, supportsSMS: true, voice: false)))
      #expect(entries.contains(DirectoryEntry(token: tokens[1], relay: nil, supportsSMS: false, voice: true)))
      #expect(try await store.storage.entries(for: []).isEmpty)
      #expect(try await store.storage.accountCount() == 2)

      // An account that becomes inactive is unlisted.
      try await store.register(Sample.registration(1, isReachable: false))
      #expect(try await store.storage.entries(for: [tokens[0]]).isEmpty)
      #expect(try await store.storage.accountCount() == 2)
    }
  }

  @Test(arguments: Backend.allCases)
  func `ours come before any peer's, then the active peer that listed the number first`(_ backend: Backend) async throws
  {
    try await backend.withStore { store in
      for name in ["gamma", "beta"] { #expect(try await store.storage.savePeer(Sample.peer(name))) }
      let (alpha, beta, gamma) = try (Sample.number(1), Sample.relay("beta"), Sample.relay("gamma"))
      let token = try Sample.token(alpha)
      func owner() async throws -> DirectoryEntry? {
        let entries = try await store.storage.entries(for: [token])
        #expect(entries.count <= 1)
        return entries.first
      }
      let first = DirectoryEntry(token: token, relay: gamma, supportsSMS: false, voice: true)
      try await store.merge([.init(token: token, isInactive: false, supportsSMS: false, voice: true)], of: gamma)
      #expect(try await owner() == first)
      // Another moment, by PostgreSQL's clock too.
      store.clock.advance(.seconds(1))
      try await Task.sleep(for: .milliseconds(20))
      try await store.merge([.init(token: token, isInactive: false, supportsSMS: true, voice: false)], of: beta)
      #expect(try await owner() == first)

      #expect(try await store.storage.setPeerState(.suspended, of: gamma))
      #expect(try await owner() == DirectoryEntry(token: token, relay: beta, supportsSMS: true, voice: false))
      #expect(try await store.storage.setPeerState(.active, of: gamma))
      #expect(try await owner()?.relay == gamma)

      // A number that an active peer lists cannot become an account of ours: it was one before.
      #expect(try await store.storage.setPeerState(.suspended, of: beta))
      #expect(try await store.storage.setPeerState(.suspended, of: gamma))
      #expect(try await store.register(Sample.registration(1)) == .registered)
      #expect(try await store.storage.setPeerState(.active, of: beta))
      #expect(try await store.storage.setPeerState(.active, of: gamma))
      let own = try #require(try await owner())
      #expect(own.relay == nil)
      // An inactive account is unknown, and no peer's.
      try await store.register(Sample.registration(1, isReachable: false))
      #expect(try await owner() == nil)
    }
  }

  /// Reference 1.13.5.
  @Test(arguments: Backend.allCases)
  func `a peer's listing changes entries as the vectors say`(_ backend: Backend) async throws {
    let vectors = try Vectors.load().directorySync
    try #require(vectors.count == 8)
    try await backend.withStore { store in
      // "another peer" listed the token first: here the one whose name sorts first counts.
      let (another, peer) = try (Sample.relay("another"), Sample.relay("peer"))
      for name in ["another", "peer"] { #expect(try await store.storage.savePeer(Sample.peer(name))) }
      for (index, vector) in vectors.enumerated() {
        let number = try Sample.number(index)
        let token = try Sample.token(number)
        let listed = ListedAccount(token: token, isInactive: false, supportsSMS: false, voice: false)
        switch vector.existingEntry {
        case "none": break
        case "present, no relay": try await store.register(Sample.registration(index))
        case "present, relay is this peer": try await store.merge([listed], of: peer)
        case "present, relay is another peer": try await store.merge([listed], of: another)
        default: Issue.record("unknown case \(vector.existingEntry)")
        }
        let before = try await store.storage.entries(for: [token])
        let news = ListedAccount(
          token: token, isInactive: vector.remoteInactive, supportsSMS: true, voice: true)
        try await store.merge([news], of: peer)
        let after = try await store.storage.entries(for: [token])
        switch vector.action {
        case "add": #expect(after == [DirectoryEntry(token: token, relay: peer, supportsSMS: true, voice: true)])
        case "remove": #expect(after.isEmpty)
        default: #expect(after == before)
        }
      }
    }
  }

  @Test(arguments: Backend.allCases)
  func `a complete pass removes what it did not see, of its peer alone`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let (beta, gamma) = try (Sample.relay("beta"), Sample.relay("gamma"))
      for name in ["beta", "gamma"] { #expect(try await store.storage.savePeer(Sample.peer(name))) }
      let tokens = try (0..<4).map { try Sample.token($0) }
      let page = tokens.map { ListedAccount(token: $0, isInactive: false, supportsSMS: true, voice: false) }
      let start = try await store.storage.contactsPass(of: beta)
      #expect(start.pass == 0 && start.mark == nil)

      try await store.storage.mergeContacts(Array(page[0..<2]), of: beta, pass: 1)
      try await store.storage.mergeContacts(Array(page[2..<3]), of: beta, pass: 1)
      try await store.storage.mergeContacts(Array(page[3...]), of: gamma, pass: 1)
      try await store.storage.finishContacts(of: beta, pass: 1, mark: "mark 1")
      let first = try await store.storage.contactsPass(of: beta)
      #expect(first.pass == 1 && first.mark == "mark 1")
      #expect(try await store.storage.entries(for: tokens).count == 4)

      // An incomplete pass removes nothing.
      try await store.storage.mergeContacts([page[0]], of: beta, pass: 2)
      #expect(try await store.storage.entries(for: tokens).count == 4)
      #expect(try await store.storage.contactsPass(of: beta).pass == 1)

      try await store.storage.mergeContacts([page[2]], of: beta, pass: 3)
      try await store.storage.finishContacts(of: beta, pass: 3, mark: nil)
      let left = try await store.storage.entries(for: tokens)
      #expect(Set(left.map(\.token)) == [tokens[2], tokens[3]])
      let last = try await store.storage.contactsPass(of: beta)
      #expect(last.pass == 3 && last.mark == nil)
    }
  }

  @Test(arguments: Backend.allCases)
  func `contacts of a peer that does not exist are not stored`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let (name, token) = try (Sample.relay("nobody"), Sample.token(1))
      try await store.merge([.init(token: token, isInactive: false, supportsSMS: true, voice: true)], of: name)
      try await store.storage.finishContacts(of: name, pass: 1, mark: "m")
      #expect(try await store.storage.contactsPass(of: name).pass == 0)
      #expect(try await store.storage.savePeer(Sample.peer("nobody")))
      #expect(try await store.storage.entries(for: [token]).isEmpty)
    }
  }

  @Test(arguments: Backend.allCases)
  func `pages of the listing hold every account once, in one order`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      try await store.registerAccounts(23)
      try await store.register(Sample.registration(5, isReachable: false))
      func pages(of limit: Int) async throws -> [ListedAccount] {
        var all: [ListedAccount] = []
        while case let page = try await store.storage.accounts(offset: all.count, limit: limit), !page.isEmpty {
          #expect(page.count <= limit)
          all += page
        }
        return all
      }
      let listed = try await pages(of: 7)
      #expect(listed == (try await pages(of: 100)))
      #expect(Set(listed.map(\.token)) == Set(try (0..<23).map { try Sample.token(Sample.number($0)) }))
      #expect(listed.filter(\.isInactive).map(\.token) == [try Sample.token(Sample.number(5))])
      #expect(listed.allSatisfy { $0.supportsSMS != $0.isInactive && !$0.voice })
      #expect(try await store.storage.accounts(offset: 23, limit: 7).isEmpty)
      #expect(try await store.storage.accounts(offset: 1000, limit: 7).isEmpty)
    }
  }

  @Test(arguments: Backend.allCases)
  func `the revision of the accounts rises when a listing changes`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let changes = try [
        Sample.registration(1), Sample.registration(2), Sample.registration(1, voice: true),
        Sample.registration(1, isReachable: false), Sample.registration(1, supportsSMS: false),
      ]
      var last = try await store.storage.accountsRevision()
      for change in changes {
        try await store.register(change)
        let next = try await store.storage.accountsRevision()
        #expect(next > last)
        last = next
      }
    }
  }
}

extension Store {
  /// Merges one page as the first pass of `peer`, unfinished.
  fileprivate func merge(_ page: [ListedAccount], of peer: RelayName) async throws {
    try await storage.mergeContacts(page, of: peer, pass: 1)
  }
}
