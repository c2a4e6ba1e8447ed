import RelayCore
import Storage
import TestTags
import Testing

@Suite(.tags(.stores)) struct AuditContract {
  private static let anna = AuditActor.user("anna")
  private static let robot = AuditActor.token("robot")

  @Test(arguments: Backend.allCases)
  func `noted entries come back in their order, with their outcome`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let storage = store.storage
      let deeds = [
        AuditDeed(by: Self.anna, action: "peer set", subject: "beta"),
        AuditDeed(by: Self.robot, action: "accounts ban", subject: "4a0c"),
        AuditDeed(by: Self.anna, action: "storage restored", subject: nil),
      ]
      var ids: [Int64] = []
      for deed in deeds { ids.append(try await storage.beginAudit(deed)) }
      #expect(ids == ids.sorted() && Set(ids).count == 3)
      try await storage.endAudit(ids[0], .done)
      try await storage.endAudit(ids[1], .failed(reason: "no such account"))
      let all = try await storage.auditEntries(before: nil, about: nil, limit: 10)
      #expect(all.map(\.id) == ids && all.map(\.deed) == deeds)
      #expect(all.map(\.outcome) == [.done, .failed(reason: "no such account"), .unknown])
      #expect(all.allSatisfy { $0.time.millis > 0 })
      // An entry that has ended stays as it ended.
      try await storage.endAudit(ids[0], .failed(reason: "too late"))
      #expect(try await storage.auditEntries(before: ids[1], about: nil, limit: 10).map(\.outcome) == [.done])

      #expect(try await storage.auditEntries(before: nil, about: nil, limit: 2).map(\.id) == Array(ids[1...]))
      #expect(try await storage.auditEntries(before: ids[2], about: nil, limit: 1).map(\.id) == [ids[1]])
      #expect(try await storage.auditEntries(before: nil, about: "beta", limit: 10).map(\.id) == [ids[0]])
      #expect(try await storage.auditEntries(before: nil, about: "delta", limit: 10).isEmpty)
    }
  }

  @Test(arguments: Backend.allCases) func `texts are one bounded line`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let long = String(repeating: "ä", count: 2_000)
      let id = try await store.storage.beginAudit(
        AuditDeed(by: .user("a\u{0}b\nc\u{1B}[2J"), action: "peer set", subject: long))
      try await store.storage.endAudit(id, .failed(reason: "line\r\nline \(long)"))
      let entry = try #require(try await store.storage.auditEntries(before: nil, about: nil, limit: 1).first)
      #expect(entry.deed.actor == .user("a b c [2J"))
      #expect(entry.deed.subject == String(repeating: "ä", count: AuditLife.textBytesMax / 2))
      guard case .failed(let reason) = entry.outcome else {
        Issue.record("the outcome is \(entry.outcome)")
        return
      }
      #expect(reason.hasPrefix("line line ä") && reason.utf8.count <= AuditLife.textBytesMax)
    }
  }

  @Test(arguments: Backend.allCases)
  func `a deed is noted before it is done, and how it ended`(_ backend: Backend) async throws {
    struct Refusal: Error {}
    try await backend.withStore { store in
      let storage = store.storage
      let deed = AuditDeed(by: Self.anna, action: "peer remove", subject: "beta")
      let value = try await storage.noting(deed, reason: { _ in "" }) {
        let entries = try await storage.auditEntries(before: nil, about: nil, limit: 1)
        #expect(entries.map(\.outcome) == [.unknown])
        return 7
      }
      #expect(value == 7)
      await #expect(throws: Refusal.self) {
        try await storage.noting(deed, reason: { "\(type(of: $0))" }) { throw Refusal() }
      }
      let outcomes = try await storage.auditEntries(before: nil, about: "beta", limit: 9).map(\.outcome)
      #expect(outcomes == [.done, .failed(reason: "Refusal")])
    }
  }

  @Test(arguments: Backend.withClock) func `entries end after their time`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let deed = AuditDeed(by: Self.anna, action: "peer set", subject: nil)
      _ = try await store.storage.beginAudit(deed)
      store.clock.advance(.seconds(86_400))
      let younger = try await store.storage.beginAudit(deed)
      // A day at a time: a clock that jumps is not believed.
      for _ in 0..<AuditLife.days {
        _ = try await store.storage.maintain(RetentionTerms())
        store.clock.advance(.seconds(86_400))
      }
      _ = try await store.storage.maintain(RetentionTerms())
      #expect(try await store.storage.auditEntries(before: nil, about: nil, limit: 9).map(\.id) == [younger])
    }
  }
}

@Suite(.tags(.stores)) struct AccountHandleContract {
  @Test(arguments: Backend.allCases)
  func `a handle is the number's for good, and tells nothing of it`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      var seen: Set<AccountHandle> = []
      for index in 0..<50 {
        let number = try Sample.number(index)
        let handle = try await store.storage.handle(of: number)
        #expect(try await store.storage.handle(of: number) == handle)
        #expect(try await store.storage.number(of: handle) == number)
        #expect(AccountHandle(handle.text) == handle && AccountHandle(handle.text.uppercased()) == handle)
        #expect(!handle.text.contains(String(number.digits)))
        seen.insert(handle)
      }
      #expect(seen.count == 50)
      let strange = try #require(AccountHandle("00000000-0000-4000-8000-000000000000"))
      #expect(try await store.storage.number(of: strange) == nil)
    }
  }

  @Test(arguments: Backend.allCases) func `each relay has handles of its own`(_ backend: Backend) async throws {
    let number = try Sample.number(1)
    var first: AccountHandle?
    try await backend.withStore { store in first = try await store.storage.handle(of: number) }
    try await backend.withStore { store in
      let (own, strange) = (try await store.storage.handle(of: number), try #require(first))
      #expect(own != strange)
      #expect(try await store.storage.number(of: strange) == nil)
    }
  }

  @Test(
    arguments: [
      "", "+14155550100", "00000000-0000-4000-8000-00000000000", "00000000-0000-4000-8000-0000000000000",
      "0000000000004000800000000000000000", "g0000000-0000-4000-8000-000000000000",
      "00000000_0000-4000-8000-000000000000",
    ])
  func `a malformed handle is none`(_ text: String) {
    #expect(AccountHandle(text) == nil)
  }
}
