import RelayCore
import TestTags
import Testing

@testable import Directory

/// Homes of contacts in a process without a directory in memory.
@Suite(.tags(.stores)) struct StoredHomesTests {
  @Test(arguments: FollowerSite.Backend.allCases)
  func `the store says who has a contact, as the table in memory does`(backend: FollowerSite.Backend) async throws {
    try await FollowerSite.with(backend) { site in
      let homes = StoredHomes(store: site.store)
      #expect(homes.isReady)
      try await site.register(1)
      try await site.register(2, isDiscoverable: false)
      let peer = try await site.addPeer("peer")
      try await site.list([try FollowerSite.token(1), try FollowerSite.token(3)], at: peer)
      let expected: [ContactHome?] = [.here, nil, .peer(peer), nil]
      try await site.follow { _, view in
        for (index, home) in zip(1..., expected) {
          let token = try FollowerSite.token(index)
          #expect(try await homes.home(of: token) == home, "\(index)")
          #expect(view.home(of: token) == home, "\(index)")
        }
      }
    }
  }
}
