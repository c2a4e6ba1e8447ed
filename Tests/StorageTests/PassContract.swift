import RelayCore
import Storage
import TestSupport
import TestTags
import Testing

// Readings of what peers list that begin, and may not end.

@Suite(.tags(.stores)) struct PassContract {
  private static func listed(_ indices: Range<Int>, isInactive: Bool = false) throws -> [ListedAccount] {
    try indices.map {
      ListedAccount(token: try Sample.token($0), isInactive: isInactive, supportsSMS: true, voice: true)
    }
  }

  @Test(arguments: Backend.allCases)
  func `each pass that begins is above all before it, finished or not`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let (storage, beta) = (store.storage, try Sample.relay("beta"))
      #expect(try await storage.beginContacts(of: beta) == nil)
      for name in ["beta", "gamma"] { #expect(try await storage.savePeer(Sample.peer(name))) }
      for pass: Int64 in 1...3 { #expect(try await storage.beginContacts(of: beta) == pass) }
      #expect(try await storage.beginContacts(of: Sample.relay("gamma")) == 1)
      #expect(try await storage.contactsPass(of: beta).pass == 0)
      try await storage.finishContacts(of: beta, pass: 3, mark: "m")
      #expect(try await storage.beginContacts(of: beta) == 4)
      // One that was finished by a process that asked for none.
      try await storage.finishContacts(of: beta, pass: 7, mark: "m")
      #expect(try await storage.beginContacts(of: beta) == 8)
      // The end of the copy outruns what has begun.
      #expect(try await storage.beginContacts(of: beta) == 9)
      #expect(try await storage.changePeerPolicy(PeerPolicyChange(contacts: .query), of: beta))
      #expect(try await storage.changePeerPolicy(PeerPolicyChange(contacts: .copy), of: beta))
      try await storage.finishContacts(of: beta, pass: 9, mark: "late")
      #expect(try await storage.contactsPass(of: beta).mark == nil)
      #expect(try #require(await storage.beginContacts(of: beta)) > 9)
    }
  }

  @Test(arguments: Backend.allCases)
  func `leftovers of interrupted passes stay listed until a complete one has not seen them`(_ backend: Backend)
    async throws
  {
    try await backend.withStore { store in
      let (storage, beta, gamma) = (store.storage, try Sample.relay("beta"), try Sample.relay("gamma"))
      for name in ["beta", "gamma"] { #expect(try await storage.savePeer(Sample.peer(name))) }
      func begin() async throws -> Int64 { try #require(await storage.beginContacts(of: beta)) }
      func counts() async throws -> ContactCounts { try await storage.contactCounts(of: beta) }
      try await storage.mergeContacts(Self.listed(0..<20), of: gamma, pass: 9)
      let first = try await begin()
      try await storage.mergeContacts(Self.listed(0..<5), of: beta, pass: first)
      try await storage.finishContacts(of: beta, pass: first, mark: "m")
      try await storage.applyContactChanges(Self.listed(5..<6), of: beta, mark: "n")

      try await storage.mergeContacts(Self.listed(6..<10), of: beta, pass: begin())
      _ = try await begin()
      #expect(try await counts() == ContactCounts(listed: 10, unlisted: 0))
      #expect(try await storage.contactsPass(of: beta).mark == "n")

      let last = try await begin()
      try await storage.mergeContacts(Self.listed(0..<2), of: beta, pass: last)
      try await storage.finishContacts(of: beta, pass: last, mark: "o")
      #expect(try await counts() == ContactCounts(listed: 2, unlisted: 8))
      #expect(try await storage.contactCount(of: gamma) == 20)
    }
  }

  @Test(arguments: Backend.allCases)
  func `the kept tokens of one peer alone are told`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let (storage, beta) = (store.storage, try Sample.relay("beta"))
      for name in ["beta", "gamma"] { #expect(try await storage.savePeer(Sample.peer(name))) }
      try await storage.mergeContacts(Self.listed(0..<3), of: beta, pass: 1)
      try await storage.mergeContacts(Self.listed(2..<6), of: Sample.relay("gamma"), pass: 1)
      let tokens = try (1..<5).map { try Sample.token($0) }
      let kept = try await storage.keptContacts(among: tokens + tokens, of: beta)
      #expect(try kept == [Sample.token(1), Sample.token(2)])
      #expect(try await storage.keptContacts(among: [], of: beta).isEmpty)
    }
  }
}
