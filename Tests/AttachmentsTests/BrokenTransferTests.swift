import Attachments
import Foundation
import Glibc
import NIOHTTP1
import RelayCore
import Storage
import TestSupport
import TestTags
import Testing

/// Transfers that go wrong on their way, byte for byte.
@Suite(.tags(.stores)) struct BrokenTransferTests {
  private static let impatient = TransferPace(bytesMin: 1000, window: .milliseconds(300), limit: .seconds(5))

  @Test func `too large is told before a byte of it is read`() async throws {
    try await BlobSite.with { site in
      let id = try await site.allocate()
      let connection = try RawConnection(to: site.port)
      try connection.send(Self.head(of: site.uploadURL(id), length: site.policy.bytesMax + 1))
      let answer = try await connection.answer()
      #expect(answer.hasPrefix("HTTP/1.1 413 ") && answer.contains("body-too-large"))
      #expect(try site.incoming.isEmpty)
      #expect(try await site.upload(randomBytes(1 << 20), to: id).status == 200)
    }
  }

  @Test func `a body without a length is refused`() async throws {
    try await BlobSite.with { site in
      let id = try await site.allocate()
      let connection = try RawConnection(to: site.port)
      let head = Self.head(of: site.uploadURL(id), fields: ["Transfer-Encoding: chunked"])
      try connection.send(head + "3\r\nabc\r\n0\r\n\r\n")
      #expect(try await connection.answer().contains("upload-incomplete"))
      #expect(try site.incoming.isEmpty && !site.hasBlob(id))
    }
  }

  @Test func `a body whose connection ends leaves nothing`() async throws {
    try await BlobSite.with { site in
      let id = try await site.allocate()
      let connection = try RawConnection(to: site.port)
      try connection.send(Self.head(of: site.uploadURL(id), length: 300_000))
      try connection.send(String(repeating: "x", count: 200_000))
      try await eventually("the upload is under way") { try !site.incoming.isEmpty }
      connection.close()
      try await eventually("nothing of it is left") { try site.incoming.isEmpty }
      #expect(!site.hasBlob(id))
      #expect(try await site.store.attachment(id)?.bytes == nil)
      #expect(try await site.upload(randomBytes(300_000), to: id).status == 200)
    }
  }

  @Test func `an upload that stops is ended`() async throws {
    try await BlobSite.with(uploadPace: Self.impatient) { site in
      let id = try await site.allocate()
      let connection = try RawConnection(to: site.port)
      try connection.send(Self.head(of: site.uploadURL(id), length: 300_000))
      try connection.send(String(repeating: "x", count: 100_000))
      try await eventually("the upload is under way") { try !site.incoming.isEmpty }
      try await eventually("nothing of it is left") { try site.incoming.isEmpty }
      #expect(try await connection.answer().contains("upload-incomplete"))
      #expect(!site.hasBlob(id))
    }
  }

  @Test func `an upload that drips is ended`() async throws {
    try await BlobSite.with(uploadPace: Self.impatient) { site in
      let id = try await site.allocate()
      let connection = try RawConnection(to: site.port)
      try connection.send(Self.head(of: site.uploadURL(id), length: 300_000))
      try await eventually("the upload is under way") { try !site.incoming.isEmpty }
      try await eventually("it is ended", every: .milliseconds(20)) {
        // Refused once the relay has closed the connection.
        try? connection.send("x")
        return try site.incoming.isEmpty
      }
      #expect(!site.hasBlob(id))
    }
  }

  @Test func `a reader that stops is cut off`() async throws {
    let policy = AttachmentPolicy(
      bytesMax: 64 << 20, retention: .seconds(60), quota: AttachmentQuota(bytesMax: 64 << 20))
    try await BlobSite.with(policy, downloadPace: Self.impatient) { site in
      let id = try await site.allocate()
      #expect(try await site.upload([UInt8](repeating: 1, count: 64 << 20), to: id).status == 200)
      let connection = try RawConnection(to: site.port)
      try connection.send("GET \(Self.target(site.downloadURL(id))) HTTP/1.1\r\nHost: relay\r\n\r\n")
      // Some windows of its pace.
      try await Task.sleep(for: MachineSpeed.allow(.seconds(2)))
      let received = try await connection.drain()
      #expect(received > 0 && received < 64 << 20)
    }
  }

  @Test func `a blob that is removed while it is read is read to its end`() async throws {
    let policy = AttachmentPolicy(
      bytesMax: 32 << 20, retention: .seconds(60), quota: AttachmentQuota(bytesMax: 64 << 20))
    try await BlobSite.with(policy) { site in
      let id = try await site.allocate()
      #expect(try await site.upload([UInt8](repeating: 1, count: 32 << 20), to: id).status == 200)
      let connection = try RawConnection(to: site.port)
      try connection.send(
        "GET \(Self.target(site.downloadURL(id))) HTTP/1.1\r\nHost: relay\r\nConnection: close\r\n\r\n")
      try await connection.waitForBytes()
      try await site.blobs.remove(id)
      #expect(try await site.download(id).status == 404)
      #expect(try await connection.drain() > 32 << 20)
    }
  }

  @Test func `one account does not take every place`() async throws {
    try await BlobSite.with { site in
      var held: [RawConnection] = []
      for _ in 0..<16 {
        let connection = try RawConnection(to: site.port)
        try connection.send(Self.head(of: site.uploadURL(try await site.allocate()), length: 1000))
        held.append(connection)
      }
      try await eventually("all are under way") { try site.incoming.count == 16 }
      let own = try await site.upload([1], to: try await site.allocate())
      #expect(own.status == 413 && own.code == "rate-limited")
      let neighbour = try #require(AccountNumber(e164: "+15550002222"))
      #expect(try await site.upload([1], to: try await site.allocate(for: neighbour)).status == 200)
      for connection in held { connection.close() }
      try await eventually("places are free again") {
        try await site.upload([1], to: try await site.allocate()).status == 200
      }
    }
  }

  @Test func `neither one reader nor one blob takes every place of downloads`() async throws {
    let policy = AttachmentPolicy(
      bytesMax: 64 << 20, retention: .seconds(60), quota: AttachmentQuota(bytesMax: 256 << 20))
    for (bounds, other) in [(DownloadBounds(perAddress: 2), 503), (DownloadBounds(perBlob: 2), 200)] {
      try await BlobSite.with(policy, downloads: bounds) { site in
        let (large, small) = (try await site.allocate(), try await site.allocate())
        // More than connections hold on their way.
        #expect(try await site.upload([UInt8](repeating: 1, count: 64 << 20), to: large).status == 200)
        #expect(try await site.upload([1], to: small).status == 200)
        var held: [RawConnection] = []
        for _ in 0..<2 {
          let connection = try RawConnection(to: site.port)
          try connection.send("GET \(Self.target(site.downloadURL(large))) HTTP/1.1\r\nHost: relay\r\n\r\n")
          try await connection.waitForBytes()
          held.append(connection)
        }
        let refused = try await site.download(large)
        #expect(refused.status == 503 && refused.headers.first(name: "Retry-After") == "5")
        #expect(try await site.download(small).status == other)
        // With bytes unread: the relay is told at once.
        held.removeAll()
        try await eventually("places are free again") { try await site.download(small).status == 200 }
      }
    }
  }

  // MARK: Requests

  private static func target(_ url: String) -> Substring {
    url.dropFirst("http://".count).drop { $0 != "/" }
  }

  private static func head(of url: String, length: Int64) -> String {
    head(of: url, fields: ["Content-Length: \(length)"])
  }

  private static func head(of url: String, fields: [String]) -> String {
    let lines = ["PUT \(target(url)) HTTP/1.1", "Host: relay", "Content-Type: application/octet-stream"] + fields
    return lines.joined(separator: "\r\n") + "\r\n\r\n"
  }
}
