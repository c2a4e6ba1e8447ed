import AsyncHTTPClient
import ChildProcesses
import Crypto
import Foundation
import NIOCore
import NIOHTTP1
import NIOSSL
import TestSupport
import TestTags
import Testing

@Suite(.tags(.time), .serialized) struct MemoryTests {
  @Test func `a blob of 100 MiB passes without being held`() async throws {
    try await withRelay(["RELAY_ATTACHMENTS_BYTES_MAX": "104857600"]) { _, relay in
      let ann = try await relay.register()
      // Everything that is made only once is made now.
      _ = try await Self.pass(8 << 20, through: relay, as: ann)
      let ((sent, received), grown) = try await Self.grown(by: relay) {
        try await Self.pass(100 << 20, through: relay, as: ann)
      }
      #expect(sent == received)
      #expect(grown < 32 << 20, "\(grown >> 20) MiB more")
    }
  }

  /// Fast readers made it grow most: a file is read faster than anyone takes it.
  @Test func `eight fast and eight slow readers of 90 MB hold next to nothing of it`() async throws {
    try await withRelay(["RELAY_ATTACHMENTS_BYTES_MAX": "104857600"]) { _, relay in
      let ann = try await relay.register()
      _ = try await Self.pass(8 << 20, through: relay, as: ann)
      let size = 90 << 20
      let target = try await Self.store(size, at: relay, as: ann)
      let request = "GET \(target) HTTP/1.1\r\nHost: relay\r\nConnection: close\r\n\r\n"

      let (counts, grown) = try await Self.grown(by: relay) {
        let slow = try (0..<8).map { _ in try RawConnection(to: relay.clientPort) }
        for connection in slow {
          try connection.send(request)
          try await connection.waitForBytes()
        }
        let counts = try await withThrowingTaskGroup(of: Int.self) { readers in
          for _ in 0..<8 {
            readers.addTask {
              let connection = try RawConnection(to: relay.clientPort)
              try connection.send(request)
              return try await connection.drain()
            }
          }
          return try await readers.reduce(into: [Int]()) { $0.append($1) }
        }
        for connection in slow { connection.close() }
        return counts
      }
      #expect(counts.count == 8 && counts.allSatisfy { $0 > size })
      #expect(grown < 24 << 20, "\(grown >> 20) MiB more")
    }
  }

  @Test(arguments: [HTTPClient.Configuration.HTTPVersion.automatic, .http1Only])
  func `over TLS readers hold next to nothing of it, too`(_ version: HTTPClient.Configuration.HTTPVersion) async throws
  {
    try await RelayOperator.with(settings: unlimited) { site in
      let size = 90 << 20
      let plain = try await site.serve(["RELAY_ATTACHMENTS_BYTES_MAX": "104857600"])
      let ann = try await plain.register()
      let target = try await Self.store(size, at: plain, as: ann)
      #expect(await plain.terminate() == .code(0))

      let (chain, key) = (site.folder + "/client.pem", site.folder + "/client.key")
      let authority = try TestAuthority()
      try authority.leaf(relay: nil).write(chain: chain, key: key)
      let relay = try await site.serve(["RELAY_CLIENT_TLS_CERTIFICATE": chain, "RELAY_CLIENT_TLS_KEY": key])
      let request = HTTPClientRequest(url: "https://127.0.0.1:\(relay.clientPort)\(target)")
      var configuration = HTTPClient.Configuration()
      var tls = TLSConfiguration.makeClientConfiguration()
      tls.trustRoots = .certificates(try NIOSSLCertificate.fromPEMBytes(Array(try authority.pem.utf8)))
      configuration.tlsConfiguration = tls
      configuration.httpVersion = version
      // Each has its own client, so that streams without a reader keep no window from the others.
      let (slow, fast) = (HTTPClient(configuration: configuration), HTTPClient(configuration: configuration))
      do {
        let answers = try await Self.grown(by: relay) {
          let waiting = try await (0..<8).concurrently { _ in try await slow.execute(request, timeout: .seconds(300)) }
          let read = try await (0..<8).concurrently { _ in
            let answer = try await fast.execute(request, timeout: .seconds(300))
            return try await answer.body.reduce(0) { $0 + $1.readableBytes }
          }
          #expect(read == Array(repeating: size, count: 8))
          return waiting
        }
        let spoken = version == .http1Only ? HTTPVersion.http1_1 : .http2
        #expect(answers.value.map(\.version) == Array(repeating: spoken, count: 8))
        #expect(answers.grown < 32 << 20, "\(answers.grown >> 20) MiB more")
      } catch {
        try await slow.shutdown()
        try await fast.shutdown()
        throw error
      }
      try await slow.shutdown()
      try await fast.shutdown()
      #expect(await relay.terminate() == .code(0))
    }
  }

  /// Uploads a blob of `count` bytes. - Returns: the path and query that it is read by.
  private static func store(_ count: Int, at relay: RelayProcess, as device: TestDevice) async throws -> String {
    let attachment = try await relay.allocate(as: device)
    var upload = HTTPClientRequest(url: attachment.location)
    upload.method = .PUT
    upload.headers.add(name: "Content-Type", value: Exchange.octets)
    upload.body = .stream(Pieces(total: count), length: .known(Int64(count)))
    #expect(try await HTTPClient.shared.execute(upload, timeout: .seconds(120)).status.code == 200)
    let target = try #require(URLComponents(string: try await relay.locate(attachment.id, as: device)))
    return "\(target.path)?\(target.query ?? "")"
  }

  /// - Returns: what `body` does, and by how many bytes `relay` grew meanwhile at most.
  private static func grown<Value>(by relay: RelayProcess, _ body: () async throws -> Value) async throws -> (
    value: Value, grown: Int
  ) {
    let before = try relay.residentBytes()
    let samples = Ledger<Int>()
    let watcher = Task {
      while true {
        samples.add(try relay.residentBytes())
        try await Task.sleep(for: .milliseconds(5))
      }
    }
    defer { watcher.cancel() }
    let value = try await body()
    return (value, (samples.all.max() ?? before) - before)
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

/// Bytes in pieces of 64 KiB that differ from their neighbours, the same each time. All are slices of one buffer: a debug
/// build takes seconds for the bytes of a large blob.
private struct Pieces: AsyncSequence, Sendable {
  let total: Int
  private static let size = 64 << 10
  private static let pattern = ByteBuffer(bytes: (0..<(size + 256)).map { UInt8(truncatingIfNeeded: $0 &* 31) })

  struct AsyncIterator: AsyncIteratorProtocol {
    let total: Int
    var passed = 0

    mutating func next() async -> ByteBuffer? {
      guard passed < total else { return nil }
      let count = Swift.min(size, total - passed)
      let piece = pattern.getSlice(at: passed / size % 256, length: count)
      passed += count
      return piece
    }
  }
  func makeAsyncIterator() -> AsyncIterator { AsyncIterator(total: total) }
}

extension Range<Int> {
  /// In their order.
  fileprivate func concurrently<Value: Sendable>(
    _ make: @escaping @Sendable (Int) async throws -> Value
  ) async throws -> [Value] {
    try await withThrowingTaskGroup(of: (Int, Value).self) { group in
      for index in self { group.addTask { (index, try await make(index)) } }
      var made: [Int: Value] = [:]
      for try await (index, value) in group { made[index] = value }
      return compactMap { made[$0] }
    }
  }
}
