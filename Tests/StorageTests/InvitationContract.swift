import RelayCore
import Storage
import TestTags
import Testing

@Suite(.tags(.stores)) struct InvitationContract {
  private let secret: [UInt8] = Array(repeating: 7, count: 32)
  private let holder: [UInt8] = Array(repeating: 1, count: 32)
  private let other: [UInt8] = Array(repeating: 2, count: 32)

  private func invitation(expiresIn duration: Duration, of store: Store) -> Invitation {
    Invitation(secretHash: secret, expires: store.now.adding(duration), scopes: [.messages, .keys])
  }

  /// - Parameter revision: nil for that of now.
  private func redeem(
    _ secret: [UInt8], by holder: [UInt8], adding peer: Peer? = nil, judgedAt revision: Int64? = nil,
    at now: Timestamp? = nil, in store: Store
  ) async throws -> Redemption {
    let current = try await store.storage.peersRevision()
    return try await store.storage.redeemInvitation(
      secretHash: secret, caFingerprint: holder, adding: peer, judgedAt: revision ?? current, now: now ?? store.now)
  }

  @Test(arguments: Backend.allCases)
  func `an invitation serves one CA, which may repeat itself`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let invitation = invitation(expiresIn: .seconds(60), of: store)
      try await store.storage.saveInvitation(invitation)
      func found(_ secret: [UInt8], _ fingerprint: [UInt8]) async throws -> Invitation? {
        try await store.storage.redeemableInvitation(secretHash: secret, caFingerprint: fingerprint, now: store.now)
      }
      #expect(try await found(other, holder) == nil)
      // Asking changes nothing.
      for holder in [other, holder] { #expect(try await found(secret, holder) == invitation) }
      #expect(try await redeem(other, by: holder, in: store) == .refused)
      #expect(try await redeem(secret, by: holder, in: store) == .redeemed)
      #expect(try await found(secret, holder) == invitation)
      #expect(try await found(secret, other) == nil)
      #expect(try await redeem(secret, by: other, in: store) == .refused)
      #expect(try await redeem(secret, by: holder, in: store) == .redeemed)
    }
  }

  @Test(arguments: Backend.allCases)
  func `an invitation and the peer that it makes are stored together`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let (beta, gamma) = (try Sample.peer("beta"), try Sample.peer("gamma", ca: 2))
      try await store.storage.saveInvitation(invitation(expiresIn: .seconds(60), of: store))
      #expect(try await redeem(other, by: holder, adding: beta, in: store) == .refused)
      #expect(try await store.storage.peers().isEmpty)
      let revision = try await store.storage.peersRevision()
      #expect(try await redeem(secret, by: holder, adding: beta, in: store) == .redeemed)
      #expect(try await store.storage.peers() == [beta])
      #expect(try await store.storage.peersRevision() > revision)
      // A process that judged by the former list is told, and has stored nothing.
      try await store.storage.saveInvitation(
        Invitation(secretHash: other, expires: store.now.adding(.seconds(60)), scopes: [.keys]))
      for peer in [gamma, nil] {
        #expect(try await redeem(other, by: other, adding: peer, judgedAt: revision, in: store) == .outdated)
      }
      #expect(try await store.storage.hasOpenInvitation(now: store.now))
      #expect(try await store.storage.peers() == [beta])
      // A peer that redeems another one changes nothing but the invitation.
      let last = try await store.storage.peersRevision()
      #expect(try await redeem(other, by: holder, in: store) == .redeemed)
      #expect(try await !store.storage.hasOpenInvitation(now: store.now))
      #expect(try await store.storage.peersRevision() == last)
      #expect(try await store.storage.peers() == [beta])
    }
  }

  @Test(arguments: Backend.allCases)
  func `if many peers redeem one invitation at once, one is added`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      try await store.storage.saveInvitation(invitation(expiresIn: .seconds(60), of: store))
      let revision = try await store.storage.peersRevision()
      let outcomes: [Redemption] = try await withThrowingTaskGroup(of: Redemption.self) { group in
        for caller in 0..<16 {
          group.addTask {
            // All by one CA: nothing but the list of peers keeps them apart.
            let peer = try Sample.peer("beta\(caller)", ca: UInt8(caller))
            return try await redeem(secret, by: holder, adding: peer, judgedAt: revision, in: store)
          }
        }
        var outcomes: [Redemption] = []
        for try await outcome in group { outcomes.append(outcome) }
        return outcomes
      }
      #expect(outcomes.filter { $0 == .redeemed }.count == 1)
      #expect(outcomes.filter { $0 == .outdated }.count == 15)
      #expect(try await store.storage.peers().count == 1)
    }
  }

  @Test(arguments: Backend.allCases)
  func `invitations are listed until they end, and withdrawn`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let storage = store.storage
      let first = invitation(expiresIn: .seconds(60), of: store)
      let second = Invitation(secretHash: other, expires: store.now.adding(.seconds(90)), scopes: [.keys])
      for invitation in [second, first] { try await storage.saveInvitation(invitation) }
      #expect(try await storage.invitations(now: store.now).map(\.invitation) == [first, second])
      #expect(try await redeem(second.secretHash, by: holder, in: store) == .redeemed)
      #expect(try await storage.invitations(now: store.now).map(\.redeemedBy) == [nil, holder])
      #expect(try await storage.invitations(now: first.expires).map(\.invitation) == [second])

      #expect(try await storage.withdrawInvitation(secretHash: first.secretHash))
      #expect(try await !storage.withdrawInvitation(secretHash: first.secretHash))
      #expect(try await redeem(first.secretHash, by: holder, in: store) == .refused)
      #expect(try await !storage.hasOpenInvitation(now: store.now))
      #expect(try await storage.invitations(now: store.now).map(\.invitation) == [second])
    }
  }

  @Test(arguments: Backend.allCases)
  func `a used invitation brings no suspended or removed peer back`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let peer = try Sample.peer("beta")
      let ends: [@Sendable () async throws -> Bool] = [
        { try await store.storage.setPeerState(.suspended, of: peer.name) },
        { try await store.storage.removePeer(peer.name) == .removed },
      ]
      for end in ends {
        let (used, open) = (
          invitation(expiresIn: .seconds(60), of: store),
          Invitation(secretHash: other, expires: store.now.adding(.seconds(60)), scopes: [.keys])
        )
        for invitation in [used, open] { try await store.storage.saveInvitation(invitation) }
        #expect(try await redeem(used.secretHash, by: holder, in: store) == .redeemed)
        #expect(try await store.storage.savePeer(peer))
        #expect(try await end())
        #expect(try await redeem(used.secretHash, by: holder, in: store) == .refused)
        #expect(try await redeem(open.secretHash, by: holder, in: store) == .redeemed)
      }
    }
  }

  @Test(arguments: Backend.allCases)
  func `of 16 CAs that redeem at once, one succeeds`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      try await store.storage.saveInvitation(invitation(expiresIn: .seconds(60), of: store))
      let redeemed = try await withThrowingTaskGroup(of: Bool.self) { group in
        for caller in 0..<16 {
          group.addTask {
            try await redeem(secret, by: Array(repeating: UInt8(caller), count: 32), in: store) == .redeemed
          }
        }
        return try await group.reduce(0) { $0 + ($1 ? 1 : 0) }
      }
      #expect(redeemed == 1)
    }
  }

  @Test(arguments: Backend.allCases)
  func `an expired invitation is refused, to its first holder too`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let invitation = invitation(expiresIn: .seconds(60), of: store)
      try await store.storage.saveInvitation(invitation)
      #expect(try await redeem(secret, by: holder, at: invitation.expires, in: store) == .refused)
      let before = Timestamp(millis: invitation.expires.millis - 1)
      #expect(try await redeem(secret, by: holder, at: before, in: store) == .redeemed)
      #expect(try await redeem(secret, by: holder, at: invitation.expires, in: store) == .refused)
    }
  }

  @Test(arguments: Backend.allCases)
  func `an invitation is open until it expires or is used`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      #expect(try await !store.storage.hasOpenInvitation(now: store.now))
      let invitation = invitation(expiresIn: .seconds(60), of: store)
      try await store.storage.saveInvitation(invitation)
      #expect(try await store.storage.hasOpenInvitation(now: store.now))
      #expect(try await !store.storage.hasOpenInvitation(now: invitation.expires))
    }
  }
}
