import Attachments
import Foundation
import Glibc
import Logging
import RelayCore
import Storage
import TestSupport
import Testing

@Suite struct SweeperTests {
  @Test func `an attachment ends with its blob, when its time has come`() async throws {
    try await BlobSite.with { site in
      let id = try await site.allocate()
      #expect(try await site.upload(randomBytes(100), to: id).status == 200)
      await site.sweeper.sweep()
      site.clock.advance(by: site.policy.retention)
      await site.sweeper.sweep()
      #expect(try await site.download(id).status == 200)
      site.clock.advance(by: .seconds(700))
      await site.sweeper.sweep()
      #expect(try await site.download(id).status == 404)
      #expect(!site.hasBlob(id))
      #expect(try await site.store.attachment(id) == nil)
    }
  }

  @Test func `an attachment without a blob ends after its URL and the longest upload`() async throws {
    try await BlobSite.with { site in
      let id = try await site.allocate()
      site.clock.advance(by: BlobTimes.pendingLife + .seconds(500))
      await site.sweeper.sweep()
      #expect(try await site.store.attachment(id) != nil)
      site.clock.advance(by: .seconds(200))
      await site.sweeper.sweep()
      #expect(try await site.store.attachment(id) == nil)
    }
  }

  @Test func `a blob whose process died before it told the store is kept, unless it is too large`() async throws {
    try await BlobSite.with { site in
      let (whole, large) = (try await site.allocate(), try await site.allocate())
      try Data(randomBytes(1000)).write(to: URL(fileURLWithPath: site.file(of: whole)))
      try Data(count: (1 << 20) + 1).write(to: URL(fileURLWithPath: site.file(of: large)))
      site.clock.advance(by: BlobTimes.pendingLife + .seconds(700))
      await site.sweeper.sweep()
      #expect(try await site.store.attachment(whole)?.bytes == 1000)
      #expect(site.hasBlob(whole))
      #expect(try await site.store.attachment(large) == nil)
      #expect(!site.hasBlob(large))
    }
  }

  @Test func `many end in one run, and several processes may run at once`() async throws {
    let policy = AttachmentPolicy(
      bytesMax: 100, retention: .seconds(60), quota: AttachmentQuota(bytesMax: 10 << 20))
    try await BlobSite.with(policy) { site in
      var ids: [AttachmentID] = []
      for index in 0..<250 {
        let id = try await site.allocate()
        if index < 30 { #expect(try await site.upload([1], to: id).status == 200) }
        ids.append(id)
      }
      site.clock.advance(by: .seconds(86_400))
      await withTaskGroup(of: Void.self) { group in
        for _ in 0..<3 {
          let sweeper = site.sweeper
          group.addTask { await sweeper.sweep() }
        }
      }
      for id in ids {
        #expect(try await site.store.attachment(id) == nil)
        #expect(!site.hasBlob(id))
      }
    }
  }

  @Test func `a blob that cannot be removed keeps its entry, and holds up no other`() async throws {
    try await BlobSite.with { site in
      let (stuck, other) = (try await site.allocate(), try await site.allocate())
      for id in [stuck, other] { #expect(try await site.upload([1], to: id).status == 200) }
      // A folder in the place of the file: removing files does not remove it.
      try FileManager.default.removeItem(atPath: site.file(of: stuck))
      try FileManager.default.createDirectory(atPath: site.file(of: stuck), withIntermediateDirectories: false)
      site.clock.advance(by: site.policy.retention + .seconds(700))
      await site.sweeper.sweep()
      #expect(try await site.store.attachment(other) == nil)
      #expect(try await site.store.attachment(stuck) != nil)
      try FileManager.default.removeItem(atPath: site.file(of: stuck))
      await site.sweeper.sweep()
      #expect(try await site.store.attachment(stuck) == nil)
    }
  }

  @Test func `what killed processes left of uploads goes after a day`() async throws {
    try await BlobSite.with { site in
      let folder = site.folder + "/attachments/incoming/"
      let now = site.clock.now.millis / 1000
      for (name, age) in [("old", 86_500), ("young", 86_300)] as [(String, Int64)] {
        try Data(count: 10).write(to: URL(fileURLWithPath: folder + name))
        var times = [timeval(tv_sec: Int(now - age), tv_usec: 0), timeval(tv_sec: Int(now - age), tv_usec: 0)]
        #expect(utimes(folder + name, &times) == 0)
      }
      await site.sweeper.sweep()
      #expect(try site.incoming == ["young"])
    }
  }
}

extension BlobSite {
  var sweeper: AttachmentSweeper {
    AttachmentSweeper(store: store, blobs: blobs, policy: policy, clock: clock.wall, logger: .silent)
  }
}
