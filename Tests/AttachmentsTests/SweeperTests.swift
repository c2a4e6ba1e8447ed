import Attachments
import Foundation
import Glibc
import Logging
import RelayCore
import Storage
import TestSupport
import TestTags
import Testing

@Suite(.tags(.stores)) struct SweeperTests {
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

  @Test func `more blobs that cannot be removed than are looked at in one go hold up nothing`() async throws {
    let policy = AttachmentPolicy(
      bytesMax: 1, retention: .seconds(60), quota: AttachmentQuota(bytesMax: 10 << 20))
    try await BlobSite.with(policy) { site in
      for _ in 0..<120 {
        let stuck = try await site.allocate()
        try FileManager.default.createDirectory(atPath: site.file(of: stuck), withIntermediateDirectories: false)
      }
      site.clock.advance(by: .seconds(5))
      let other = try await site.allocate()
      try site.write(site.folder + "/attachments/incoming/old", secondsAgo: 86_500)
      site.clock.advance(by: .seconds(20_000))
      await site.sweeper.sweep()
      #expect(try await site.store.attachment(other) == nil)
      #expect(try await site.store.expiredAttachments(before: site.clock.now, limit: 200).count == 120)
      #expect(try site.incoming.isEmpty)
    }
  }

  /// Left by a database that was put back to an older state.
  @Test func `blobs that the store does not know go, a day after they could be wanted last`() async throws {
    try await BlobSite.with { site in
      let known = try await site.allocate()
      #expect(try await site.upload([1], to: known).status == 200)
      let ids = (0..<3).compactMap { AttachmentID(4_000_000 + $0) }
      let folder = String(site.file(of: known).dropLast(known.text.count))
      for (id, age) in zip(ids, [172_900, 172_700, 90_000] as [Int64]) {
        try site.write(site.file(of: id), secondsAgo: age)
      }
      try site.write(site.file(of: known), secondsAgo: 1_000_000)
      try site.write(folder + "notes", secondsAgo: 1_000_000)
      try site.write(folder + "0\(known.text)", secondsAgo: 1_000_000)
      // One share in each run.
      let sweeper = site.sweeper
      for _ in 0..<256 { await sweeper.sweep() }
      #expect(ids.map { site.hasBlob($0) } == [false, true, true])
      #expect(try await site.download(known).status == 200)
      #expect(FileManager.default.fileExists(atPath: folder + "notes"))
      #expect(FileManager.default.fileExists(atPath: folder + "0\(known.text)"))
    }
  }

  @Test func `leftovers of killed processes' uploads go after a day`() async throws {
    try await BlobSite.with { site in
      let folder = site.folder + "/attachments/incoming/"
      try site.write(folder + "old", secondsAgo: 86_500)
      try site.write(folder + "young", secondsAgo: 86_300)
      await site.sweeper.sweep()
      #expect(try site.incoming == ["young"])
    }
  }
}

extension BlobSite {
  /// Makes a file, or leaves the one that is there, as if it had been written so long ago.
  func write(_ path: String, secondsAgo age: Int64) throws {
    if !FileManager.default.fileExists(atPath: path) { try Data(count: 10).write(to: URL(fileURLWithPath: path)) }
    let time = timeval(tv_sec: Int(clock.now.millis / 1000 - age), tv_usec: 0)
    #expect(utimes(path, [time, time]) == 0)
  }

  var sweeper: AttachmentSweeper {
    AttachmentSweeper(
      store: store, blobs: blobs, policy: policy, clock: JudgedClock(unjudged: clock.wall), logger: .silent)
  }
}
