import RelayCore
import Storage
import TestTags
import Testing

@Suite(.tags(.stores)) struct PeerContract {
  @Test(arguments: Backend.allCases) func `peers come back whole, ascending by name`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      #expect(try await store.storage.peers().isEmpty)
      let saved = try ["gamma", "alpha.net", "alpha-net", "beta"].map { try Sample.peer($0) }
      for peer in saved { #expect(try await store.storage.savePeer(peer)) }
      #expect(try await store.storage.peers() == saved.sorted { $0.name < $1.name })
    }
  }

  @Test(arguments: Backend.allCases) func `a peer is replaced by its own CA only`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let first = try Sample.peer("beta")
      let moved = Peer(
        name: first.name, url: "https://elsewhere:1", caCertificate: first.caCertificate, state: .suspended,
        scopes: Set(Peer.Scope.allCases), added: Timestamp(millis: 5))
      #expect(try await store.storage.savePeer(first))
      #expect(try await store.storage.savePeer(moved))
      #expect(try await store.storage.peers() == [moved])
      let revision = try await store.storage.peersRevision()
      #expect(try await !store.storage.savePeer(Sample.peer("beta", ca: 2)))
      #expect(try await store.storage.peers() == [moved])
      #expect(try await store.storage.peersRevision() == revision)
    }
  }

  @Test(arguments: Backend.allCases)
  func `if many with CAs of their own claim one name at once, one is stored`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let saved = try await withThrowingTaskGroup(of: Bool.self) { group in
        for ca in 0..<16 { group.addTask { try await store.storage.savePeer(Sample.peer("beta", ca: UInt8(ca))) } }
        return try await group.reduce(0) { $0 + ($1 ? 1 : 0) }
      }
      #expect(saved == 1)
      #expect(try await store.storage.peers().count == 1)
    }
  }

  @Test(arguments: Backend.allCases)
  func `suspending and resuming change the state alone`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let peer = try Sample.peer("beta")
      #expect(try await !store.storage.setPeerState(.suspended, of: peer.name))
      #expect(try await store.storage.savePeer(peer))
      #expect(try await store.storage.setPeerState(.suspended, of: peer.name))
      #expect(try await store.storage.peers() == [Sample.peer("beta", state: .suspended)])
      #expect(try await store.storage.setPeerState(.active, of: peer.name))
      #expect(try await store.storage.peers() == [peer])
    }
  }

  @Test(arguments: Backend.allCases)
  func `a suspension's note stays with it, and its end resumes the peer once`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let storage = store.storage
      let names = try ["beta", "delta", "gamma"].map { try Sample.relay($0) }
      for (index, name) in names.enumerated() {
        #expect(try await storage.savePeer(Sample.peer(name.text, ca: UInt8(index + 1))))
      }
      let end = store.now.adding(.seconds(60))
      let said = try #require(PeerSuspension(reason: "they send spam", until: end))
      #expect(try await storage.setPeerState(.suspended, of: names[0], said))
      #expect(try await storage.setPeerState(.suspended, of: names[1], PeerSuspension(reason: "for good", until: nil)))
      #expect(
        try await storage.peers().map(\.suspension) == [said, PeerSuspension(reason: "for good", until: nil), nil])

      let revision = try await storage.peersRevision()
      #expect(try await storage.resumePeers(endedBy: end.adding(.milliseconds(-1))).isEmpty)
      #expect(try await storage.peersRevision() == revision)
      #expect(try await storage.resumePeers(endedBy: end) == [names[0]])
      #expect(try await storage.resumePeers(endedBy: end).isEmpty)
      #expect(try await storage.peersRevision() > revision)
      #expect(try await storage.peers().map(\.state) == [.active, .suspended, .active])
      #expect(
        try await storage.peers().map(\.suspension) == [nil, PeerSuspension(reason: "for good", until: nil), nil])
      // The operator's own word is the last.
      #expect(try await storage.setPeerState(.active, of: names[1]))
      #expect(try await storage.peers().allSatisfy { $0.suspension == nil })
    }
  }

  @Test(arguments: Backend.allCases)
  func `a removed peer takes its contacts, its passes and its epoch with it`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let (beta, gamma) = try (Sample.peer("beta"), Sample.peer("gamma"))
      let tokens = try [Sample.token(1), Sample.token(2)]
      for (peer, token) in [(beta, tokens[0]), (gamma, tokens[1])] {
        #expect(try await store.storage.savePeer(peer))
        let page = [ListedAccount(token: token, isInactive: false, supportsSMS: true, voice: true)]
        try await store.storage.mergeContacts(page, of: peer.name, pass: 1)
        try await store.storage.finishContacts(of: peer.name, pass: 1, mark: "m")
        #expect(try await store.storage.rememberEpoch(5, of: peer.name) == 0)
      }
      #expect(try await store.storage.removePeer(beta.name) == .removed)
      #expect(try await store.storage.removePeer(beta.name) == .unknown)
      #expect(try await store.storage.peers() == [gamma])
      #expect(try await store.storage.entries(for: tokens).map(\.token) == [tokens[1]])
      // A peer that comes back, even with another CA, starts anew.
      #expect(try await store.storage.savePeer(Sample.peer("beta", ca: 2)))
      #expect(try await store.storage.entries(for: tokens).map(\.token) == [tokens[1]])
      let pass = try await store.storage.contactsPass(of: beta.name)
      #expect(pass.pass == 0 && pass.mark == nil)
      #expect(try await store.storage.rememberEpoch(1, of: beta.name) == 0)
      #expect(try await store.storage.rememberEpoch(1, of: gamma.name) == 5)
    }
  }

  @Test(arguments: Backend.allCases)
  func `a peer's epoch stays when the peer is saved again or suspended`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let peer = try Sample.peer("beta")
      #expect(try await store.storage.savePeer(peer))
      #expect(try await store.storage.rememberEpoch(7, of: peer.name) == 0)
      #expect(try await store.storage.savePeer(peer))
      #expect(try await store.storage.setPeerState(.suspended, of: peer.name))
      let revision = try await store.storage.peersRevision()
      #expect(try await store.storage.rememberEpoch(8, of: peer.name) == 7)
      // No process has to read the peers anew for it.
      #expect(try await store.storage.peersRevision() == revision)
    }
  }

  @Test(arguments: Backend.allCases)
  func `the revision of the peers rises with every change`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let peer = try Sample.peer("beta")
      let changes: [@Sendable () async throws -> Bool] = [
        { try await store.storage.savePeer(peer) },
        { try await store.storage.setPeerState(.suspended, of: peer.name) },
        { try await store.storage.savePeer(peer) },
        { try await store.storage.removePeer(peer.name) == .removed },
      ]
      var last = try await store.storage.peersRevision()
      for change in changes {
        #expect(try await change())
        let next = try await store.storage.peersRevision()
        #expect(next > last)
        last = next
      }
    }
  }
}
