import RelayCore
import Storage
import TestTags
import Testing

@Suite(.tags(.stores)) struct PeerTermsContract {
  private static let first = Timestamp(millis: 1_000)
  private static let later = Timestamp(millis: 2_000)

  @Test(arguments: Backend.allCases)
  func `a peer comes back with its policy, its trust and its condition`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let whole = Self.peer(
        try Sample.peer("beta"), policy: PeerPolicy(holdsMessages: true, contacts: .query, routesImplicitly: false),
        trust: PeerTrust(nextCACertificate: [1, 0, 255], revokedSerials: [[0, 1], [0xAB, 0xCD, 0xEF]], sequence: 7),
        condition: .unreachable(.certificate, since: Self.first))
      #expect(try await store.storage.savePeer(whole))
      #expect(try await store.storage.peers() == [whole])

      // Saved again, it is treated and trusted as before, and as reachable.
      let plain = try Sample.peer("beta")
      #expect(try await store.storage.savePeer(plain))
      #expect(
        try await store.storage.peers() == [
          Self.peer(plain, policy: whole.policy, trust: whole.trust, condition: whole.condition)
        ])
      // Not after it was removed.
      #expect(try await store.storage.removePeer(plain.name) == .removed)
      #expect(try await store.storage.savePeer(plain))
      #expect(try await store.storage.peers() == [plain])
    }
  }

  @Test(arguments: Backend.allCases)
  func `URL, scopes and policy change alone, and raise the revision`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let peer = try Sample.peer("beta")
      let policy = PeerPolicy(holdsMessages: true, contacts: .none, routesImplicitly: false)
      #expect(try await !store.storage.setPeerScopes([.keys], of: peer.name))
      #expect(try await !store.storage.setPeerURL("https://elsewhere:1", of: peer.name))
      let change = PeerPolicyChange(holdsMessages: true, contacts: PeerPolicy.Contacts.none, routesImplicitly: false)
      #expect(try await !store.storage.changePeerPolicy(change, of: peer.name))
      #expect(try await store.storage.savePeer(peer))
      #expect(try await store.storage.savePeer(Sample.peer("gamma")))

      try await Self.raisesRevision(of: store) { try await store.storage.setPeerScopes([], of: peer.name) }
      try await Self.raisesRevision(of: store) {
        try await store.storage.setPeerScopes([.lookup, .attachments], of: peer.name)
      }
      try await Self.raisesRevision(of: store) { try await store.storage.changePeerPolicy(change, of: peer.name) }
      try await Self.raisesRevision(of: store) {
        try await store.storage.setPeerURL("https://elsewhere:1", of: peer.name)
      }
      let changed = Peer(
        name: peer.name, url: "https://elsewhere:1", caCertificate: peer.caCertificate, state: peer.state,
        scopes: [.lookup, .attachments], added: peer.added, policy: policy)
      #expect(try await store.storage.peers() == [changed, Sample.peer("gamma")])
    }
  }

  @Test(arguments: Backend.allCases)
  func `changes of one part each leave the others, also by several processes at once`(_ backend: Backend) async throws {
    let changes = [
      PeerPolicyChange(holdsMessages: true), PeerPolicyChange(contacts: .query),
      PeerPolicyChange(routesImplicitly: false),
    ]
    try await backend.withStores(changes.count) { stores in
      let (peer, storage) = (try Sample.peer("beta"), stores[0].storage)
      #expect(try await storage.savePeer(peer))
      try await withThrowingTaskGroup(of: Bool.self) { group in
        for (store, change) in zip(stores, changes) {
          group.addTask { try await store.storage.changePeerPolicy(change, of: peer.name) }
        }
        for try await isStored in group { #expect(isStored) }
      }
      let policy = PeerPolicy(holdsMessages: true, contacts: .query, routesImplicitly: false)
      #expect(try await storage.peers().map(\.policy) == [policy])
      #expect(try await storage.changePeerPolicy(PeerPolicyChange(holdsMessages: false), of: peer.name))
      #expect(try await storage.peers().first?.policy.contacts == .query)
    }
  }

  @Test(arguments: Backend.allCases)
  func `a mark is the first peer's that told it, and of a peer the newest stay`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let (beta, gamma) = (try Sample.peer("beta"), try Sample.peer("gamma"))
      func note(_ mark: Int, _ peer: Peer) async throws -> Bool {
        try await store.storage.noteAttachmentMark(#require(AttachmentMark(mark)), of: peer.name)
      }
      func marks() async throws -> [[UInt16]] {
        try await store.storage.peers().map { $0.attachmentMarks.map(\.value) }
      }
      #expect(try await !note(1, beta))
      for peer in [beta, gamma] { #expect(try await store.storage.savePeer(peer)) }
      try await Self.raisesRevision(of: store) { try await note(65_535, beta) }
      let revision = try await store.storage.peersRevision()
      // Told again, and told by another one.
      #expect(try await !note(65_535, beta))
      #expect(try await !note(65_535, gamma))
      #expect(try await store.storage.peersRevision() == revision)
      #expect(try await note(7, gamma))
      for mark in [5, 4, 3, 2] { #expect(try await note(mark, beta)) }
      #expect(try await marks() == [[5, 4, 3, 2], [7]])
      // Another peer may take a mark that was given up, or that went with its peer.
      #expect(try await note(65_535, gamma))
      #expect(try await store.storage.removePeer(beta.name) == .removed)
      #expect(try await note(4, gamma))
      #expect(try await marks() == [[7, 65_535, 4]])
    }
  }

  @Test(arguments: Backend.allCases)
  func `if several peers tell one mark at once, one has it`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let peers = try (0..<8).map { try Sample.peer("peer\($0)") }
      for peer in peers { #expect(try await store.storage.savePeer(peer)) }
      let mark = try #require(AttachmentMark(9))
      let taken = try await withThrowingTaskGroup(of: Bool.self) { group in
        for peer in peers { group.addTask { try await store.storage.noteAttachmentMark(mark, of: peer.name) } }
        return try await group.reduce(0) { $0 + ($1 ? 1 : 0) }
      }
      #expect(taken == 1)
      #expect(try await store.storage.peers().count { !$0.attachmentMarks.isEmpty } == 1)
    }
  }

  @Test(arguments: Backend.allCases)
  func `a statement is taken up if it is newer, and only then`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let peer = try Sample.peer("beta")
      let successor: [UInt8] = [0x30, 9, 9]
      let announced = PeerTrust(nextCACertificate: successor, revokedSerials: [[5]], sequence: 3)
      func take(_ trust: PeerTrust, ca: [UInt8], replacing former: [UInt8]? = nil) async throws -> Bool {
        try await store.storage.setPeerTrust(
          trust, caCertificate: ca, replacing: former ?? peer.caCertificate, of: peer.name)
      }
      #expect(try await !take(announced, ca: peer.caCertificate))
      #expect(try await store.storage.savePeer(peer))
      #expect(try await !take(PeerTrust(sequence: 0), ca: successor))
      try await Self.raisesRevision(of: store) { try await take(announced, ca: peer.caCertificate) }
      #expect(try await store.storage.peers() == [Self.peer(peer, trust: announced)])

      let revision = try await store.storage.peersRevision()
      for sequence in [1, 3] as [Int64] {
        #expect(try await !take(PeerTrust(sequence: sequence), ca: successor))
      }
      #expect(try await store.storage.peersRevision() == revision)
      // The new CA is the peer's from then on, and the former one is not.
      let over = PeerTrust(revokedSerials: [[5], [6]], sequence: 4)
      #expect(try await !take(over, ca: successor, replacing: successor))
      #expect(try await take(over, ca: successor))
      let kept = try #require(try await store.storage.peers().first)
      #expect(kept.caCertificate == successor && kept.trust == over)
      #expect(try await !store.storage.savePeer(peer))
      // Nor does a later statement count that was judged by the former one.
      #expect(try await !take(PeerTrust(sequence: 5), ca: peer.caCertificate))
      #expect(try await take(PeerTrust(sequence: 5), ca: successor, replacing: successor))
    }
  }

  @Test(arguments: Backend.allCases)
  func `of several statements at once, the highest stays`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let peer = try Sample.peer("beta")
      #expect(try await store.storage.savePeer(peer))
      try await withThrowingTaskGroup(of: Void.self) { group in
        for sequence in 1...32 as ClosedRange<Int64> {
          group.addTask {
            _ = try await store.storage.setPeerTrust(
              PeerTrust(sequence: sequence), caCertificate: peer.caCertificate, replacing: peer.caCertificate,
              of: peer.name)
          }
        }
        try await group.waitForAll()
      }
      #expect(try await store.storage.peers().map(\.trust.sequence) == [32])
    }
  }

  @Test(arguments: Backend.allCases)
  func `a condition counts once, and its beginning stays`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let peer = try Sample.peer("beta")
      func set(_ condition: PeerCondition) async throws -> Bool {
        try await store.storage.setPeerCondition(condition, of: peer.name)
      }
      func current() async throws -> PeerCondition? { try await store.storage.peers().first?.condition }
      #expect(try await !set(.unreachable(.network, since: Self.first)))
      #expect(try await store.storage.savePeer(peer))
      #expect(try await !set(.reachable))

      try await Self.raisesRevision(of: store) { try await set(.unreachable(.network, since: Self.first)) }
      let revision = try await store.storage.peersRevision()
      #expect(try await !set(.unreachable(.network, since: Self.later)))
      #expect(try await store.storage.peersRevision() == revision)
      #expect(try await current() == .unreachable(.network, since: Self.first))

      try await Self.raisesRevision(of: store) { try await set(.unreachable(.refused, since: Self.later)) }
      #expect(try await current() == .unreachable(.refused, since: Self.first))
      try await Self.raisesRevision(of: store) { try await set(.reachable) }
      #expect(try await current() == .reachable)
      #expect(try await set(.unreachable(.silent, since: Self.later)))
      #expect(try await current() == .unreachable(.silent, since: Self.later))
    }
  }

  @Test(arguments: Backend.allCases)
  func `of 16 processes that find a peer gone at once, one says so`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let peer = try Sample.peer("beta")
      #expect(try await store.storage.savePeer(peer))
      let changes = try await withThrowingTaskGroup(of: Bool.self) { group in
        for millis in 0..<16 as Range<Int64> {
          let condition = PeerCondition.unreachable(.network, since: Timestamp(millis: millis))
          group.addTask { try await store.storage.setPeerCondition(condition, of: peer.name) }
        }
        return try await group.reduce(0) { $0 + ($1 ? 1 : 0) }
      }
      #expect(changes == 1)
    }
  }

  private static func peer(
    _ peer: Peer, policy: PeerPolicy = PeerPolicy(), trust: PeerTrust = PeerTrust(),
    condition: PeerCondition = .reachable
  ) -> Peer {
    Peer(
      name: peer.name, url: peer.url, caCertificate: peer.caCertificate, state: peer.state, scopes: peer.scopes,
      added: peer.added, policy: policy, trust: trust, condition: condition)
  }

  private static func raisesRevision(of store: Store, _ change: () async throws -> Bool) async throws {
    let before = try await store.storage.peersRevision()
    #expect(try await change())
    #expect(try await store.storage.peersRevision() > before)
  }
}
