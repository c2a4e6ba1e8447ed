import Foundation
import RelayCore
import Storage
import TestSupport
import TestTags
import Testing

@testable import Directory

/// Starts with and without the file, and what is found and repaired behind everybody's back.
@Suite(.tags(.stores)) struct FollowerRestartTests {
  @Test(arguments: FollowerSite.Backend.allCases)
  func `a restart begins with the file, and catches up with what happened meanwhile`(backend: FollowerSite.Backend)
    async throws
  {
    try await FollowerSite.with(backend) { site in
      let tokens = try (1...40).map { try FollowerSite.token($0) }
      for index in 1...20 { try await site.register(index, voice: index % 2 == 0) }
      let peer = try await site.addPeer("alpha")
      try await site.list(Array(tokens[15..<30]), at: peer)
      try await site.follow { _, view in try await site.expectSame(view, tokens) }
      #expect(site.log.contains("from=store"))
      #expect(!site.log.contains("from=file"))

      try await site.register(31)
      try await site.register(3, isActive: false)
      try await site.list([tokens[20]], at: peer, isInactive: true)
      try await site.follow { _, view in
        // Ready means caught up.
        #expect(view.entry(of: tokens[30]) != nil && view.entry(of: tokens[2]) == nil)
        try await site.expectSame(view, tokens)
        #expect(view.table.count == 29)
      }
      #expect(site.log.contains("from=file"))
      // The peer went while nobody looked.
      #expect(try await site.store.setPeerState(.suspended, of: peer))
      try await site.follow { _, view in
        #expect(view.entry(of: tokens[25]) == nil)
        try await site.expectSame(view, tokens)
      }
    }
  }

  @Test(arguments: FollowerSite.Backend.allCases)
  func `a file of another store, a damaged one, and one that the feed has outlived are not used`(
    backend: FollowerSite.Backend
  ) async throws {
    try await FollowerSite.with(backend) { other in
      try await other.register(99)
      try await other.follow { _, _ in }
      try await FollowerSite.with(backend) { site in
        try FileManager.default.copyItem(atPath: other.snapshotPath, toPath: site.snapshotPath)
        try await site.register(1)
        let (ours, foreign) = (try FollowerSite.token(1), try FollowerSite.token(99))
        try await site.follow { _, view in
          #expect(view.entry(of: ours) != nil && view.entry(of: foreign) == nil)
        }
        #expect(site.log.contains("it is another store's"))

        try Data("no directory".utf8).write(to: URL(fileURLWithPath: site.snapshotPath))
        try await site.follow { _, view in #expect(view.entry(of: ours) != nil) }
        #expect(site.log.contains("the directory's file is not used"))

        let place = try await site.store.directoryPlace()
        try await site.register(2)
        try await eventually("the feed no longer goes back to it") {
          try await site.store.pruneDirectoryChanges(olderThan: 0)
          return try await site.store.directoryChanges(after: place, limit: 1) == nil
        }
        try await site.follow { _, view in try await site.expectSame(view, [ours, try FollowerSite.token(2)]) }
        #expect(!site.log.contains("from=file"))
      }
    }
  }

  @Test(arguments: FollowerSite.Backend.allCases)
  func `a follower whose place is forgotten reads the directory anew, and answers meanwhile`(
    backend: FollowerSite.Backend
  ) async throws {
    try await FollowerSite.with(backend) { site in
      for index in 1...5 { try await site.register(index) }
      let tokens = try (1...6).map { try FollowerSite.token($0) }
      try await site.follow { follower, view in
        // As the restore of an older state does.
        try await site.store.setAsideOneTimePreKeys(epoch: 100, by: .process, behind: .zero)
        try await site.register(6)
        try await eventually("the directory is read anew") { site.log.contains("read anew") }
        #expect(view.isReady)
        try await site.expectSame(view, tokens)
        await follower.catchUp()
        #expect(view.table.count == 6)
      }
    }
  }

  @Test(arguments: FollowerSite.Backend.allCases)
  func `entries that differ from the store's are found and repaired, and all others are left alone`(
    backend: FollowerSite.Backend
  ) async throws {
    try await FollowerSite.with(backend) { site in
      for index in 1...30 { try await site.register(index) }
      let peer = try await site.addPeer("alpha")
      let tokens = try (1...60).map { try FollowerSite.token($0) }
      try await site.list(Array(tokens[30..<50]), at: peer)
      var pace = FollowerSite.pace
      (pace.poll, pace.check) = (.milliseconds(2), .milliseconds(1))
      try await site.follow(pace) { _, view in
        try await site.expectSame(view, tokens)
        // Damage of every kind: one is missing, one too many, one of another relay, one with other flags.
        try view.table.apply([
          TokenChange(tokens[0], nil), TokenChange(tokens[55], TokenEntry(relay: 0, supportsSMS: true, voice: true)),
          TokenChange(tokens[35], TokenEntry(relay: 0, supportsSMS: false, voice: true)),
          TokenChange(tokens[1], TokenEntry(relay: 0, supportsSMS: true, voice: true)),
        ])
        try await site.expectSame(view, tokens, within: .seconds(120))
        #expect(site.log.contains("was repaired"))
        // Clients hear of it.
        let cursor = try #require(view.recent.cursor)
        let since = DirectoryPlace(generation: cursor.generation, revision: 0)
        #expect(view.recent.changed([tokens[55]], since: since).map { $0 == [tokens[55]] } ?? true)
      }
    }
  }

  @Test func `a change in the database past the triggers is found and repaired`() async throws {
    try await FollowerSite.with(.postgres) { site in
      for index in 1...30 { try await site.register(index) }
      let tokens = try (1...30).map { try FollowerSite.token($0) }
      var pace = FollowerSite.pace
      (pace.poll, pace.check) = (.milliseconds(2), .milliseconds(1))
      try await site.follow(pace) { _, view in
        try await site.expectSame(view, tokens)
        let gone = try FollowerSite.number(7).digits
        try await site.sql(
          """
          SET session_replication_role = replica;
          UPDATE accounts SET active = false WHERE account = \(gone);
          UPDATE accounts SET voice = true WHERE account <> \(gone)
          """)
        try await eventually("the table says it too", within: .seconds(120)) {
          view.entry(of: tokens[6]) == nil && view.entry(of: tokens[7])?.voice == true
        }
        try await site.expectSame(view, tokens, within: .seconds(120))
        #expect(site.log.contains("was repaired"))
      }
    }
  }

  @Test func `a file that cannot be written is told once, and keeps nobody from serving`() async throws {
    try await FollowerSite.with(.embedded) { site in
      try FileManager.default.createDirectory(atPath: site.snapshotPath, withIntermediateDirectories: true)
      var pace = FollowerSite.pace
      pace.save = .milliseconds(10)
      try await site.follow(pace) { follower, view in
        for index in 1...5 {
          try await site.register(index)
          await follower.catchUp()
          #expect(view.entry(of: try FollowerSite.token(index)) != nil)
          try await Task.sleep(for: .milliseconds(30))
        }
        try await eventually("it is told") { site.log.contains("cannot be written") }
      }
      #expect(site.log.lines.count { $0.contains("cannot be written") } == 1)
      #expect(site.log.lines.allSatisfy { !$0.contains("+49151") })
    }
  }
}
