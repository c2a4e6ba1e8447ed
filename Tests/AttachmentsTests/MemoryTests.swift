import AsyncHTTPClient
import Crypto
import NIOCore
import NIOHTTP1
import TestSupport
import Testing

@Suite(.serialized) struct MemoryTests {
  @Test func `a blob of 100 MiB passes without being held`() async throws {
    try await withRelay(["RELAY_ATTACHMENTS_BYTES_MAX": "104857600"]) { _, relay in
      let ann = try await relay.register()
      // Whatever is made once is made now.
      _ = try await Self.pass(8 << 20, through: relay, as: ann)
      let before = try relay.residentBytes()
      let samples = Ledger<Int>()
      let watcher = Task {
        while true {
          samples.add(try relay.residentBytes())
          try await Task.sleep(for: .milliseconds(5))
        }
      }
      let (sent, received) = try await Self.pass(100 << 20, through: relay, as: ann)
      watcher.cancel()
      #expect(sent == received)
      let highest = try #require(samples.all.max())
      #expect(highest - before < 32 << 20, "\((highest - before) >> 20) MiB more")
    }
  }

  /// - Returns: SHA-256 of what went in and of what came out.
  private static func pass(_ count: Int, through relay: RelayProcess, as device: TestDevice) async throws -> (
    SHA256.Digest, SHA256.Digest
  ) {
    let attachment = try await relay.allocate(as: device)
    let pieces = Pieces(total: count)
    var upload = HTTPClientRequest(url: attachment.location)
    upload.method = .PUT
    upload.headers.add(name: "Content-Type", value: Exchange.octets)
    upload.body = .stream(pieces, length: .known(Int64(count)))
    let answer = try await HTTPClient.shared.execute(upload, timeout: .seconds(120))
    #expect(answer.status.code == 200)

    let location = try await relay.locate(attachment.id, as: device)
    let download = try await HTTPClient.shared.execute(HTTPClientRequest(url: location), timeout: .seconds(120))
    var (sent, received) = (SHA256(), SHA256())
    for await piece in pieces { piece.withUnsafeReadableBytes { sent.update(bufferPointer: $0) } }
    for try await piece in download.body { piece.withUnsafeReadableBytes { received.update(bufferPointer: $0) } }
    return (sent.finalize(), received.finalize())
  }
}

/// Bytes that are made as they are asked for, the same each time.
private struct Pieces: AsyncSequence, Sendable {
  let total: Int

  struct AsyncIterator: AsyncIteratorProtocol {
    let total: Int
    var passed = 0

    mutating func next() async -> ByteBuffer? {
      guard passed < total else { return nil }
      let count = Swift.min(64 << 10, total - passed)
      let seed = passed
      let piece = ByteBuffer(bytes: (0..<count).map { UInt8(truncatingIfNeeded: ($0 &+ seed >> 7) &* 31) })
      passed += count
      return piece
    }
  }
  func makeAsyncIterator() -> AsyncIterator { AsyncIterator(total: total) }
}
