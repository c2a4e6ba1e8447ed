import RelayCore
import Storage
import TestTags
import Testing

// The ownership of contacts (docs/federation.md, "Whose a contact is").

@Suite(.tags(.stores)) struct ClaimContract {
  private static func listed(_ index: Int, isInactive: Bool = false) throws -> ListedAccount {
    try ListedAccount(token: Sample.token(index), isInactive: isInactive, supportsSMS: true, voice: false)
  }

  /// A store with gamma, which lists contact 1 first, and evil, which lists it later.
  private static func withRivals(
    on backend: Backend,
    _ body: (_ store: Store, _ gamma: RelayName, _ evil: RelayName, _ token: ContactToken) async throws -> Void
  ) async throws {
    try await backend.withStore { store in
      let (gamma, evil) = try (Sample.relay("gamma"), Sample.relay("evil"))
      for name in [gamma, evil] { #expect(try await store.storage.savePeer(Sample.peer(name.text))) }
      try await store.storage.mergeContacts([listed(1)], of: gamma, pass: 1)
      try await store.storage.finishContacts(of: gamma, pass: 1, mark: "m")
      store.clock.advance(.milliseconds(5))
      try await Task.sleep(for: .milliseconds(5))
      try await store.storage.mergeContacts([listed(1)], of: evil, pass: 1)
      try await store.storage.finishContacts(of: evil, pass: 1, mark: "m")
      try await body(store, gamma, evil, Sample.token(1))
    }
  }

  private static func owner(of token: ContactToken, in store: Store) async throws -> RelayName? {
    let entries = try await store.storage.entries(for: [token])
    // A reader of the whole directory sees the same.
    let whole = try await DirectoryReader(of: store.storage)
    #expect(whole.entries[token]?.relay == entries.first?.relay)
    return entries.first?.relay
  }

  /// The way by which gamma's listing loses the contact.
  enum Loss: String, CaseIterable { case feed, page, wholeReading }

  @Test(
    arguments: Backend.allCases,
    Loss.allCases)
  func `a contact that is un-listed and listed again stays with who listed it first`(_ backend: Backend, loss: Loss)
    async throws
  {
    try await Self.withRivals(on: backend) { store, gamma, evil, token in
      let storage = store.storage
      var reader = try await DirectoryReader(of: storage)
      #expect(reader.entries[token]?.relay == gamma)
      switch loss {
      case .feed: try await storage.applyContactChanges([Self.listed(1, isInactive: true)], of: gamma, mark: "m")
      case .page: try await storage.mergeContacts([Self.listed(1, isInactive: true)], of: gamma, pass: 2)
      case .wholeReading: try await storage.finishContacts(of: gamma, pass: 2, mark: "m")
      }
      #expect(try await Self.owner(of: token, in: store) == nil)
      #expect(try await reader.follow() > 0)
      #expect(reader.entries[token] == nil)
      #expect(try await storage.claimants(of: token) == [gamma, evil])
      #expect(try await storage.contactCounts(of: gamma) == ContactCounts(listed: 0, unlisted: 1))
      // Saying it again wins evil nothing, nor does un-listing a tombstone lengthen it.
      let before = try await storage.claims(to: token)
      try await storage.applyContactChanges([Self.listed(1)], of: evil, mark: "n")
      try await storage.applyContactChanges([Self.listed(1, isInactive: true)], of: gamma, mark: "n")
      #expect(try await storage.claims(to: token) == before)
      #expect(try await Self.owner(of: token, in: store) == nil)

      try await storage.mergeContacts([Self.listed(1)], of: gamma, pass: 9)
      #expect(try await Self.owner(of: token, in: store) == gamma)
      #expect(try await reader.follow() > 0)
      #expect(reader.entries[token]?.relay == gamma)
      #expect(try await storage.contactCounts(of: gamma) == ContactCounts(listed: 1, unlisted: 0))
      #expect(try await storage.takeUntoldPasses() == 0)
    }
  }

  @Test(arguments: Backend.allCases)
  func `a contact that was never listed leaves no claim`(_ backend: Backend) async throws {
    try await Self.withRivals(on: backend) { store, gamma, evil, _ in
      let inactive = [try Self.listed(2, isInactive: true)]
      try await store.storage.mergeContacts(inactive, of: evil, pass: 1)
      try await store.storage.applyContactChanges(inactive, of: evil, mark: "m")
      #expect(try await store.storage.claimants(of: Sample.token(2)).isEmpty)
      try await store.storage.applyContactChanges([Self.listed(2)], of: gamma, mark: "m")
      #expect(try await Self.owner(of: Sample.token(2), in: store) == gamma)
    }
  }

  @Test(arguments: Backend.allCases)
  func `a tombstone ends after its days, and the contact passes to the next claim`(_ backend: Backend) async throws {
    try await Self.withRivals(on: backend) { store, gamma, evil, token in
      let storage = store.storage
      try await storage.applyContactChanges(
        [Self.listed(1, isInactive: true), Self.listed(2), Self.listed(2, isInactive: true)], of: gamma, mark: "m")
      var reader = try await DirectoryReader(of: storage)
      #expect(try await storage.endClaims(of: gamma, afterDays: 1) == EndedClaims(ended: 0, passed: 0))
      #expect(try await storage.endClaims(of: evil, afterDays: -1) == EndedClaims(ended: 0, passed: 0))
      #expect(try await Self.owner(of: token, in: store) == nil)
      let ended = try await storage.endClaims(of: gamma, afterDays: -1)
      #expect(ended.ended >= 1 && ended.passed == 1)
      #expect(try await Self.owner(of: token, in: store) == evil)
      #expect(try await reader.follow() > 0)
      #expect(reader.entries[token]?.relay == evil)
      #expect(try await storage.takeUntoldPasses() == 1)
      #expect(try await storage.contactCounts(of: gamma) == .none)
      // A peer that comes back now comes second.
      try await storage.applyContactChanges([Self.listed(1)], of: gamma, mark: "m")
      #expect(try await storage.claimants(of: token) == [evil, gamma])
    }
  }

  @Test(arguments: Backend.allCases)
  func `the end of a claim that had nothing passes nothing`(_ backend: Backend) async throws {
    try await Self.withRivals(on: backend) { store, gamma, evil, token in
      try await store.storage.applyContactChanges([Self.listed(1, isInactive: true)], of: evil, mark: "m")
      #expect(try await store.storage.endClaims(of: evil, afterDays: -1) == EndedClaims(ended: 1, passed: 0))
      #expect(try await Self.owner(of: token, in: store) == gamma)
      #expect(try await store.storage.takeUntoldPasses() == 0)
    }
  }

  @Test(arguments: Backend.allCases)
  func `the operator's word puts a peer first, at once and for good`(_ backend: Backend) async throws {
    try await Self.withRivals(on: backend) { store, gamma, evil, token in
      let storage = store.storage
      var reader = try await DirectoryReader(of: storage)
      #expect(try await storage.setContactOwner(of: token, to: evil) == gamma)
      #expect(try await storage.setContactOwner(of: token, to: evil) == evil)
      #expect(try await Self.owner(of: token, in: store) == evil)
      #expect(try await reader.follow() > 0)
      #expect(reader.entries[token]?.relay == evil)
      #expect(try await storage.claimants(of: token) == [evil, gamma])
      try await storage.applyContactChanges([Self.listed(1)], of: gamma, mark: "m")
      #expect(try await Self.owner(of: token, in: store) == evil)
      #expect(try await storage.setContactOwner(of: token, to: gamma) == evil)
      #expect(try await Self.owner(of: token, in: store) == gamma)
      #expect(try await storage.takeUntoldPasses() == 2)
      // A peer that does not list it has it all the same, and nobody else.
      let delta = try Sample.relay("delta")
      #expect(try await storage.savePeer(Sample.peer("delta")))
      #expect(try await storage.setContactOwner(of: token, to: delta) == gamma)
      #expect(try await Self.owner(of: token, in: store) == nil)
      #expect(try await storage.claims(to: token).map(\.peer) == [delta, gamma, evil])
      await #expect(throws: StoreError.self) {
        try await storage.setContactOwner(of: token, to: Sample.relay("nobody"))
      }
      // Nor is it in the directory any more where it is a peer's that is asked.
      let epsilon = try Sample.relay("epsilon")
      #expect(try await storage.savePeer(Sample.peer("epsilon")))
      #expect(try await storage.changePeerPolicy(PeerPolicyChange(contacts: .query), of: epsilon))
      #expect(try await storage.setContactOwner(of: token, to: evil) == delta)
      while try await reader.follow() > 0 {}
      #expect(reader.entries[token]?.relay == evil)
      #expect(try await storage.setContactOwner(of: token, to: epsilon) == evil)
      #expect(try await reader.follow() > 0)
      #expect(reader.entries[token] == nil)
    }
  }

  @Test(arguments: Backend.allCases)
  func `the claims of a removed peer end, and those of a suspended one rest`(_ backend: Backend) async throws {
    try await Self.withRivals(on: backend) { store, gamma, evil, token in
      let storage = store.storage
      try await storage.applyContactChanges([Self.listed(1, isInactive: true)], of: gamma, mark: "m")
      #expect(try await storage.setPeerState(.suspended, of: gamma))
      #expect(try await Self.owner(of: token, in: store) == evil)
      #expect(try await storage.claims(to: token).map(\.stands) == [true, false])
      #expect(try await storage.setPeerState(.active, of: gamma))
      #expect(try await Self.owner(of: token, in: store) == nil)
      var reader = try await DirectoryReader(of: storage)
      #expect(try await storage.removePeer(gamma) == .removed)
      #expect(try await Self.owner(of: token, in: store) == evil)
      #expect(try await reader.follow() > 0)
      #expect(reader.entries[token]?.relay == evil)
      #expect(try await storage.savePeer(Sample.peer("gamma")))
      try await storage.mergeContacts([Self.listed(1)], of: gamma, pass: 1)
      #expect(try await storage.claimants(of: token) == [evil, gamma])
    }
  }

  @Test(arguments: Backend.allCases)
  func `a number with an account here is no peer's, though it is hidden or inactive`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let (storage, evil) = (store.storage, try Sample.relay("evil"))
      #expect(try await storage.savePeer(Sample.peer("evil")))
      let token = try Sample.token(Sample.number(1))
      let claim = ListedAccount(token: token, isInactive: false, supportsSMS: true, voice: true)
      try await storage.mergeContacts([claim], of: evil, pass: 1)
      var reader = try await DirectoryReader(of: storage)
      #expect(reader.entries[token]?.relay == evil)
      // Never reachable, so never found itself.
      #expect(try await store.register(Self.proven(isReachable: false)) == .registered)
      #expect(try await Self.owner(of: token, in: store) == nil)
      #expect(try await reader.follow() > 0)
      #expect(reader.entries[token] == nil)
      #expect(try await storage.contactOwners(of: [token]) == [ContactOwner(token: token, holder: .local)])
      // Found, and hidden again.
      #expect(try await store.register(Self.proven()) == .registered)
      #expect(try await storage.entries(for: [token]).map(\.relay) == [nil])
      var change = DeviceChange()
      change.isDiscoverable = .set(false)
      #expect(try await storage.updateDevice(Sample.address(1), change))
      #expect(try await Self.owner(of: token, in: store) == nil)
      _ = try await reader.follow()
      #expect(reader.entries[token] == nil)
    }
  }

  /// A registration of account 1, whatever peers claim.
  private static func proven(isReachable: Bool = true) throws -> Registration {
    let sample = try Sample.registration(1, isReachable: isReachable)
    return Registration(
      number: sample.number, token: sample.token, device: sample.device, supportsSMS: true, voice: true,
      respectsClaims: false)
  }

  @Test(arguments: Backend.allCases)
  func `contacts that several claim are counted, both ways`(_ backend: Backend) async throws {
    try await Self.withRivals(on: backend) { store, gamma, evil, _ in
      let storage = store.storage
      try await storage.mergeContacts([Self.listed(2), Self.listed(3)], of: gamma, pass: 1)
      store.clock.advance(.milliseconds(5))
      try await Task.sleep(for: .milliseconds(5))
      let ours = try Sample.token(Sample.number(1))
      try await storage.mergeContacts(
        [Self.listed(2), Self.listed(4), .init(token: ours, isInactive: false, supportsSMS: true, voice: true)],
        of: evil, pass: 1)
      #expect(
        try await storage.contestedContacts() == [gamma: ContestedContacts(own: 2), evil: ContestedContacts(others: 2)])
      #expect(try await store.register(Self.proven()) == .registered)
      #expect(
        try await storage.contestedContacts() == [gamma: ContestedContacts(own: 2), evil: ContestedContacts(others: 3)])
      #expect(try await storage.setPeerState(.suspended, of: gamma))
      #expect(try await storage.contestedContacts() == [evil: ContestedContacts(others: 1)])
    }
  }

  @Test(arguments: Backend.allCases)
  func `the answer of an asked peer is remembered, bounded, and its own alone`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let (storage, gamma, evil) = (store.storage, try Sample.relay("gamma"), try Sample.relay("evil"))
      for name in [gamma, evil] {
        #expect(try await storage.savePeer(Sample.peer(name.text)))
        #expect(try await storage.changePeerPolicy(PeerPolicyChange(contacts: .query), of: name))
      }
      let tokens = try (0..<4).map { try Sample.token($0) }
      #expect(
        try await storage.rememberClaims(to: Array(tokens[0..<2]), of: gamma, keepingAtMost: 10) == Set(tokens[0..<2]))
      // Another peer's contact is not remembered, nor is one that there is no room for. A known one needs no room.
      #expect(
        try await storage.rememberClaims(to: Array(tokens[1..<4]), of: evil, keepingAtMost: 2) == [
          tokens[2], tokens[3],
        ])
      #expect(
        try await storage.rememberClaims(to: Array(tokens[2..<4]), of: evil, keepingAtMost: 2) == [
          tokens[2], tokens[3],
        ])
      #expect(try await storage.rememberClaims(to: [Sample.token(7)], of: evil, keepingAtMost: 2).isEmpty)
      let owners = try await storage.contactOwners(of: tokens + [Sample.token(9)])
      #expect(
        Dictionary(uniqueKeysWithValues: owners.map { ($0.token, $0.holder) }) == [
          tokens[0]: .peer(gamma, isDue: false), tokens[1]: .peer(gamma, isDue: false),
          tokens[2]: .peer(evil, isDue: false), tokens[3]: .peer(evil, isDue: false),
        ])
      #expect(try await storage.claimants(of: tokens[0]) == [gamma])
      // It is no copy: nothing of it is in the directory, and it stays where other terms change.
      #expect(try await storage.entries(for: tokens).isEmpty)
      #expect(try await storage.contactCounts(of: gamma) == ContactCounts(listed: 0, unlisted: 2))
      #expect(try await storage.changePeerPolicy(PeerPolicyChange(holdsMessages: true, contacts: .query), of: gamma))
      try await storage.dropContacts(of: gamma, keepingClaims: true)
      #expect(try await storage.contactCounts(of: gamma).claims == 2)
      // A copy of another's listing comes behind it; its own copy goes on with it.
      store.clock.advance(.milliseconds(5))
      try await Task.sleep(for: .milliseconds(5))
      #expect(try await storage.changePeerPolicy(PeerPolicyChange(contacts: .copy), of: evil))
      try await storage.mergeContacts([Self.listed(0)], of: evil, pass: 9)
      #expect(try await storage.entries(for: tokens).isEmpty)
      #expect(try await storage.changePeerPolicy(PeerPolicyChange(contacts: .copy), of: gamma))
      try await storage.mergeContacts([Self.listed(0)], of: gamma, pass: 9)
      #expect(try await Self.owner(of: tokens[0], in: store) == gamma)
      #expect(try await storage.rememberClaims(to: [tokens[1]], of: gamma, keepingAtMost: 10).isEmpty)
      // Peers whose contacts are not to be found claim nothing.
      #expect(try await storage.changePeerPolicy(PeerPolicyChange(contacts: PeerPolicy.Contacts.none), of: gamma))
      #expect(try await storage.contactCounts(of: gamma) == .none)
      #expect(try await Self.owner(of: tokens[0], in: store) == evil)
    }
  }

  @Test(arguments: Backend.allCases)
  func `an account that was never listed is in no listing, and one hidden later is there once`(_ backend: Backend)
    async throws
  {
    try await backend.withStore { store in
      let storage = store.storage
      let (start, revision) = (try await storage.listingCursor(), try await storage.accountsRevision())
      let hidden = try Sample.registration(1)
      let registration = Registration(
        number: hidden.number, token: hidden.token, device: hidden.device, supportsSMS: true, voice: true,
        isDiscoverable: false)
      for _ in 0..<2 { #expect(try await store.register(registration) == .registered) }
      #expect(try await store.register(Sample.registration(2, isReachable: false)) == .registered)
      func change(_ index: Int, _ edit: (inout DeviceChange) -> Void) async throws {
        var change = DeviceChange()
        edit(&change)
        #expect(try await storage.updateDevice(Sample.address(index), change))
      }
      try await change(1) { $0.voice = .set(false) }
      try await change(2) { $0.supportsSMS = .set(false) }
      // Not even that something has happened.
      #expect(try await storage.listingCursor() == start)
      #expect(try await storage.accountsRevision() == revision)
      #expect(try await storage.accountCount() == 0)
      #expect(try await storage.accounts(offset: 0, limit: 10).isEmpty)
      #expect(try await storage.listingChanges(after: start, limit: 10)?.accounts == [])

      try await store.register(Sample.registration(3, voice: true))
      try await change(3) { $0.isDiscoverable = .set(false) }
      let shown = try await storage.listingCursor()
      try await change(3) { $0.supportsSMS = .set(false) }
      #expect(try await storage.listingCursor() == shown)
      let gone = ListedAccount(
        token: try Sample.token(Sample.number(3)), isInactive: true, supportsSMS: false, voice: false)
      #expect(try await storage.accountCount() == 1)
      #expect(try await storage.accounts(offset: 0, limit: 10) == [gone])
      #expect(try await storage.accounts(offset: 1, limit: 10).isEmpty)
      #expect(try await storage.listingChanges(after: start, limit: 10)?.accounts == [gone])
      #expect(try await storage.listingChanges(after: shown, limit: 10)?.accounts == [])
    }
  }
}
