import NIOHTTP1
import RelayCore
import TestSupport
import TestTags
import Testing

@testable import Federation

/// The cost that a peer may cause by reading the listing, and by the walks that it asks for.
@Suite(.tags(.stores)) struct ListingCostTests {
  @Test func `accounts are counted once for each state of the listing`() async throws {
    let listing = ListedAccounts(try tokens(3))
    try await withPeerClient(listing: listing) { _, client in
      for _ in 1...5 { #expect(try await client.get("/v1/federation/user_count").text == #"{"count":3}"#) }
      #expect(listing.counts == 1)
      listing.replace(with: try tokens(4))
      for _ in 1...5 { #expect(try await client.get("/v1/federation/user_count").text == #"{"count":4}"#) }
      #expect(listing.counts == 2)
    }
  }

  @Test func `pages behind the end are not read`() async throws {
    let listing = ListedAccounts(try tokens(3))
    try await withPeerClient(listing: listing) { _, client in
      for offset in ["3", "1000000", "\(Int.max)"] {
        let page = try await client.get("/v1/federation/user_tokens/\(offset)")
        #expect(page.status == 200 && page.text == #"{"contacts":[]}"#)
      }
      #expect(listing.pagesRead == 0)
      #expect(try await client.get("/v1/federation/user_tokens/2").text.contains("token"))
      // An account that is added is there at once.
      listing.replace(with: try tokens(4))
      #expect(try await client.get("/v1/federation/user_tokens/3").text.contains("token"))
      #expect(listing.pagesRead == 2)
    }
  }

  @Test func `at most two readings of a peer are under way`() async throws {
    let listing = ListedAccounts(try tokens(3))
    try await withPeerClient(listing: listing) { relay, client in
      listing.hold(true)
      async let first = client.get("/v1/federation/user_tokens/0").status
      async let second = client.get("/v1/federation/user_tokens/0").status
      try await eventually("two are under way") { listing.pagesRead == 2 }
      for path in ["user_tokens/0", "user_count", "changes"] {
        let refused = try await client.get("/v1/federation/\(path)")
        #expect(refused.status == 503 && refused.headers.first(name: "Retry-After") == "1")
      }
      try await withPeer("gamma", of: relay) { gamma in
        let status = try await gamma.get("/v1/federation/user_count").status
        #expect(status == 200)
      }
      listing.hold(false)
      let statuses = try await [first, second]
      #expect(statuses == [200, 200])
      #expect(try await client.get("/v1/federation/user_tokens/0").status == 200)
    }
  }

  @Test func `turns are bounded for each peer and for all`() async throws {
    let turns = PeerTurns(perPeer: 1, all: 4, retryAfter: .seconds(15))
    let names = try (1...5).map { try name("peer\($0)") }
    #expect(await depth(of: names[...], turns) == 4)
    #expect(await depth(of: [names[0], names[0]], turns) == 1)
    // All have been given back.
    #expect(await depth(of: names[...], turns) == 4)
  }

  /// How many of `names` have a turn within each other.
  private func depth(of names: ArraySlice<RelayName>, _ turns: PeerTurns) async -> Int {
    guard let name = names.first else { return 0 }
    do throws(Problem) {
      return try await turns.take(of: name) { () async throws(Problem) in
        await depth(of: names.dropFirst(), turns) + 1
      }
    } catch {
      return error == Problem(.unavailable, retryAfter: .seconds(15)) ? 0 : -100
    }
  }
}
