import RelayCore
import Storage
import TestSupport
import TestTags
import Testing

// The feed by which every process keeps the whole directory in memory.

@Suite(.tags(.stores)) struct DirectoryFeedContract {
  private static func listed(_ indices: Range<Int>, isInactive: Bool = false, voice: Bool = false) throws
    -> [ListedAccount]
  {
    try indices.map {
      ListedAccount(token: try Sample.token($0), isInactive: isInactive, supportsSMS: true, voice: voice)
    }
  }

  private typealias Change = @Sendable (Store) async throws -> Void

  private struct Step: Sendable {
    let name: String
    let changes: Int
    let run: Change
    init(_ name: String, _ changes: Int, _ run: @escaping Change) {
      (self.name, self.changes, self.run) = (name, changes, run)
    }
  }

  private static func change(_ index: Int, _ change: @escaping @Sendable (inout DeviceChange) -> Void) -> Change {
    { store in
      var made = DeviceChange()
      change(&made)
      let isKnown = try await store.storage.updateDevice(Sample.address(index), made)
      #expect(isKnown)
    }
  }

  private static func peer(_ change: @escaping @Sendable (any Storage) async throws -> Bool) -> Change {
    { store in
      let isDone = try await change(store.storage)
      #expect(isDone)
    }
  }

  private static func become(_ state: Peer.State) -> Change {
    peer { try await $0.setPeerState(state, of: Sample.relay("beta")) }
  }

  private static let ofAccounts = [
    Step("registered", 1) { try await $0.register(Sample.registration(1)) },
    Step("registered anew, the same", 0) { try await $0.register(Sample.registration(1, registrationID: 8)) },
    Step("registered anew, with voice", 1) { try await $0.register(Sample.registration(1, voice: true)) },
    Step("keys", 0) { _ = try await $0.storage.replacePreKeys(of: Sample.address(1), with: Sample.upload([1])) },
    Step("renamed", 0, change(1) { $0.name = .set("new") }),
    Step("without voice", 1, change(1) { $0.voice = .set(false) }),
    Step("hidden", 1, change(1) { $0.isDiscoverable = .set(false) }),
    Step("hidden, with voice", 0, change(1) { $0.voice = .set(true) }),
    Step("shown", 1, change(1) { $0.isDiscoverable = .set(true) }),
    Step("unreachable", 1, change(1) { $0.fetchesMessages = .set(false) }),
    Step("unreachable, hidden", 0, change(1) { $0.isDiscoverable = .set(false) }),
    Step("reachable, hidden", 0, change(1) { $0.fetchesMessages = .set(true) }),
    // It covers what a peer claims.
    Step("unreachable from the beginning", 1) { try await $0.register(Sample.registration(2, isReachable: false)) },
  ]

  private static let ofContacts = [
    Step("saved", 0) { store in
      for name in ["beta", "gamma"] {
        let isSaved = try await store.storage.savePeer(Sample.peer(name))
        #expect(isSaved)
      }
    },
    Step("first page", 3) { try await $0.storage.mergeContacts(Self.listed(0..<3), of: Sample.relay("beta"), pass: 1) },
    Step("refreshed, and more", 2) {
      try await $0.storage.mergeContacts(Self.listed(0..<5), of: Sample.relay("beta"), pass: 2)
    },
    Step("flags", 2) {
      try await $0.storage.mergeContacts(Self.listed(0..<2, voice: true), of: Sample.relay("beta"), pass: 2)
    },
    Step("inactive", 1) {
      try await $0.storage.mergeContacts(Self.listed(4..<6, isInactive: true), of: Sample.relay("beta"), pass: 2)
    },
    Step("another's, later", 4) { store in
      store.clock.advance(.seconds(1))
      try await Task.sleep(for: .milliseconds(20))
      try await store.storage.mergeContacts(Self.listed(2..<6), of: Sample.relay("gamma"), pass: 1)
    },
    Step("fed", 3) {
      try await $0.storage.applyContactChanges(
        Self.listed(0..<1, isInactive: true) + Self.listed(7..<9), of: Sample.relay("beta"), mark: "m")
    },
    // One other flag, and two that this pass has not seen.
    Step("finished", 3) { store in
      try await store.storage.mergeContacts(Self.listed(1..<4), of: Sample.relay("beta"), pass: 3)
      try await store.storage.finishContacts(of: Sample.relay("beta"), pass: 3, mark: "m")
    },
    Step("suspended", 1, become(.suspended)),
    Step("suspended again", 0, become(.suspended)),
    Step("changed while suspended", 0) {
      try await $0.storage.mergeContacts(Self.listed(1..<20), of: Sample.relay("beta"), pass: 3)
    },
    Step("resumed", 1, become(.active)),
    Step("scopes", 0, peer { try await $0.setPeerScopes([.keys], of: Sample.relay("beta")) }),
    // Its end uncovers contacts; four of them are the other's.
    Step(
      "asked instead of copied", 5,
      peer { try await $0.changePeerPolicy(PeerPolicyChange(contacts: .query), of: Sample.relay("beta")) }),
    Step(
      "copied again", 1,
      peer { try await $0.changePeerPolicy(PeerPolicyChange(contacts: .copy), of: Sample.relay("beta")) }),
    Step("listed again", 4) {
      try await $0.storage.mergeContacts(Self.listed(2..<6), of: Sample.relay("beta"), pass: 9)
    },
    // Suspended, then gone; of what it uncovers, four contacts are the other's.
    Step("removed", 6, peer { try await $0.removePeer(Sample.relay("gamma")) == .removed }),
    Step("removed too", 2, peer { try await $0.removePeer(Sample.relay("beta")) == .removed }),
  ]

  @Test(arguments: Backend.allCases)
  func `a change of an account is in the feed once, if a look-up can see it`(_ backend: Backend) async throws {
    try await Self.follow(Self.ofAccounts, on: backend)
  }

  @Test(arguments: Backend.allCases)
  func `a change of a peer's contact is in the feed, if a look-up can see it`(_ backend: Backend) async throws {
    try await Self.follow(Self.ofContacts, on: backend)
  }

  private static func follow(_ steps: [Step], on backend: Backend) async throws {
    try await backend.withStore { store in
      var reader = try await DirectoryReader(of: store.storage)
      for step in steps {
        try await step.run(store)
        #expect(try await reader.follow() == step.changes, "\(step.name)")
        // A reader that begins here knows the same.
        let beginner = try await DirectoryReader(of: store.storage)
        #expect(beginner.entries == reader.entries, "\(step.name)")
      }
      #expect(try await reader.isCurrent())
    }
  }

  @Test(arguments: Backend.allCases)
  func `an account of ours covers a peer's claim, also while it is hidden`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      try await store.register(Sample.registration(1))
      #expect(try await store.storage.savePeer(Sample.peer("beta")))
      let token = try Sample.token(Sample.number(1))
      let claim = ListedAccount(token: token, isInactive: false, supportsSMS: false, voice: true)
      try await store.storage.mergeContacts([claim], of: Sample.relay("beta"), pass: 1)
      var reader = try await DirectoryReader(of: store.storage)
      for isDiscoverable in [true, false, true] {
        try await Self.change(1) { $0.isDiscoverable = .set(isDiscoverable) }(store)
        _ = try await reader.follow()
        #expect((reader.entries[token] != nil) == isDiscoverable && reader.entries[token]?.relay == nil)
        #expect(try await reader.isCurrent())
      }
    }
  }

  @Test(arguments: Backend.allCases)
  func `pages of the feed hold each change once, in order`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let start = try await store.storage.directoryPlace()
      try await store.registerAccounts(23)
      var (place, tokens): (DirectoryPlace, [ContactToken]) = (start, [])
      var revisions: [UInt64] = []
      while true {
        let page = try #require(try await store.storage.directoryChanges(after: place, limit: 7))
        #expect(page.changes.count == (page.isPartial ? 7 : 2))
        for case .token(let token) in page.changes.map(\.subject) { tokens.append(token) }
        revisions += page.changes.map(\.revision)
        place = page.next
        if !page.isPartial { break }
      }
      #expect(tokens == (try (0..<23).map { try Sample.token(Sample.number($0)) }))
      #expect(revisions == revisions.sorted())
      let rest = try #require(try await store.storage.directoryChanges(after: place, limit: 7))
      #expect(rest.changes.isEmpty && !rest.isPartial)
      // A transaction of whomever, in another database too, keeps the end back while it lasts.
      try await eventually("the end is behind the last change") {
        let end = try await store.storage.directoryPlace()
        return try await store.storage.directoryChanges(after: end, limit: 7)?.changes.isEmpty == true
      }
      // The same again, from anywhere.
      let second = try #require(try await store.storage.directoryChanges(after: start, limit: 1))
      let others = try #require(try await store.storage.directoryChanges(after: second.next, limit: 100))
      #expect(others.changes.map(\.revision) == Array(revisions[1...]))
      #expect(others.fence.generation == start.generation)
    }
  }

  @Test(arguments: Backend.allCases) func `a place of another directory is reported`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      try await store.registerAccounts(2)
      let end = try await store.storage.directoryPlace()
      func isKnown(_ generation: Int64, _ revision: UInt64) async throws -> Bool {
        let place = DirectoryPlace(generation: generation, revision: revision)
        return try await store.storage.directoryChanges(after: place, limit: 10) != nil
      }
      #expect(try await isKnown(end.generation, end.revision))
      #expect(try await !isKnown(end.generation + 1, end.revision))
      #expect(try await !isKnown(end.generation, end.revision + 1_000_000))
      #expect(try await !isKnown(end.generation, .max))
      #expect(try await !isKnown(end.generation, 0))
      // A store that was set back is another one.
      try await store.storage.setAsideOneTimePreKeys(epoch: 1, by: .process, behind: .zero)
      #expect(try await !isKnown(end.generation, end.revision))
      #expect(try await store.storage.directoryPlace().generation > end.generation)
    }
  }

  @Test(arguments: Backend.allCases)
  func `a reader that asks for the last changes learns how far back they go`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let empty = try await store.storage.recentDirectoryChanges(limit: 3)
      #expect(empty.changes.isEmpty)
      let start = try await store.storage.directoryPlace()
      #expect(empty.since.revision <= start.revision && empty.since.generation == start.generation)
      try await store.registerAccounts(5)
      let all = try #require(try await store.storage.directoryChanges(after: start, limit: 100)).changes
      #expect(all.count == 5)
      for limit in [1, 3, 5, 6, 100] {
        let recent = try await store.storage.recentDirectoryChanges(limit: limit)
        #expect(recent.changes == all.suffix(limit))
        let complete = all.filter { $0.revision >= recent.since.revision }
        #expect(recent.changes.filter { $0.revision >= recent.since.revision } == complete)
        #expect(complete.count >= min(5, limit - 1))
      }
    }
  }

  @Test(arguments: Backend.allCases)
  func `today's changes are kept, and so are the places of their followers`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let start = try await store.storage.directoryPlace()
      try await store.registerAccounts(5)
      try await store.storage.pruneDirectoryChanges(olderThan: 1)
      #expect(try await store.storage.directoryChanges(after: start, limit: 10)?.changes.count == 5)
    }
  }
}
