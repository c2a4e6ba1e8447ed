import AsyncHTTPClient
import Attachments
import Foundation
import Glibc
import NIOCore
import NIOHTTP1
import RelayCore
import Storage
import TestSupport
import TestTags
import Testing

@Suite(.tags(.stores)) struct UploadTests {
  @Test func `an uploaded blob is downloaded, and both answers are exactly 200`() async throws {
    try await BlobSite.with { site in
      for size in [0, 1, 64, 300_000, 1 << 20] {
        let (id, bytes) = (try await site.allocate(), randomBytes(size))
        let uploaded = try await site.upload(bytes, to: id)
        #expect(uploaded.status == 200 && uploaded.body.isEmpty)
        let known = try #require(try await site.store.attachment(id))
        #expect(known.bytes == Int64(size))
        #expect(known.expires == site.clock.now.adding(site.policy.retention))
        // Some clients declare a media type on GET (reference 1.10), some do not.
        for type in [nil, Exchange.octets] {
          let downloaded = try await Exchange.get(site.downloadURL(id), type: type)
          #expect(downloaded.status == 200 && downloaded.body == bytes)
          #expect(downloaded.headers.first(name: "Content-Length") == "\(size)")
          #expect(downloaded.headers.first(name: "Content-Type") == Exchange.octets)
          #expect(downloaded.headers.first(name: "Cache-Control") == "private")
        }
        #expect(try site.incoming.isEmpty)
      }
    }
  }

  @Test func `files and folders are the owner's alone`() async throws {
    try await BlobSite.with { site in
      let id = try await site.allocate()
      try await site.upload([1, 2, 3], to: id)
      let mode = { (path: String) in
        try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
      }
      let root = site.folder + "/attachments"
      for folder in ["", "/incoming", "/blobs", "/blobs/00", "/blobs/ff"] {
        #expect(try mode(root + folder) == 0o700, "\(folder)")
      }
      #expect(try mode(site.file(of: id)) == 0o600)
    }
  }

  @Test func `a second upload is refused and changes nothing`() async throws {
    try await BlobSite.with { site in
      let (id, first) = (try await site.allocate(), randomBytes(5000))
      #expect(try await site.upload(first, to: id).status == 200)
      for bytes in [randomBytes(5000), first, []] {
        let refused = try await site.upload(bytes, to: id)
        #expect(refused.status == 409 && refused.code == "already-uploaded")
      }
      #expect(try await site.download(id).body == first)
      #expect(try site.incoming.isEmpty)
    }
  }

  @Test func `of several uploads at once, exactly one wins`() async throws {
    try await BlobSite.with { site in
      for round in 0..<10 {
        let id = try await site.allocate()
        // In some rounds all bring the same.
        let bodies = (0..<6).map { [UInt8](repeating: round % 3 == 0 ? 7 : UInt8($0), count: 200_000) }
        let statuses = try await withThrowingTaskGroup(of: (Int, Int).self) { group in
          for (index, body) in bodies.enumerated() {
            group.addTask { (index, try await site.upload(body, to: id).status) }
          }
          return try await group.reduce(into: [Int: Int]()) { $0[$1.0] = $1.1 }
        }
        let winners = statuses.filter { $0.value == 200 }
        #expect(winners.count == 1 && statuses.values.filter { $0 == 409 }.count == 5, "\(statuses)")
        let winner = try #require(winners.first?.key)
        #expect(try await site.download(id).body == bodies[winner])
        #expect(try site.incoming.isEmpty)
      }
    }
  }

  @Test func `an upload whose process died before it told the store can be repeated`() async throws {
    try await BlobSite.with { site in
      let (id, bytes) = (try await site.allocate(), randomBytes(100_000))
      try Data(bytes).write(to: URL(fileURLWithPath: site.file(of: id)))
      #expect(try await site.upload(randomBytes(100_000), to: id).status == 409)
      #expect(try await site.store.attachment(id)?.bytes == nil)
      #expect(try await site.upload(bytes, to: id).status == 200)
      #expect(try await site.store.attachment(id)?.bytes == 100_000)
      #expect(try await site.upload(bytes, to: id).status == 409)
      #expect(try await site.download(id).body == bytes)
    }
  }

  @Test func `a URL serves one blob, one purpose and one hour`() async throws {
    try await BlobSite.with { site in
      let (id, other) = (try await site.allocate(), try await site.allocate())
      #expect(try await site.upload([1], to: id).status == 200)
      let (upload, download) = (site.uploadURL(other), site.downloadURL(id))
      let swapped = download.replacingOccurrences(of: id.text, with: other.text)
      let cut = String(upload.dropLast()) + (upload.hasSuffix("0") ? "1" : "0")
      let later = upload.replacingOccurrences(of: "expires=", with: "expires=9")
      let bare = String(upload.prefix { $0 != "?" })
      let (_, expired) = (site.clock.advance(by: .seconds(3599)), upload)
      #expect(try await Exchange.get(download).status == 200)
      for url in [download, swapped, cut, later, bare, bare + "?expires=1", bare + "?signature=00"] {
        let answer = try await Exchange.put([1], to: url)
        #expect(answer.status == 403 && answer.code == "url-refused")
      }
      for url in [upload, swapped, bare] { #expect(try await Exchange.get(url).status == 403) }
      site.clock.advance(by: .seconds(2))
      #expect(try await Exchange.put([1], to: expired).status == 403)
      #expect(try await Exchange.get(download).status == 403)
      // Not one of the refused uploads left anything.
      #expect(try site.incoming.isEmpty && !site.hasBlob(other))
    }
  }

  @Test func `a media type that the URL does not cover is refused`() async throws {
    try await BlobSite.with { site in
      let id = try await site.allocate()
      for type in [nil, "text/html", "application/octet-streams"] {
        #expect(try await Exchange.put([1], to: site.uploadURL(id), type: type).status == 403)
      }
      let type = "Application/Octet-Stream; charset=binary"
      #expect(try await Exchange.put([1], to: site.uploadURL(id), type: type).status == 200)
    }
  }

  @Test func `other methods and other ids are told apart`() async throws {
    try await BlobSite.with { site in
      let id = try await site.allocate()
      for method in ["HEAD", "POST", "DELETE"] {
        var request = HTTPClientRequest(url: site.downloadURL(id))
        request.method = .RAW(value: method)
        #expect(try await Exchange.send(request).status == 405, "\(method)")
      }
      #expect(try await site.download(id).status == 404)
      let unknown = try #require(AttachmentID(Int64.random(in: 1...Int64.max)))
      #expect(try await site.download(unknown).status == 404)
      #expect(try await site.upload([1], to: unknown).status == 404)
      for text in ["abc", "0", "-1", "9223372036854775808", "1x"] {
        let url = site.downloadURL(id).replacingOccurrences(of: id.text, with: text)
        #expect(try await Exchange.get(url).status == 404, "\(text)")
      }
      #expect(try site.incoming.isEmpty)
    }
  }

  @Test func `a blob that the account has no room for is refused and gone`() async throws {
    let policy = AttachmentPolicy(
      bytesMax: 1 << 20, retention: .seconds(60), quota: AttachmentQuota(bytesMax: 100_000))
    try await BlobSite.with(policy) { site in
      let (first, second) = (try await site.allocate(), try await site.allocate())
      #expect(try await site.upload(randomBytes(60_000), to: first).status == 200)
      let refused = try await site.upload(randomBytes(60_000), to: second)
      #expect(refused.status == 413 && refused.code == "quota-exceeded")
      #expect(refused.headers.first(name: "Retry-After") != nil)
      #expect(try site.incoming.isEmpty && !site.hasBlob(second))
      #expect(try await site.store.attachment(second)?.bytes == nil)
      // It was refused for its size alone.
      #expect(try await site.upload(randomBytes(30_000), to: second).status == 200)
    }
  }

  @Test func `a refused upload leaves the blob to another one of the same bytes that was taken meanwhile`() async throws
  {
    try await BlobSite.with(uploadsTo: { OvertakingStore(store: $0) }) { site in
      let (id, bytes) = (try await site.allocate(), randomBytes(1000))
      let refused = try await site.upload(bytes, to: id)
      #expect(refused.status == 413 && refused.code == "quota-exceeded")
      #expect(try await site.store.attachment(id)?.bytes == 1000)
      #expect(try await site.download(id).body == bytes)
    }
  }
}

/// Refuses every upload, and lets another of the same bytes in before it says so.
private struct OvertakingStore: AttachmentStore {
  let store: SQLiteStorage

  func finishAttachment(_ id: AttachmentID, bytes: Int64, expires: Timestamp, quota: AttachmentQuota)
    async throws(StoreError) -> AttachmentOutcome
  {
    _ = try await store.finishAttachment(id, bytes: bytes, expires: expires, quota: quota)
    return .quotaExceeded
  }
  func addAttachment(_ attachment: RelayCore.Attachment, quota: AttachmentQuota) async throws(StoreError) -> Bool {
    try await store.addAttachment(attachment, quota: quota)
  }
  func attachment(_ id: AttachmentID) async throws(StoreError) -> RelayCore.Attachment? {
    try await store.attachment(id)
  }
  func expiredAttachments(before now: Timestamp, limit: Int) async throws(StoreError) -> [RelayCore.Attachment] {
    try await store.expiredAttachments(before: now, limit: limit)
  }
  func removeAttachments(_ ids: [AttachmentID]) async throws(StoreError) { try await store.removeAttachments(ids) }
}
