// How many contacts of a peer are kept: what the store says of itself, and what it holds.

import RelayCore
import Storage
import TestSupport
import TestTags
import Testing

@Suite(.tags(.stores)) struct ContactCountContract {
  private static let places = 60

  private static func listed(_ indices: some Sequence<Int>, isInactive: Bool = false) throws -> [ListedAccount] {
    try indices.map {
      ListedAccount(token: try Sample.token($0), isInactive: isInactive, supportsSMS: true, voice: false)
    }
  }

  /// Counted by asking for each.
  private static func truth(_ storage: any Storage, of peer: RelayName) async throws -> ContactCounts {
    let tokens = try (0..<places).map { try Sample.token($0) }
    let claims = try await storage.keptContacts(among: tokens, of: peer)
    var unlisted = 0
    for token in claims {
      let claim = try #require(try await storage.claims(to: token).first { $0.peer == peer })
      if claim.unlisted != nil { unlisted += 1 }
    }
    return ContactCounts(listed: claims.count - unlisted, unlisted: unlisted)
  }

  @Test(arguments: Backend.allCases) func `contacts are counted, of one peer alone`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let (storage, beta) = (store.storage, try Sample.relay("beta"))
      for (name, count) in [("beta", 20), ("gamma", 7)] {
        #expect(try await storage.savePeer(Sample.peer(name)))
        #expect(try await storage.contactCount(of: Sample.relay(name)) == 0)
        try await storage.mergeContacts(Self.listed(0..<count), of: Sample.relay(name), pass: 1)
      }
      #expect(try await storage.contactCount(of: beta) == 20)
      // Saved again it is the same peer.
      #expect(try await storage.savePeer(Sample.peer("beta")))
      #expect(try await storage.contactCount(of: beta) == 20)
      #expect(try await storage.contactCount(of: Sample.relay("gamma")) == 7)
      #expect(try await storage.contactCount(of: Sample.relay("delta")) == 0)
      // A peer that comes back begins with none.
      #expect(try await storage.removePeer(beta) == .removed)
      #expect(try await storage.contactCount(of: beta) == 0)
      #expect(try await storage.savePeer(Sample.peer("beta")))
      #expect(try await storage.contactCount(of: beta) == 0)
      try await storage.mergeContacts(Self.listed(3..<5), of: beta, pass: 1)
      #expect(try await storage.contactCount(of: beta) == 2)
    }
  }

  @Test(
    arguments: Backend.allCases,
    [1, 2, 3] as [UInt64])
  func `the count is what is kept after whatever adds, refreshes and removes, once and again`(
    _ backend: Backend, seed: UInt64
  ) async throws {
    try await backend.withStore { store in
      let (storage, beta, gamma) = (store.storage, try Sample.relay("beta"), try Sample.relay("gamma"))
      for name in ["beta", "gamma"] { #expect(try await storage.savePeer(Sample.peer(name))) }
      try await storage.mergeContacts(Self.listed(0..<10), of: gamma, pass: 1)
      var generator = SeededGenerator(seed: seed)
      for step in 0..<60 {
        try await Self.change(beta, in: storage, step: step, &generator)
        let (count, truth) = (try await storage.contactCounts(of: beta), try await Self.truth(storage, of: beta))
        #expect(count == truth, "seed \(seed), step \(step)")
      }
      #expect(try await storage.contactCount(of: gamma) == 10)
    }
  }

  /// One of what happens to the contacts of a peer; most of it twice, as whoever had no answer would do it.
  private static func change(
    _ peer: RelayName, in storage: any Storage, step: Int, _ generator: inout SeededGenerator
  ) async throws {
    let some = (0..<places).filter { _ in Int.random(in: 0..<4, using: &generator) == 0 }
    let changes = try some.map { index in
      try listed([index], isInactive: Bool.random(using: &generator))[0]
    }
    let pass = try await storage.contactsPass(of: peer).pass
    switch Int.random(in: 0..<6, using: &generator) {
    case 0, 1:
      for _ in 0..<2 { try await storage.applyContactChanges(changes + changes.prefix(2), of: peer, mark: "\(step)") }
    case 2:
      for _ in 0..<2 { try await storage.mergeContacts(changes, of: peer, pass: pass + 1) }
    case 3:
      for _ in 0..<2 { try await storage.finishContacts(of: peer, pass: pass + 1, mark: "\(step)") }
    case 4:
      _ = try await storage.endClaims(of: peer, afterDays: -1)
    default:
      guard Int.random(in: 0..<3, using: &generator) == 0 else { return }
      #expect(try await storage.changePeerPolicy(PeerPolicyChange(contacts: .query), of: peer))
      try await storage.mergeContacts(changes, of: peer, pass: pass + 1)
      #expect(try await storage.contactCounts(of: peer) == .none)
      #expect(try await storage.changePeerPolicy(PeerPolicyChange(contacts: .copy), of: peer))
    }
  }

  @Test(arguments: Backend.allCases)
  func `counting again changes nothing where nothing went wrong`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let (storage, beta) = (store.storage, try Sample.relay("beta"))
      try await storage.recountContacts(of: beta)
      #expect(try await storage.savePeer(Sample.peer("beta")))
      try await storage.recountContacts(of: beta)
      #expect(try await storage.contactCount(of: beta) == 0)
      try await storage.mergeContacts(Self.listed(0..<20), of: beta, pass: 1)
      try await storage.recountContacts(of: beta)
      #expect(try await storage.contactCount(of: beta) == 20)
      try await storage.mergeContacts(Self.listed(5..<9, isInactive: true), of: beta, pass: 1)
      #expect(try await storage.contactCount(of: beta) == 16)
    }
  }
}
