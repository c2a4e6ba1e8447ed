import Foundation
import RelayCore
import Storage
import TestSupport
import TestTags
import Testing

@testable import Directory

/// Processes that hold a part each, over one store; and a start that shows its file before it has caught up.
@Suite(.tags(.stores)) struct FollowerPartTests {
  @Test(arguments: FollowerSite.Backend.allCases, [2, 3, 7])
  func `parts hold together what the store says, each token once, while accounts and peers come and go`(
    backend: FollowerSite.Backend, count: Int
  ) async throws {
    try await FollowerSite.with(backend) { site in
      let tokens = try (1...120).map { try FollowerSite.token($0) }
      for index in 1...30 { try await site.register(index, voice: index % 2 == 0) }
      let (alpha, beta) = (try await site.addPeer("alpha"), try await site.addPeer("beta"))
      try await site.list(Array(tokens[20..<60]), at: alpha)
      try await site.list(Array(tokens[50..<80]), at: beta)
      try await Self.followParts(count, of: site) { views in
        try await Self.expectSame(views, site, tokens)
        for index in 81...100 { try await site.register(index) }
        for index in 1...10 { try await site.register(index, isActive: false) }
        try await site.list(Array(tokens[30..<40]), at: alpha, isInactive: true)
        try await Self.expectSame(views, site, tokens)
        #expect(try await site.store.setPeerState(.suspended, of: alpha))
        try await Self.expectSame(views, site, tokens)
        #expect(try await site.store.setPeerState(.active, of: alpha))
        try await Self.expectSame(views, site, tokens)
        // Only its own changes are remembered by a part.
        for view in views {
          let cursor = try #require(view.recent.cursor)
          let since = DirectoryPlace(generation: cursor.generation, revision: 0)
          #expect(view.recent.changed(tokens, since: since)?.allSatisfy(view.part.holds) ?? true)
        }
      }
    }
  }

  @Test(arguments: FollowerSite.Backend.allCases)
  func `drift of a part is repaired within it, also where a range is of two parts`(backend: FollowerSite.Backend)
    async throws
  {
    try await FollowerSite.with(backend) { site in
      let tokens = try (1...200).map { try FollowerSite.token($0) }
      for index in 1...100 { try await site.register(index) }
      // Of seven parts none begins where a range does.
      var pace = FollowerSite.pace
      (pace.poll, pace.check) = (.milliseconds(2), .milliseconds(1))
      try await Self.followParts(7, of: site, pace) { views in
        try await Self.expectSame(views, site, tokens)
        let view = try #require(views.first { $0.part.holds(tokens[0]) })
        let foreign = try #require(tokens[100...].first { !view.part.holds($0) })
        let own = try #require(tokens[100...].first { view.part.holds($0) })
        let entry = TokenEntry(relay: 0, supportsSMS: true, voice: true)
        try view.table.apply([TokenChange(tokens[0], nil), TokenChange(own, entry)])
        try await Self.expectSame(views, site, tokens)
        #expect(site.log.contains("was repaired"))
        #expect(view.entry(of: foreign) == nil)
      }
    }
  }

  @Test func `a row of a peer that has none in this part, written past the triggers, is repaired`() async throws {
    try await FollowerSite.with(.postgres) { site in
      for index in 1...20 { try await site.register(index) }
      let gamma = try await site.addPeer("gamma")
      let token = try FollowerSite.token(100)
      var pace = FollowerSite.pace
      (pace.poll, pace.check) = (.milliseconds(2), .milliseconds(1))
      try await Self.followParts(3, of: site, pace) { views in
        let hex = token.bytes.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
        try await site.sql(
          """
          SET session_replication_role = replica;
          INSERT INTO peer_contacts (peer, token, supports_sms, voice, pass) VALUES ('\(gamma)', '\\x\(hex)', false, true, 1)
          """)
        try await Self.expectSame(views, site, (1...20).map { try FollowerSite.token($0) } + [token])
        #expect(site.log.contains("was repaired"))
      }
    }
  }

  @Test func `the file of another part is not used, and a part's own is`() async throws {
    try await FollowerSite.with(.embedded) { site in
      for index in 1...40 { try await site.register(index) }
      let parts = DirectoryPartition.all(2)
      try await site.follow(part: parts[0]) { _, view in #expect(view.isReady) }
      #expect(site.log.lines.count { $0.contains("from=store") } == 1)
      try await site.follow(part: parts[1]) { _, view in #expect(view.table.count < 40) }
      #expect(site.log.contains("it is another store's, or holds another part of the directory"))
      #expect(!site.log.contains("from=file"))
      try await site.follow(part: parts[1]) { _, view in #expect(view.table.count > 0) }
      #expect(site.log.contains("from=file"))
      try await site.follow { _, view in #expect(view.table.count == 40) }
      #expect(site.log.lines.count { $0.contains("from=file") } == 1)
    }
  }

  @Test(arguments: FollowerSite.Backend.allCases)
  func `a young file is shown while a long feed is read, an old one only behind its end`(backend: FollowerSite.Backend)
    async throws
  {
    try await FollowerSite.with(backend) { site in
      for index in 1...20 { try await site.register(index) }
      try await site.follow { _, view in #expect(view.table.count == 20) }
      let tokens = try (1...60).map { try FollowerSite.token($0) }
      for index in 21...60 { try await site.register(index) }
      // Nothing is read before it is shown: as if the feed were longer than can be read in that time.
      var pace = FollowerSite.pace
      pace.shownAfter = .seconds(-1)
      pace.pageMax = 1
      try await site.follow(pace) { _, view in try await site.expectSame(view, tokens) }
      #expect(site.log.lines.count { $0.contains("from=file") && $0.contains("behind=true") } == 1)

      for index in 1...20 { try await site.register(index, isActive: false) }
      let old = Date(timeIntervalSinceNow: -3600)
      try FileManager.default.setAttributes([.modificationDate: old], ofItemAtPath: site.snapshotPath)
      try await site.follow(pace) { _, view in
        // Ready means caught up.
        #expect(view.table.count == 40)
      }
      #expect(site.log.lines.count { $0.contains("from=file") && $0.contains("behind=false") } == 1)
    }
  }

  // MARK: - Words

  private static func followParts(
    _ count: Int, of site: FollowerSite, _ pace: DirectoryFollower.Pace = FollowerSite.pace,
    _ body: ([DirectoryView]) async throws -> Void
  ) async throws {
    var running: [Task<Void, any Error>] = []
    let outcome: Result<Void, any Error>
    do {
      var views: [DirectoryView] = []
      for part in DirectoryPartition.all(count) {
        let view = try DirectoryView(part: part)
        let follower = DirectoryFollower(
          store: site.store, signals: site.signals, view: view, snapshotPath: "\(site.snapshotPath)-\(part.number)",
          changesDays: 10, logger: site.log.logger, pace: pace)
        running.append(Task { try await follower.run() })
        views.append(view)
      }
      try await eventually("every part is loaded") { views.allSatisfy(\.isReady) }
      outcome = .success(try await body(views))
    } catch {
      outcome = .failure(error)
    }
    for task in running { task.cancel() }
    for task in running { try await task.value }
    try outcome.get()
  }

  /// Waits until the parts show what the store says of `tokens`, each in its part alone.
  private static func expectSame(_ views: [DirectoryView], _ site: FollowerSite, _ tokens: [ContactToken]) async throws
  {
    try await eventually("the parts show what the store says", every: .milliseconds(20)) {
      let stored = Dictionary(try await site.store.entries(for: tokens).map { ($0.token, $0) }) { first, _ in first }
      return tokens.allSatisfy { token in
        views.allSatisfy { $0.directoryEntry(of: token) == ($0.part.holds(token) ? stored[token] : nil) }
      }
    }
    #expect(
      views.reduce(0) { $0 + $1.table.count }
        == Set(
          tokens.filter { token in
            views.contains { $0.entry(of: token) != nil }
          }
        ).count)
  }
}
