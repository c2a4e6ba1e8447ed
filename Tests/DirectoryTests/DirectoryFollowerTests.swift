import Foundation
import RelayCore
import Storage
import TestSupport
import TestTags
import Testing

@testable import Directory

/// The directory in memory over real stores.
@Suite(.tags(.stores)) struct DirectoryFollowerTests {
  @Test(arguments: FollowerSite.Backend.allCases)
  func `entries from the start and later ones are found, with their flags, until they go`(
    backend: FollowerSite.Backend
  ) async throws {
    try await FollowerSite.with(backend) { site in
      try await site.register(1, supportsSMS: true)
      try await site.register(2, isActive: false)
      let tokens = try (1...4).map { try FollowerSite.token($0) }
      try await site.follow { _, view in
        #expect(view.directoryEntry(of: tokens[0])?.supportsSMS == true)
        #expect(view.entry(of: tokens[1]) == nil)
        try await site.register(3, voice: true)
        try await site.register(2)
        try await site.expectSame(view, tokens)
        #expect(view.table.count == 3)
        // Other flags; inactive; does not want to be found.
        try await site.register(1, voice: true)
        try await site.register(2, isActive: false)
        try await site.register(3, isDiscoverable: false)
        try await site.expectSame(view, tokens)
        #expect(view.table.count == 1)
        try await site.register(3, isDiscoverable: true)
        try await site.expectSame(view, tokens)
        #expect(view.table.count == 2)
      }
    }
  }

  @Test(arguments: FollowerSite.Backend.allCases)
  func `a contact is ours, else the first peer's, and what a peer leaves is the next one's`(
    backend: FollowerSite.Backend
  ) async throws {
    try await FollowerSite.with(backend) { site in
      let tokens = try (1...300).map { try FollowerSite.token($0) }
      for index in 1...3 { try await site.register(index) }
      let alpha = try await site.addPeer("alpha")
      try await site.list(Array(tokens[0..<200]), at: alpha)
      // Another moment, by PostgreSQL's clock too: who has listed a token for longest has it.
      try await Task.sleep(for: .milliseconds(20))
      try await site.follow { _, view in
        let beta = try await site.addPeer("beta")
        try await site.list(Array(tokens[100..<300]), at: beta)
        try await site.expectSame(view, tokens)
        #expect(view.directoryEntry(of: tokens[0])?.relay == nil && view.entry(of: tokens[0]) != nil)
        #expect(view.directoryEntry(of: tokens[150])?.relay == alpha)
        #expect(view.directoryEntry(of: tokens[250])?.relay == beta)

        #expect(try await site.store.setPeerState(.suspended, of: alpha))
        try await site.expectSame(view, tokens)
        #expect(view.entry(of: tokens[50]) == nil)
        #expect(view.directoryEntry(of: tokens[150])?.relay == beta)
        #expect(try await site.store.setPeerState(.active, of: alpha))
        try await site.expectSame(view, tokens)
        #expect(view.directoryEntry(of: tokens[150])?.relay == alpha)

        #expect(try await site.store.changePeerPolicy(PeerPolicyChange(contacts: .query), of: alpha))
        try await site.expectSame(view, tokens)
        #expect(try await site.store.removePeer(beta) == .removed)
        try await site.expectSame(view, tokens)
        #expect(view.table.count == 3)
      }
    }
  }

  @Test(arguments: FollowerSite.Backend.allCases)
  func `a caller that waits for a change finds it, without a poll or a signal`(backend: FollowerSite.Backend)
    async throws
  {
    try await FollowerSite.with(backend) { site in
      var pace = FollowerSite.pace
      pace.poll = .seconds(3600)
      try await site.follow(pace) { follower, view in
        for index in 1...20 {
          try await site.register(index)
          await follower.catchUp()
          #expect(view.entry(of: try FollowerSite.token(index)) != nil, "\(index)")
        }
      }
    }
  }

  /// Several writers, so that transactions overlap, beside a follower that reads all the time.
  @Test(arguments: FollowerSite.Backend.allCases)
  func `however changes overlap, the table ends as the store`(backend: FollowerSite.Backend) async throws {
    try await FollowerSite.with(backend) { site in
      let accounts = 1...60
      let tokens = try accounts.map { try FollowerSite.token($0) }
      let peers = [try await site.addPeer("alpha"), try await site.addPeer("beta")]
      try await site.follow { _, view in
        try await withThrowingTaskGroup(of: Void.self) { group in
          for writer in 0..<4 {
            group.addTask {
              var random = SeededGenerator(seed: UInt64(writer))
              for _ in 0..<40 { try await Self.changeSomething(site, accounts, tokens, peers, &random) }
            }
          }
          try await group.waitForAll()
        }
        try await site.expectSame(view, tokens)
      }
    }
  }

  private static func changeSomething(
    _ site: FollowerSite, _ accounts: ClosedRange<Int>, _ tokens: [ContactToken], _ peers: [RelayName],
    _ random: inout SeededGenerator
  ) async throws {
    let index = Int.random(in: accounts, using: &random)
    let peer = peers[Int.random(in: 0..<peers.count, using: &random)]
    switch Int.random(in: 0..<8, using: &random) {
    case 0...3:
      try await site.register(
        index, isActive: .random(using: &random), supportsSMS: .random(using: &random),
        isDiscoverable: .random(using: &random))
    case 4...5: try await site.list(Array(tokens.shuffled(using: &random).prefix(9)), at: peer)
    case 6: try await site.list(Array(tokens.shuffled(using: &random).prefix(9)), at: peer, isInactive: true)
    default: _ = try await site.store.setPeerState(Bool.random(using: &random) ? .active : .suspended, of: peer)
    }
  }

  @Test(arguments: FollowerSite.Backend.allCases)
  func `a client's cursor tells what changed behind it`(backend: FollowerSite.Backend) async throws {
    try await FollowerSite.with(backend) { site in
      let tokens = try (1...5).map { try FollowerSite.token($0) }
      for index in 1...3 { try await site.register(index) }
      let first = try await site.follow { follower, view in
        let cursor = try await Self.settledCursor(view, tokens)
        try await site.register(4)
        try await site.register(2, isActive: false)
        await follower.catchUp()
        #expect(view.recent.changed(tokens, since: cursor) == [tokens[1], tokens[3]])
        _ = try await Self.settledCursor(view, tokens)
        return cursor
      }
      // Another process, and one that was restarted, know it too.
      try await site.follow { _, view in
        #expect(view.recent.changed(tokens, since: first) == [tokens[1], tokens[3]])
      }
    }
  }

  /// Waits for a cursor behind all changes of `tokens`: somebody else's transaction may keep it back for a moment.
  private static func settledCursor(_ view: DirectoryView, _ tokens: [ContactToken]) async throws -> DirectoryPlace {
    try await eventually("the cursor is behind all changes") {
      guard let cursor = view.recent.cursor, view.recent.changed(tokens, since: cursor) == [] else { return nil }
      return cursor
    }
  }
}
