import Foundation
import RelayCore
import TestSupport
import TestTags
import Testing

@testable import Directory

/// One reader over a real store, step by step.
@Suite(.tags(.stores)) struct DirectoryReaderTests {
  @Test(arguments: FollowerSite.Backend.allCases)
  func `contacts that a peer dropped unseen go when it comes back`(backend: FollowerSite.Backend)
    async throws
  {
    try await FollowerSite.with(backend) { site in
      let tokens = try (1...20).map { try FollowerSite.token($0) }
      let alpha = try await site.addPeer("alpha")
      try await site.list(tokens, at: alpha)
      let view = try DirectoryView()
      let reader = DirectoryReader(store: site.store, view: view)
      var following = try await reader.readWhole()
      try await Self.finish(reader, &following)
      #expect(following.table.count == 20)

      #expect(try await site.store.setPeerState(.suspended, of: alpha))
      try await site.list(Array(tokens[..<5]), at: alpha, isInactive: true)
      #expect(try await site.store.setPeerState(.active, of: alpha))
      try await Self.finish(reader, &following)
      let kept = tokens.filter { following.table.entry(of: $0) != nil }
      #expect(kept == Array(tokens[5...]))
    }
  }

  @Test func `while a peer's tokens are still to be looked up, it is told`() async throws {
    try await FollowerSite.with(.embedded) { site in
      let tokens = try (1...20).map { try FollowerSite.token($0) }
      let (alpha, beta) = (try await site.addPeer("alpha"), try await site.addPeer("beta"))
      try await site.list(tokens, at: alpha)
      try await site.list(Array(tokens[10...]), at: beta)
      let view = try DirectoryView()
      let reader = DirectoryReader(store: site.store, view: view)
      var following = try await reader.readWhole()
      try await Self.finish(reader, &following)
      let mark = try #require(view.restMark)

      #expect(try await site.store.setPeerState(.suspended, of: alpha))
      _ = try await reader.follow(&following)
      #expect(!following.work.isEmpty && view.restMark == nil)
      try await Self.finish(reader, &following)
      let after = try #require(view.restMark)
      #expect(after != mark)
      #expect(following.table.count == 10)
    }
  }

  @Test func `the ranges are compared and repaired also when a relay has no number`() async throws {
    try await FollowerSite.with(.embedded) { site in
      let tokens = try (1...10).map { try FollowerSite.token($0) }
      for index in 1...5 { try await site.register(index) }
      let view = try DirectoryView()
      #expect(view.relays.adopt(try (1...TokenEntry.relayMax).map { try #require(RelayName("relay-\($0)")) }))
      try await site.list(Array(tokens[5...]), at: try await site.addPeer("alpha"))
      let reader = DirectoryReader(store: site.store, view: view)
      var following = try await reader.readWhole()
      try await Self.finish(reader, &following)
      #expect(view.relays.hasRefused && following.table.count == 5)

      try following.table.apply([TokenChange(tokens[0], nil)])
      let drift = DriftCheck(reader: reader, view: view, metrics: DirectoryMetrics(), logger: site.log.logger)
      for turn in 0..<256 { try await drift.check(turn, &following) }
      #expect(following.table.entry(of: tokens[0]) != nil)
      #expect(following.table.count == 5)
      #expect(site.log.lines.count { $0.contains("was repaired") } == 1)
    }
  }

  @Test func `a bounded number of contested tokens is remembered`() throws {
    let tokens = (0..<101).map { ContactToken(high: UInt64($0), low: 0) }
    let names = try ["alpha", "beta"].map { try #require(RelayName($0)) }
    for (contested, isRemembered) in [(100, true), (101, false)] {
      let load = try DirectoryLoad(relays: RelayNumbers(), contestedMax: 100)
      for name in names {
        load.take(
          tokens.prefix(contested).map { DirectoryEntry(token: $0, relay: name, supportsSMS: false, voice: false) })
      }
      let found = try load.finish()
      #expect(found.map(Set.init) == (isRemembered ? Set(tokens.prefix(contested)) : nil))
      #expect(load.table.count == contested)
    }
  }

  /// Reads to the feed's end, and does all that is left to do.
  private static func finish(_ reader: DirectoryReader, _ following: inout Following) async throws {
    while !(try await reader.follow(&following).isWhole) {}
    while !following.work.isEmpty { try await reader.work(&following) }
  }
}
