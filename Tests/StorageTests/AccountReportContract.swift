import RelayCore
import Storage
import TestTags
import Testing

@Suite(.tags(.stores)) struct AccountReportContract {
  @Test(arguments: Backend.allCases)
  func `accounts are counted and listed in the order of their numbers, page by page`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let storage = store.storage
      #expect(
        try await storage.accountCounts() == AccountCounts(accounts: 0, active: 0, discoverable: 0, devices: 0))
      #expect(try await storage.accountSummaries(after: nil, limit: 5).isEmpty)
      try await store.registerAccounts(5)
      #expect(
        try await storage.accountCounts() == AccountCounts(accounts: 5, active: 5, discoverable: 5, devices: 5))
      let all = try await storage.accountSummaries(after: nil, limit: 9)
      #expect(all.map(\.number.digits) == all.map(\.number.digits).sorted() && all.count == 5)
      #expect(all.allSatisfy { $0.isActive && $0.isDiscoverable && $0.devices == 1 && $0.lastSeen != nil })
      var paged: [AccountSummary] = []
      while true {
        let page = try await storage.accountSummaries(after: paged.last?.number, limit: 2)
        if page.isEmpty { break }
        paged += page
      }
      #expect(paged == all)
    }
  }

  @Test(arguments: Backend.allCases)
  func `a device's messages, receipts, bytes and prekeys are counted`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let storage = store.storage
      try await store.registerAccounts(2)
      let (own, other) = try (Sample.address(0), Sample.address(1))
      #expect(
        try await storage.deviceHoldings(of: own.account)
          == [DeviceHoldings(device: .master, waiting: 0, waitingBytes: 0, oneTimePreKeys: 0)])
      #expect(try await storage.replacePreKeys(of: own, with: Sample.upload([1, 2, 3])) == .stored)
      let envelopes = (1...3).map { Sample.envelope(to: own, from: other, id: $0) }
      try await storage.append(envelopes)
      let bytes = envelopes.reduce(0) { $0 + ($1.message?.count ?? 0) + ($1.content?.count ?? 0) }
      #expect(
        try await storage.deviceHoldings(of: own.account)
          == [DeviceHoldings(device: .master, waiting: 3, waitingBytes: bytes, oneTimePreKeys: 3)])
      #expect(try await storage.deviceHoldings(of: other.account).map(\.waiting) == [0])
      #expect(try await storage.deviceHoldings(of: Sample.address(9).account).isEmpty)
    }
  }
}
