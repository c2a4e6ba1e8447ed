import RelayCore
import Storage
import TestSupport
import TestTags
import Testing

// The contacts that peers list, as they feed them to us, and the peers that list them.

@Suite(.tags(.stores)) struct ContactContract {
  private static func listed(_ index: Int, voice: Bool = false, isInactive: Bool = false) throws -> ListedAccount {
    try ListedAccount(token: Sample.token(index), isInactive: isInactive, supportsSMS: true, voice: voice)
  }

  @Test(arguments: Backend.allCases)
  func `changes add, refresh and remove on top of the last pass, with their mark`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let (storage, beta) = (store.storage, try Sample.relay("beta"))
      #expect(try await storage.savePeer(Sample.peer("beta")))
      try await storage.mergeContacts([Self.listed(1), Self.listed(2), Self.listed(3)], of: beta, pass: 4)
      try await storage.finishContacts(of: beta, pass: 4, mark: "first")

      try await storage.applyContactChanges(
        [
          Self.listed(1, voice: true), Self.listed(2, isInactive: true), Self.listed(5),
          // If a token comes twice the later one counts.
          Self.listed(6), Self.listed(6, isInactive: true), Self.listed(7, isInactive: true), Self.listed(7),
        ], of: beta, mark: "second")
      let entries = try await storage.entries(for: (0..<9).map { try Sample.token($0) })
      let expected = try [Self.listed(1, voice: true), Self.listed(3), Self.listed(5), Self.listed(7)]
      #expect(
        entries.sorted { $0.token < $1.token }
          == expected.map {
            DirectoryEntry(token: $0.token, relay: beta, supportsSMS: $0.supportsSMS, voice: $0.voice)
          })
      let pass = try await storage.contactsPass(of: beta)
      #expect(pass.pass == 4 && pass.mark == "second")

      // No change is a place in the feed, too.
      try await storage.applyContactChanges([], of: beta, mark: "third")
      #expect(try await storage.contactsPass(of: beta).mark == "third")
      // The next pass judges what came by the feed as what it saw itself.
      try await storage.mergeContacts([Self.listed(5)], of: beta, pass: 5)
      try await storage.finishContacts(of: beta, pass: 5, mark: "fourth")
      #expect(try await storage.contactCount(of: beta) == 1)
    }
  }

  @Test(arguments: Backend.allCases)
  func `changes of a peer that does not exist are not stored`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let name = try Sample.relay("nobody")
      try await store.storage.applyContactChanges([Self.listed(1)], of: name, mark: "m")
      #expect(try await store.storage.savePeer(Sample.peer("nobody")))
      #expect(try await store.storage.contactsPass(of: name).mark == nil)
      #expect(try await store.storage.contactCount(of: name) == 0)
      #expect(try await store.storage.claimants(of: Sample.token(1)).isEmpty)
    }
  }

  @Test(arguments: Backend.allCases)
  func `a token's listers are its active peers, the first of them first`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let (storage, token) = (store.storage, try Sample.token(1))
      let (alpha, beta, gamma) = try (Sample.relay("alpha"), Sample.relay("beta"), Sample.relay("gamma"))
      for name in [gamma, alpha, beta] { #expect(try await storage.savePeer(Sample.peer(name.text))) }
      func first() async throws -> RelayName? { try await storage.entries(for: [token]).first?.relay }
      try await storage.mergeContacts([Self.listed(1)], of: gamma, pass: 1)
      try await Self.later(store)
      try await storage.mergeContacts([Self.listed(1)], of: alpha, pass: 1)
      try await storage.applyContactChanges([Self.listed(2)], of: beta, mark: "m")
      #expect(try await storage.claimants(of: token) == [gamma, alpha])
      try await Self.later(store)
      try await storage.applyContactChanges([Self.listed(1)], of: beta, mark: "m")
      #expect(try await storage.claimants(of: token) == [gamma, alpha, beta])
      #expect(try await first() == gamma)
      // Saying it again neither costs nor wins a place, by a pass or by the feed.
      try await Self.later(store)
      try await storage.mergeContacts([Self.listed(1, voice: true)], of: gamma, pass: 2)
      try await storage.applyContactChanges([Self.listed(1, voice: true)], of: alpha, mark: "m")
      try await storage.finishContacts(of: gamma, pass: 2, mark: "m")
      #expect(try await storage.claimants(of: token) == [gamma, alpha, beta])
      // Giving it up leaves a claim: nobody has it until that ends.
      try await storage.applyContactChanges([Self.listed(1, isInactive: true)], of: gamma, mark: "m")
      #expect(try await first() == nil)
      #expect(try await storage.claimants(of: token) == [gamma, alpha, beta])
      #expect(try await storage.endClaims(of: gamma, afterDays: -1) == EndedClaims(ended: 1, passed: 1))
      #expect(try await first() == alpha)
      try await storage.applyContactChanges([Self.listed(1)], of: gamma, mark: "m")
      #expect(try await storage.claimants(of: token) == [alpha, beta, gamma])
      #expect(try await storage.setPeerState(.suspended, of: alpha))
      #expect(try await first() == beta)
      #expect(try await storage.removePeer(gamma) == .removed)
      #expect(try await storage.claimants(of: token) == [beta])
      #expect(try await storage.claimants(of: Sample.token(3)).isEmpty)
    }
  }

  /// By the injected clock, or by the server's.
  private static func later(_ store: Store) async throws {
    store.clock.advance(.milliseconds(5))
    try await Task.sleep(for: .milliseconds(5))
  }

  @Test(arguments: Backend.allCases)
  func `if no copy is wanted none is kept, and the next one begins anew`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let (storage, beta, token) = (store.storage, try Sample.relay("beta"), try Sample.token(1))
      for name in ["beta", "gamma"] { #expect(try await storage.savePeer(Sample.peer(name))) }
      for contacts in [PeerPolicy.Contacts.query, .none] {
        let pass = try await storage.contactsPass(of: beta).pass + 1
        try await storage.mergeContacts([Self.listed(1)], of: beta, pass: pass)
        try await storage.finishContacts(of: beta, pass: pass, mark: "m")
        try await storage.mergeContacts([Self.listed(9)], of: Sample.relay("gamma"), pass: 1)
        #expect(try await storage.changePeerPolicy(PeerPolicyChange(contacts: contacts), of: beta))
        #expect(try await storage.entries(for: [token]).isEmpty)
        #expect(try await storage.claimants(of: token).isEmpty)
        #expect(try await storage.contactCount(of: beta) == 0)
        // Contacts that were on their way come too late.
        try await storage.mergeContacts([Self.listed(1)], of: beta, pass: pass + 1)
        try await storage.applyContactChanges([Self.listed(1)], of: beta, mark: "late")
        try await storage.finishContacts(of: beta, pass: pass + 1, mark: "late")
        #expect(try await storage.contactCount(of: beta) == 0)

        #expect(try await storage.changePeerPolicy(PeerPolicyChange(contacts: .copy), of: beta))
        try await storage.finishContacts(of: beta, pass: pass + 1, mark: "late")
        let next = try await storage.contactsPass(of: beta)
        #expect(next.pass > pass && next.mark == nil)
      }
      #expect(try await storage.contactCount(of: Sample.relay("gamma")) == 1)
    }
  }

  @Test(arguments: Backend.allCases)
  func `a claim of a peer stops a registration where claims count, and only there`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let (storage, beta) = (store.storage, try Sample.relay("beta"))
      #expect(try await storage.savePeer(Sample.peer("beta")))
      let claims = try (1...3).map {
        ListedAccount(token: try Sample.token(Sample.number($0)), isInactive: false, supportsSMS: true, voice: true)
      }
      try await storage.mergeContacts(claims, of: beta, pass: 1)
      #expect(try await store.register(Sample.registration(1)) == .numberElsewhere)
      #expect(try await store.register(Self.ignoringClaims(1)) == .registered)
      // Local proof beats the claim.
      #expect(try await storage.entries(for: [claims[0].token]).map(\.relay) == [nil])
      // From then on the number has an account here.
      #expect(try await store.register(Sample.registration(1)) == .registered)
      // A wrong code is one all the same.
      let ignoring = try Self.ignoringClaims(2)
      #expect(try await store.use(Secret("654321"), for: ignoring) == .codeRefused)
      // A peer that is asked at look-up time claims nothing.
      #expect(try await storage.changePeerPolicy(PeerPolicyChange(contacts: .query), of: beta))
      #expect(try await store.register(Sample.registration(3)) == .registered)
    }
  }

  private static func ignoringClaims(_ index: Int) throws -> Registration {
    let sample = try Sample.registration(index)
    return Registration(
      number: sample.number, token: sample.token, device: sample.device, supportsSMS: true, voice: true,
      respectsClaims: false)
  }
}
