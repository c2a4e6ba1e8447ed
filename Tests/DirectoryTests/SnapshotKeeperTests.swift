import Foundation
import RelayCore
import TestSupport
import TestTags
import Testing

@testable import Directory

/// When the file is written, and when it had better not be.
@Suite(.tags(.stores)) struct SnapshotKeeperTests {
  @Test func `a table that was read anew is written, whatever was written before`() async throws {
    try await Self.withKeeper { site, _, keeper in
      await keeper.saveAtTheEnd()
      try FileManager.default.removeItem(atPath: site.snapshotPath)
      await keeper.saveAtTheEnd()
      #expect(!site.hasSnapshot)
      keeper.loaded(isFromFile: false)
      await keeper.saveAtTheEnd()
      #expect(site.hasSnapshot)
    }
  }

  @Test func `nothing is written while a peer's tokens are still to be looked up`() async throws {
    try await Self.withKeeper { site, view, keeper in
      view.peerWorkBegins()
      await keeper.saveAtTheEnd()
      #expect(!site.hasSnapshot)
      view.peerWorkEnded()
      await keeper.saveAtTheEnd()
      #expect(site.hasSnapshot)
    }
  }

  @Test func `when numbers for relays are used up the file goes, so that a restart begins them anew`() async throws {
    try await Self.withKeeper { site, view, keeper in
      await keeper.saveAtTheEnd()
      #expect(site.hasSnapshot)
      for index in 0...TokenEntry.relayMax {
        let name: RelayName = try #require(RelayName("relay-\(index)"))
        _ = view.relays.number(of: name)
      }
      await keeper.saveAtTheEnd()
      #expect(!site.hasSnapshot)
    }
  }

  private static func withKeeper(
    _ body: @Sendable (FollowerSite, DirectoryView, SnapshotKeeper) async throws -> Void
  ) async throws {
    try await FollowerSite.with(.embedded) { site in
      try await site.register(1)
      let view = try DirectoryView()
      let following = try await DirectoryReader(store: site.store, view: view).readWhole()
      view.begin(following, recent: [], since: following.applied)
      let keeper = SnapshotKeeper(
        path: site.snapshotPath, store: site.store, view: view, interval: .seconds(3600), logger: site.log.logger)
      try await body(site, view, keeper)
    }
  }
}

extension FollowerSite {
  fileprivate var hasSnapshot: Bool { FileManager.default.fileExists(atPath: snapshotPath) }
}
