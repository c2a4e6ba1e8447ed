import Foundation
import Logging
import RelayCore
import TestSupport
import TestTags
import Testing
import X509

@testable import Storage

/// Redis inside TLS: the relay talks to the server that it means, or to none and says why.
@Suite(.tags(.stores)) struct RedisTLSTests {
  /// A server for `localhost` that serves clients of the same CA alone, and the files of such a client.
  private static func with(
    leaf: (TestAuthority) throws -> TestLeaf = { try $0.leaf(relay: nil) },
    _ body: (RedisServer, RedisTLSFiles, TestAuthority) async throws -> Void
  ) async throws {
    let authority = try TestAuthority("redis")
    try await RedisServer.with(tls: ServerTLS(leaf(authority), clients: authority)) { server in
      let files = RedisTLSFiles(
        authority: server.folder + "/authority.pem", certificate: server.folder + "/relay.pem",
        key: server.folder + "/relay.key")
      try authority.pem.write(toFile: server.folder + "/authority.pem", atomically: true, encoding: .utf8)
      try authority.leaf(relay: nil).write(chain: server.folder + "/relay.pem", key: server.folder + "/relay.key")
      try await body(server, files, authority)
    }
  }

  private static func coordination(
    _ server: RedisServer, _ files: RedisTLSFiles, host: String = "localhost", port: Int? = nil,
    logger: Logger = .quiet
  ) throws -> RedisCoordination {
    try RedisCoordination(
      RedisEndpoint(address: .tcp(host: host, port: port ?? server.tlsPort ?? 0), tls: files),
      buckets: [.messages: Bucket(size: 40, perMinute: 0.001)], clock: ManualClock(Sample.noon).wall, logger: logger)
  }

  private static func expectRefusal(
    _ words: String, _ server: RedisServer, _ files: RedisTLSFiles, host: String = "localhost", port: Int? = nil,
    at location: SourceLocation = #_sourceLocation
  ) async throws {
    let lines = LogRecorder.Lines()
    let coordination = try coordination(
      server, files, host: host, port: port, logger: Logger(label: "redis") { _ in LogRecorder(lines: lines) })
    try await eventually("\(words) is said") { await coordination.degradation()?.contains(words) == true }
    // Nothing was said to it; this process limits by itself.
    #expect(await coordination.diagnose() == nil, sourceLocation: location)
    #expect(
      await coordination.take(1, from: .messages, key: LimitKey(try Sample.number(1))) == .allowed,
      sourceLocation: location)
    await coordination.close()
    #expect(
      lines.count(.warning, containing: "Redis cannot be used as it is configured") == 1, sourceLocation: location)
  }

  @Test func `limits, signals and what is large pass through TLS, by name and by address`() async throws {
    try await Self.with { server, files, _ in
      for (place, host) in ["localhost", "127.0.0.1"].enumerated() {
        let (first, second) = (
          try Self.coordination(server, files, host: host), try Self.coordination(server, files, host: host)
        )
        let heard = Heard()
        second.listen(heard.handler)
        for coordination in [first, second] {
          try await eventually("Redis is reached") { await coordination.degradation() == nil }
        }
        #expect(await first.diagnose()?.encryption == "TLSv1.3")
        let key = LimitKey(try Sample.number(place + 1))
        for index in 0..<50 {
          let decision = await (index.isMultiple(of: 2) ? first : second).take(1, from: .messages, key: key)
          #expect((decision == .allowed) == (index < 40))
        }
        await first.publish(.peersChanged)
        try await eventually("the signal is heard") { heard.events.contains(.signal(.peersChanged)) }
        // More than a socket takes, or a record holds, at once.
        let large = String(repeating: "relay", count: 2 << 20)
        #expect(await first.commands.call(RedisCommand("SET", "large", large), key: "large") == .status("OK"))
        #expect(await second.commands.call(RedisCommand("GET", "large"), key: "large") == .bytes(Array(large.utf8)))
        for coordination in [first, second] { await coordination.close() }
      }
    }
  }

  @Test func `a connection that was lost comes back inside TLS`() async throws {
    try await Self.with { server, files, _ in
      let coordination = try Self.coordination(server, files)
      try await eventually("Redis is reached") { await coordination.degradation() == nil }
      server.stop()
      try await eventually("the outage is noticed") { await coordination.degradation() != nil }
      try await server.start()
      try await eventually("Redis is found again") { await coordination.degradation() == nil }
      #expect(await coordination.diagnose()?.encryption == "TLSv1.3")
      await coordination.close()
    }
  }

  @Test func `a server of another CA is refused, until the file names its CA`() async throws {
    try await Self.with { server, files, authority in
      let other = server.folder + "/other.pem"
      try TestAuthority("other").pem.write(toFile: other, atomically: true, encoding: .utf8)
      let wrong = RedisTLSFiles(authority: other, certificate: files.certificate, key: files.key)
      try await Self.expectRefusal("no CA that is trusted has signed it", server, wrong)
      // The system's CAs do not know it either.
      let system = RedisTLSFiles(certificate: files.certificate, key: files.key)
      try await Self.expectRefusal("no CA that is trusted has signed it", server, system)

      let coordination = try Self.coordination(server, wrong)
      try await eventually("it is refused") { await coordination.degradation()?.contains("no CA") == true }
      try authority.pem.write(toFile: other, atomically: true, encoding: .utf8)
      try await eventually("Redis is reached") { await coordination.degradation() == nil }
      await coordination.close()
    }
  }

  @Test func `a server with a certificate for another host is refused`() async throws {
    try await Self.with(leaf: { try $0.leaf(relay: nil, host: "other.example") }) { server, files, _ in
      for host in ["localhost", "127.0.0.1"] {
        try await Self.expectRefusal(
          "the certificate of \(host) is refused: it is for another host", server, files, host: host)
      }
    }
  }

  @Test func `a server whose certificate has expired, or is not valid yet, is refused`() async throws {
    let now = Date()
    try await Self.with(
      leaf: { try $0.leaf(relay: nil, from: now.addingTimeInterval(-7200), until: now.addingTimeInterval(-3600)) }
    ) { server, files, _ in try await Self.expectRefusal("it has expired", server, files) }
    try await Self.with(
      leaf: { try $0.leaf(relay: nil, from: now.addingTimeInterval(3600), until: now.addingTimeInterval(7200)) }
    ) { server, files, _ in try await Self.expectRefusal("it is not valid yet", server, files) }
  }

  @Test func `a certificate that is for clients alone makes no server`() async throws {
    try await Self.with(leaf: { try $0.leaf(relay: nil, usages: [.clientAuth]) }) { server, files, _ in
      try await Self.expectRefusal("it is not for servers", server, files)
    }
  }

  @Test func `a server that wants another certificate of us says so in our log`() async throws {
    try await Self.with { server, files, _ in
      try await Self.expectRefusal(
        "Redis wants a client certificate: set coordination.tls.certificate", server,
        RedisTLSFiles(authority: files.authority))
      let (chain, key) = (server.folder + "/stranger.pem", server.folder + "/stranger.key")
      try TestAuthority("stranger").leaf(relay: nil).write(chain: chain, key: key)
      try await Self.expectRefusal(
        "Redis refused our client certificate", server,
        RedisTLSFiles(authority: files.authority, certificate: chain, key: key))
    }
  }

  @Test func `a port without TLS is no Redis to us`() async throws {
    try await Self.with { server, files, _ in
      let coordination = try Self.coordination(server, files, port: server.port)
      try await eventually("it is refused") { await coordination.degradation()?.contains("tls-port") == true }
      #expect(await coordination.diagnose() == nil)
      await coordination.close()
    }
  }

  @Test func `a file that cannot be used stops the start`() async throws {
    try await Self.with { server, files, _ in
      let broken = server.folder + "/broken.pem"
      try "no certificate".write(toFile: broken, atomically: true, encoding: .utf8)
      for (key, wrong) in [
        ("ca", RedisTLSFiles(authority: "/nonexistent.pem")), ("ca", RedisTLSFiles(authority: broken)),
        ("certificate", RedisTLSFiles(certificate: broken, key: files.key)),
        // The key of another certificate.
        ("key", RedisTLSFiles(certificate: files.certificate, key: server.folder + "/tls.key")),
      ] {
        let error = #expect(throws: StoreError.self) { _ = try Self.coordination(server, wrong) }
        #expect("\(error as StoreError?, default: "")".contains("coordination.tls.\(key): "))
      }
    }
  }
}
