import AsyncHTTPClient
import Attachments
import Logging
import NIOHTTP1
import RelayCore
import Storage
import TestSupport
import TestTags
import Testing

/// Blobs in a bucket of a real S3-protocol server.
@Suite(.tags(.stores)) struct S3Tests {
  private struct Bucket {
    let store: SQLiteStorage
    let blobs: S3Store
    let sweeper: AttachmentSweeper
    let clock: SettableClock

    func allocate() async throws -> AttachmentID {
      let id = try #require(AttachmentID(Int64.random(in: 1...Int64.max)))
      let attachment = Attachment(
        id: id, account: BlobSite.account, bytes: nil, expires: clock.now.adding(BlobTimes.pendingLife))
      #expect(try await store.addAttachment(attachment, quota: BlobSite.megabyte.quota))
      return id
    }
    func url(_ use: BlobUse, _ id: AttachmentID) -> String { blobs.url(for: use, of: id, base: "", now: clock.now) }
    func upload(_ bytes: [UInt8], to id: AttachmentID) async throws -> Int {
      try await Exchange.put(bytes, to: url(.upload, id)).status
    }
  }

  @Test func `clients upload and download by presigned URLs`() async throws {
    try await Self.with { bucket in
      let (id, bytes) = (try await bucket.allocate(), randomBytes(300_000))
      #expect(try await bucket.blobs.bytes(of: id) == nil)
      #expect(try await Exchange.get(bucket.url(.download, id)).status == 404)
      #expect(try await bucket.upload(bytes, to: id) == 200)
      #expect(try await bucket.blobs.bytes(of: id) == 300_000)
      for type in [nil, Exchange.octets] {
        let downloaded = try await Exchange.get(bucket.url(.download, id), type: type)
        #expect(downloaded.status == 200 && downloaded.body == bytes)
        #expect(downloaded.headers.first(name: "Content-Type") == Exchange.octets)
      }
      for _ in 0..<2 { try await bucket.blobs.remove(id) }
      #expect(try await bucket.blobs.bytes(of: id) == nil)
    }
  }

  @Test func `an unseen blob is counted and kept, and removed at its end`() async throws {
    try await Self.with { bucket in
      let (sent, unsent) = (try await bucket.allocate(), try await bucket.allocate())
      #expect(try await bucket.upload(randomBytes(1000), to: sent) == 200)
      // Not before the last upload by its URL has had its time.
      bucket.clock.advance(by: BlobTimes.pendingLife)
      await bucket.sweeper.sweep()
      #expect(try await bucket.store.attachment(sent)?.bytes == nil)
      bucket.clock.advance(by: .seconds(700))
      await bucket.sweeper.sweep()
      let kept = try #require(try await bucket.store.attachment(sent))
      #expect(kept.bytes == 1000)
      #expect(kept.expires == bucket.clock.now.adding(BlobSite.megabyte.retention))
      #expect(try await bucket.store.attachment(unsent) == nil)
      bucket.clock.advance(by: BlobSite.megabyte.retention + .seconds(700))
      await bucket.sweeper.sweep()
      #expect(try await bucket.store.attachment(sent) == nil)
      #expect(try await bucket.blobs.bytes(of: sent) == nil)
    }
  }

  @Test func `a blob that is too large, or exceeds the account's room, is removed`() async throws {
    try await Self.with { bucket in
      let large = try await bucket.allocate()
      #expect(try await bucket.upload([UInt8](repeating: 0, count: (1 << 20) + 1), to: large) == 200)
      var many: [AttachmentID] = []
      for _ in 0..<11 {
        let id = try await bucket.allocate()
        #expect(try await bucket.upload([UInt8](repeating: 0, count: 1 << 20), to: id) == 200)
        many.append(id)
      }
      bucket.clock.advance(by: BlobTimes.pendingLife + .seconds(700))
      await bucket.sweeper.sweep()
      #expect(try await bucket.store.attachment(large) == nil)
      #expect(try await bucket.blobs.bytes(of: large) == nil)
      var kept = 0
      for id in many {
        let isKnown = try await bucket.store.attachment(id)?.bytes == 1 << 20
        #expect(try await (bucket.blobs.bytes(of: id) != nil) == isKnown)
        kept += isKnown ? 1 : 0
      }
      // The quota is 10 MiB; those that wait count a little too.
      #expect((9...10).contains(kept), "\(kept)")
    }
  }

  @Test func `while S3 is away nothing is forgotten`() async throws {
    try await Self.with { bucket in
      let id = try await bucket.allocate()
      #expect(try await bucket.upload(randomBytes(10), to: id) == 200)
      bucket.clock.advance(by: BlobTimes.pendingLife + .seconds(700))
      // As the relay's own: a refused connection is a failure at once.
      var configuration = HTTPClient.Configuration()
      configuration.connectionPool.retryConnectionEstablishment = false
      let client = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
      let away = S3Store(
        endpoint: "http://127.0.0.1:\(try Loopback.freePorts(1)[0])", bucket: "blobs", region: "eu-west-1",
        keys: { ("key", Secret("secret")) }, client: client, clock: bucket.clock.wall)
      let sweeper = AttachmentSweeper(
        store: bucket.store, blobs: away, policy: BlobSite.megabyte, clock: JudgedClock(unjudged: bucket.clock.wall),
        logger: .silent)
      await sweeper.sweep()
      try await client.shutdown()
      #expect(try await bucket.store.attachment(id) != nil)
      await bucket.sweeper.sweep()
      #expect(try await bucket.store.attachment(id)?.bytes == 10)
    }
  }

  private static func with(_ body: (Bucket) async throws -> Void) async throws {
    try await S3Server.with { server in
      try await withTemporaryFolder { folder in
        // moto_server refuses URLs whose time is over by the real clock.
        let clock = SettableClock.current()
        let store = try SQLiteStorage(path: folder + "/relay.sqlite", clock: clock.wall)
        try await store.migrate { _ in }
        let blobs = S3Store(
          endpoint: server.endpoint, bucket: server.bucket, region: "eu-west-1", keys: { ("key", Secret("secret")) },
          client: .shared, clock: clock.wall)
        let sweeper = AttachmentSweeper(
          store: store, blobs: blobs, policy: BlobSite.megabyte, clock: JudgedClock(unjudged: clock.wall),
          logger: .silent)
        try await body(Bucket(store: store, blobs: blobs, sweeper: sweeper, clock: clock))
        await store.close()
      }
    }
  }
}
