import Foundation
import RelayCore
import Storage
import TestSupport
import TestTags
import Testing

@Suite(.tags(.stores)) struct AccountRemovalContract {
  private static let later = Timestamp(millis: Sample.noon.millis + 86_400_000)

  /// Account 1 with a linked device, keys, messages, codes and attachments; accounts 0 and 2 with the like.
  private func fill(_ store: Store) async throws {
    try await store.registerAccounts(3)
    for index in 0..<3 {
      let address = try Sample.address(index)
      #expect(
        try await store.storage.replacePreKeys(of: address, with: Sample.upload([1, 2], signed: Sample.signedKey(1)))
          == .stored)
      _ = try await store.linkActive(index)
      try await store.storage.append(
        (1...3).map { try Sample.envelope(to: address, from: Sample.address((index + 1) % 3), id: $0) })
      _ = try await store.storage.acknowledge(
        source: Sample.number((index + 1) % 3), timestamp: Timestamp(millis: Sample.noon.millis + 1), in: address)
      let code = VerificationCode(code: Store.code, expires: Self.later)
      for purpose in [CodePurpose.registration, .linking] {
        try await store.storage.setVerificationCode(code, for: address.account, purpose: purpose)
      }
      let attachment = Attachment(
        id: try #require(AttachmentID(Int64(index + 1))), account: address.account, bytes: nil, expires: Self.later)
      #expect(try await store.storage.addAttachment(attachment, quota: AttachmentQuota(bytesMax: 1 << 20)))
    }
  }

  @Test(arguments: Backend.allCases)
  func `a deleted account leaves nothing, and nobody else's rows go`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      try await fill(store)
      let (own, storage) = (try Sample.address(1), store.storage)
      #expect(try await storage.attachments(of: own.account, limit: 10).map(\.value) == [2])
      let removal = try #require(try await storage.removeAccount(own.account, of: nil, isBanned: false))
      #expect(removal.devices == 2 && removal.oneTimePreKeys == 2 && removal.waiting == 2)
      #expect(removal.acknowledged == 1 && removal.codes == 2)

      #expect(try await storage.account(own.account) == nil)
      #expect(try await storage.deviceHoldings(of: own.account).isEmpty)
      #expect(try await store.mailbox(own).isEmpty)
      #expect(try await store.draw(from: own.account).isEmpty)
      #expect(try await storage.attachments(of: own.account, limit: 10).isEmpty)
      #expect(try await storage.accounts(holding: [Sample.token(own.account)]).isEmpty)
      #expect(try await storage.removeAccount(own.account, of: nil, isBanned: false) == nil)
      for index in [0, 2] {
        let other = try Sample.address(index)
        #expect(try await storage.account(other.account)?.devices.count == 2)
        #expect(try await store.mailbox(other).count == 2)
        #expect(try await storage.attachments(of: other.account, limit: 10).count == 1)
      }
      // The number begins anew.
      #expect(try await store.register(Sample.registration(1)) == .registered)
      #expect(try await storage.account(own.account)?.devices.count == 1)
    }
  }

  @Test(arguments: Backend.allCases)
  func `an installation deletes itself, and no other one of its number`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      try await fill(store)
      let number = try Sample.number(1)
      let installation = try #require(try await store.storage.account(number)?.device(.master)?.password)
      #expect(try await store.storage.removeAccount(number, of: Sample.lock(9), isBanned: false) == nil)
      #expect(try await store.storage.account(number)?.devices.count == 2)
      #expect(try await store.storage.preKeyCount(of: Sample.address(1)) == 2)
      #expect(try await store.storage.removeAccount(number, of: installation, isBanned: false)?.devices == 2)
      #expect(try await store.storage.account(number) == nil)
    }
  }

  @Test(arguments: Backend.allCases)
  func `peers read a deleted account as inactive once, and one that is listed again once`(_ backend: Backend)
    async throws
  {
    try await backend.withStore { store in
      try await store.registerAccounts(3)
      let (number, storage) = (try Sample.number(1), store.storage)
      let cursor = try await storage.listingCursor()
      let revision = try await storage.accountsRevision()
      _ = try await storage.removeAccount(number, of: nil, isBanned: false)
      #expect(try await storage.accountsRevision() > revision)
      let changes = try #require(try await storage.listingChanges(after: cursor, limit: 10))
      #expect(
        changes.accounts == [
          ListedAccount(token: try Sample.token(number), isInactive: true, supportsSMS: false, voice: false)
        ])
      #expect(try await storage.listingChanges(after: changes.cursor, limit: 10)?.accounts.isEmpty == true)
      #expect(try await storage.accountCount() == 2)

      try await store.register(Sample.registration(1))
      let again = try #require(try await storage.listingChanges(after: cursor, limit: 10))
      #expect(again.accounts.map(\.token) == [try Sample.token(number)] && again.accounts[0].isInactive == false)

      // One that was never found is told to nobody.
      let hidden = try Sample.registration(7, isReachable: false)
      try await store.register(hidden)
      let end = try await storage.listingCursor()
      _ = try await storage.removeAccount(hidden.number, of: nil, isBanned: false)
      #expect(try await storage.listingCursor() == end)
    }
  }

  @Test(arguments: Backend.withClock)
  func `the tokens of deleted accounts end, and older places in the feed with them`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      // The time of a deletion is the database's own.
      store.clock.set(Timestamp(millis: Int64(Date().timeIntervalSince1970 * 1000)))
      try await store.registerAccounts(2)
      let before = try await store.storage.listingCursor()
      _ = try await store.storage.removeAccount(Sample.number(1), of: nil, isBanned: false)
      let after = try await store.storage.listingCursor()
      for _ in 0..<29 {
        store.clock.advance(.seconds(86_400))
        _ = try await store.storage.maintain(RetentionTerms(messages: .seconds(86_400)))
      }
      #expect(try await store.storage.listingChanges(after: before, limit: 10)?.accounts.count == 1)
      for _ in 0..<3 {
        store.clock.advance(.seconds(86_400))
        _ = try await store.storage.maintain(RetentionTerms(messages: .seconds(86_400)))
      }
      #expect(try await store.storage.listingChanges(after: before, limit: 10) == nil)
      #expect(try await store.storage.listingChanges(after: after, limit: 10)?.accounts.isEmpty == true)
    }
  }

  @Test(arguments: Backend.allCases)
  func `a banned number registers by no proof until it is unbanned`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      try await store.registerAccounts(1)
      let (number, storage) = (try Sample.number(0), store.storage)
      #expect(try await storage.removeAccount(number, of: nil, isBanned: true)?.devices == 1)
      // Also one that has no account.
      #expect(try await storage.removeAccount(Sample.number(5), of: nil, isBanned: true) == nil)
      #expect(try await storage.removeAccount(Sample.number(5), of: nil, isBanned: true) == nil)
      #expect(try await storage.bannedCount() == 2)
      for index in [0, 5] {
        let registration = try Sample.registration(index)
        #expect(try await storage.isBanned(registration.number))
        #expect(try await store.register(registration) == .banned)
        #expect(
          try await storage.register(registration, proof: .numberToken(second: .max), now: store.now) == .banned)
        #expect(try await storage.account(registration.number) == nil)
      }
      #expect(try await store.register(Sample.registration(1)) == .registered)
      #expect(try await storage.unban(number))
      #expect(try await !storage.unban(number))
      #expect(try await !storage.isBanned(number))
      #expect(try await store.register(Sample.registration(0)) == .registered)
    }
  }

  /// In which a row of a deleted account may be: what it has sent, and what peers said of accounts of their own.
  private static let others: Set<String> = ["outbox", "confirmed_devices"]

  @Test func `every table with rows of an account was looked into`() async throws {
    try await withPostgres { storage, server, url in
      try await fill(Store(storage: storage, clock: ManualClock(Sample.noon)))
      let tables = try server.sql(
        """
        SELECT c.table_name FROM information_schema.columns AS c JOIN pg_class AS p ON p.oid = c.table_name::regclass
        WHERE c.table_schema = current_schema() AND c.column_name = 'account' AND c.data_type = 'bigint'
          AND NOT p.relispartition ORDER BY 1
        """, in: url
      ).split(separator: "\n").map(String.init)
      #expect(Set(tables).isSuperset(of: Self.others.union(["accounts", "devices", "messages", "attachments"])))
      let number = try Sample.number(1).digits
      func counts() throws -> [Int] {
        try tables.map { table in
          try #require(
            Int(try server.sql("SELECT count(*) FROM \(table) WHERE account = \(number)", in: url).trimmed))
        }
      }
      let before = try counts()
      // Wakes go with their devices, which the tests of waking show.
      let unfilled = zip(tables, before).filter { $1 == 0 && !Self.others.contains($0) }.map(\.0)
      #expect(Set(unfilled).isSubset(of: ["wakes", "wake_history"]), "\(unfilled)")
      _ = try await storage.removeAccount(Sample.number(1), of: nil, isBanned: false)
      #expect(try counts() == tables.map { _ in 0 })
    }
  }
}

extension String {
  fileprivate var trimmed: String { trimmingCharacters(in: .whitespacesAndNewlines) }
}
