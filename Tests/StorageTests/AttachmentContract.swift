import RelayCore
import Storage
import TestTags
import Testing

/// Testing has one of its own.
private typealias Attachment = RelayCore.Attachment

@Suite(.tags(.stores)) struct AttachmentContract {
  private static let quota = AttachmentQuota(bytesMax: 100_000)
  private static let later = Sample.noon.adding(.seconds(86_400))

  private static func id(_ value: Int64) throws -> AttachmentID { try Sample.found(AttachmentID(value)) }
  private static func attachment(
    _ value: Int64, of index: Int = 1, expires: Timestamp = Sample.noon
  ) throws -> Attachment {
    try Attachment(id: id(value), account: Sample.number(index), bytes: nil, expires: expires)
  }

  @Test(arguments: Backend.allCases)
  func `an attachment is known from when it was given out until it is removed`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      try await store.registerAccounts(2)
      let (storage, given) = (store.storage, try Self.attachment(.max))
      #expect(try await storage.attachment(given.id) == nil)
      #expect(try await storage.finish(given.id, 10) == .unknown)
      #expect(try await storage.addAttachment(given, quota: Self.quota))
      #expect(try await storage.attachment(given.id) == given)

      #expect(try await storage.finish(given.id, 10) == .finished)
      let uploaded = Attachment(id: given.id, account: given.account, bytes: 10, expires: Self.later)
      #expect(try await storage.attachment(given.id) == uploaded)
      #expect(try await storage.finish(given.id, 20) == .alreadyFinished)
      #expect(try await storage.attachment(given.id) == uploaded)

      try await storage.removeAttachments([])
      try await storage.removeAttachments([given.id, Self.id(1)])
      #expect(try await storage.attachment(given.id) == nil)
      #expect(try await storage.finish(given.id, 10) == .unknown)
      try await storage.removeAttachments([given.id])
    }
  }

  @Test(arguments: Backend.allCases)
  func `an account holds as much as its quota, small ones counted as large`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      try await store.registerAccounts(3)
      let storage = store.storage
      let least = AttachmentQuota.chargeMin
      // An attachment that is not uploaded counts the least, and so does a smaller one.
      let quota = AttachmentQuota(bytesMax: 3 * least)
      for value in 1...3 as ClosedRange<Int64> {
        #expect(try await storage.addAttachment(Self.attachment(value), quota: quota))
      }
      #expect(try await !storage.addAttachment(Self.attachment(4), quota: quota))
      #expect(try await storage.attachment(Self.id(4)) == nil)
      #expect(try await storage.finish(Self.id(1), 1, quota: quota) == .finished)
      #expect(try await storage.finish(Self.id(2), least, quota: quota) == .finished)
      #expect(try await storage.finish(Self.id(3), least + 1, quota: quota) == .quotaExceeded)
      #expect(try await storage.attachment(Self.id(3)) == Self.attachment(3))
      // Other accounts' attachments do not matter.
      #expect(try await storage.addAttachment(Self.attachment(5, of: 2), quota: quota))

      // A removed attachment gives all its room back.
      try await storage.removeAttachments([Self.id(1)])
      #expect(try await storage.finish(Self.id(3), 2 * least, quota: quota) == .finished)
      #expect(try await !storage.addAttachment(Self.attachment(6), quota: quota))
      try await storage.removeAttachments([Self.id(2), Self.id(3), Self.id(3)])
      for value in 7...9 as ClosedRange<Int64> {
        #expect(try await storage.addAttachment(Self.attachment(value), quota: quota))
      }
      #expect(try await !storage.addAttachment(Self.attachment(10), quota: quota))
    }
  }

  @Test(arguments: Backend.allCases)
  func `additions at once do not overrun the quota`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      try await store.registerAccounts(2)
      let quota = AttachmentQuota(bytesMax: 10 * AttachmentQuota.chargeMin)
      let added = try await withThrowingTaskGroup(of: Int64?.self) { group in
        for value in 1...64 as ClosedRange<Int64> {
          group.addTask { try await store.storage.addAttachment(Self.attachment(value), quota: quota) ? value : nil }
        }
        return try await group.reduce(into: [Int64]()) { added, value in if let value { added.append(value) } }
      }
      #expect(added.count == 10)
      // Each would grow to half of all: one can, beside what the others count at least.
      let outcomes = try await withThrowingTaskGroup(of: AttachmentOutcome.self) { group in
        for value in added {
          group.addTask {
            try await store.storage.finish(
              Self.id(value), 5 * AttachmentQuota.chargeMin, quota: .init(bytesMax: 60_000))
          }
        }
        return try await group.reduce(into: []) { $0.append($1) }
      }
      #expect(outcomes.count { $0 == .finished } == 1)
      #expect(outcomes.count { $0 == .quotaExceeded } == 9)
    }
  }

  @Test(arguments: Backend.allCases)
  func `if one attachment is uploaded many times at once, one upload is complete first`(_ backend: Backend) async throws
  {
    try await backend.withStore { store in
      try await store.registerAccounts(2)
      #expect(try await store.storage.addAttachment(Self.attachment(1), quota: Self.quota))
      let finished = try await withThrowingTaskGroup(of: (Int64, AttachmentOutcome).self) { group in
        for bytes in 1...32 as ClosedRange<Int64> {
          group.addTask { (bytes, try await store.storage.finish(Self.id(1), bytes)) }
        }
        return try await group.reduce(into: [Int64]()) { finished, outcome in
          #expect([.finished, .alreadyFinished].contains(outcome.1))
          if outcome.1 == .finished { finished.append(outcome.0) }
        }
      }
      #expect(finished.count == 1)
      #expect(try await store.storage.attachment(Self.id(1))?.bytes == finished.first)
    }
  }

  @Test(arguments: Backend.allCases)
  func `expired attachments are found, the oldest first`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      try await store.registerAccounts(3)
      let storage = store.storage
      for value in [3, 1, 4, 2] as [Int64] {
        let expires = Timestamp(millis: Sample.noon.millis + value)
        let attachment = try Self.attachment(value, of: value == 4 ? 2 : 1, expires: expires)
        #expect(try await storage.addAttachment(attachment, quota: Self.quota))
      }
      // Uploaded, it lives longer.
      #expect(try await storage.finish(Self.id(2), 10, expires: Timestamp(millis: Sample.noon.millis + 9)) == .finished)
      func expired(after millis: Int64, limit: Int = 10) async throws -> [Int64] {
        try await storage.expiredAttachments(before: Timestamp(millis: Sample.noon.millis + millis), limit: limit)
          .map(\.id.value)
      }
      #expect(try await expired(after: 1) == [])
      #expect(try await expired(after: 2) == [1])
      #expect(try await expired(after: 9) == [1, 3, 4])
      #expect(try await expired(after: 10) == [1, 3, 4, 2])
      #expect(try await expired(after: 10, limit: 2) == [1, 3])
      let all = try await storage.expiredAttachments(before: Self.later, limit: 10)
      #expect(all.map(\.bytes) == [nil, nil, nil, 10])
      #expect(try all.map(\.account) == [1, 1, 2, 1].map { try Sample.number($0) })
    }
  }

  @Test(arguments: Backend.allCases)
  func `a registration leaves attachments: they expire by themselves`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      try await store.registerAccounts(2)
      #expect(try await store.storage.addAttachment(Self.attachment(1), quota: Self.quota))
      try await store.register(Sample.registration(1, registrationID: 8))
      #expect(try await store.storage.attachment(Self.id(1)) == Self.attachment(1))
    }
  }
}

extension Storage {
  fileprivate func finish(
    _ id: AttachmentID, _ bytes: Int64, expires: Timestamp = Sample.noon.adding(.seconds(86_400)),
    quota: AttachmentQuota = AttachmentQuota(bytesMax: 100_000)
  ) async throws -> AttachmentOutcome {
    try await finishAttachment(id, bytes: bytes, expires: expires, quota: quota)
  }
}
