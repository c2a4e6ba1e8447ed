import NIOCore
import NIOSSL
import RelayCore
import RelayHTTP
import RelayWork
import TestSupport
import TestTags
import Testing

@testable import Directory

/// The connections between processes that ask for parts and those that hold them.
@Suite(.tags(.processes)) struct PartConnectionTests {
  @Test func `over TLS a process is known by its certificate, for its name or its address`() async throws {
    try await PartServers.with { servers in
      let sample = try PartSample(parts: 1, seed: 5)
      let port = try Loopback.freePorts(1)[0]
      let authority = try TestAuthority()
      try await servers.start(sample.parts[0], at: port, tls: try Self.context(of: authority))
      let client = PartClient(
        key: PartServers.key, tls: try TestLeaf.anonymousConfiguration(trusting: authority.certificate),
        limit: .seconds(10))
      for host in ["localhost", "127.0.0.1"] {
        let address = PartAddress(.whole, host: host, port: port, isSecure: true)
        for _ in 0..<2 { #expect(try await client.look(at: address).entries == sample.whole.table.count) }
      }
      let other = PartClient(
        key: PartServers.key, tls: try TestLeaf.anonymousConfiguration(trusting: try TestAuthority().certificate),
        limit: .seconds(10))
      let failure = await #expect(throws: PartFailure.self) {
        try await other.look(at: PartAddress(.whole, host: "localhost", port: port, isSecure: true))
      }
      #expect(failure?.description.contains("TLS failed") == true, "\(String(describing: failure))")
      // Over TLS alone.
      await #expect(throws: PartFailure.self) {
        try await client.look(at: PartAddress(.whole, host: "localhost", port: port))
      }
    }
  }

  @Test func `each address of a name is tried, and a name without any is said to have none`() async throws {
    try await PartServers.with { servers in
      let sample = try PartSample(parts: 1, seed: 9)
      let port = try Loopback.freePorts(1)[0]
      try await servers.start(sample.parts[0], at: port)
      let address = PartAddress(.whole, host: "part.example", port: port)
      // Nobody listens at the first two.
      let several = PartClient(
        key: PartServers.key, limit: .seconds(10),
        resolver: HostResolver { _, _ in ["127.0.0.2", "::1", "127.0.0.1"] })
      #expect(try await several.look(at: address).entries == sample.whole.table.count)
      let none = PartClient(key: PartServers.key, limit: .seconds(10), resolver: HostResolver { _, _ in [] })
      await #expect(throws: PartFailure.unreachable("its name has no address, or none in time")) {
        try await none.look(at: address)
      }
      // A look-up that never ends takes the time of the question.
      let gate = Gate()
      let late = PartClient(
        key: PartServers.key, limit: .milliseconds(200),
        resolver: HostResolver { _, _ in
          await gate.wait()
          return []
        })
      await #expect(throws: PartFailure.timedOut) { try await late.look(at: address) }
      gate.open()
    }
  }

  private static func context(of authority: TestAuthority) throws -> NIOSSLContext {
    let leaf = try authority.leaf(relay: nil)
    return try NIOSSLContext(
      configuration: .makeServerConfiguration(
        certificateChain: try leaf.chain.map { .certificate($0) }, privateKey: .privateKey(try leaf.privateKey)))
  }

  @Test func `whoever has not the key gets no answer, whatever is sent`() async throws {
    try await PartServers.with { servers in
      let sample = try PartSample(parts: 1, seed: 6)
      let port = try Loopback.freePorts(1)[0]
      try await servers.start(sample.parts[0], at: port)
      let key = PartClient.authorization(by: PartServers.key)
      let questions = Array(PartQuestions(of: .whole).bytes.readableBytesView)
      let socket = try await RawSocket.connect(to: port)
      func status(_ line: String, _ authorization: String?, _ body: [UInt8]) async throws -> Int {
        let field = authorization.map { "Authorization: \($0)\r\n" } ?? ""
        let head = "\(line) HTTP/1.1\r\nHost: part\r\n\(field)Content-Length: \(body.count)\r\n\r\n"
        try await socket.send(Array(head.utf8) + body)
        return try await socket.answer().status
      }
      // One connection for all of them.
      #expect(try await status("POST /v1/directory-part", key, questions) == 200)
      #expect(try await status("POST /v1/directory-part", nil, questions) == 401)
      #expect(try await status("POST /v1/directory-part", key + "A", questions) == 401)
      let large = [UInt8](repeating: 0, count: PartQuestions.bytesMax + 1)
      #expect(try await status("POST /v1/directory-part", "Bearer x", large) == 401)
      #expect(try await status("POST /v1/directory-part", key, large) == 413)
      #expect(try await status("POST /v1/directory-part", key, [1]) == 400)
      #expect(try await status("GET /v1/directory-part", key, []) == 405)
      #expect(try await status("POST /v1/directory", key, questions) == 404)
      #expect(try await status("POST /v1/directory-part", key, questions) == 200)
      await socket.close()
      // Behind an upgrade nothing would be read any more, and a head has its size.
      for field in ["Upgrade: x\r\nConnection: Upgrade", "X: " + String(repeating: "x", count: 9000)] {
        let other = try await RawSocket.connect(to: port)
        try await other.send(Array("GET /v1/directory-part HTTP/1.1\r\nHost: part\r\n\(field)\r\n\r\n".utf8))
        try await other.ended()
        await other.close()
      }
      let nonsense = try await RawSocket.connect(to: port)
      try await nonsense.send(Array("nonsense\r\n\r\n".utf8))
      #expect(try await nonsense.answer().status == 400)
      try await nonsense.ended()
      await nonsense.close()
    }
  }

  @Test func `a process that is about to stop answers once more on each connection`() async throws {
    try await PartServers.with { servers in
      let sample = try PartSample(parts: 1, seed: 7)
      let port = try Loopback.freePorts(1)[0]
      let drain = DrainState()
      try await servers.start(sample.parts[0], at: port, drain: drain)
      let parts = servers.parts([(.whole, port)])
      let wanted = WantedContacts(sample.tokens)
      let expected = try await parts.find(wanted).hits.count
      let socket = try await RawSocket.connect(to: port)
      drain.begin()
      let head = "POST /v1/directory-part HTTP/1.1\r\nHost: part\r\nContent-Length: 0\r\n\r\n"
      try await socket.send(Array(head.utf8))
      let answer = try await socket.answer()
      #expect(answer.status == 401 && answer.headers["connection"] == "close")
      try await socket.ended()
      await socket.close()
      // Those who ask take new connections meanwhile.
      for _ in 0..<3 { #expect(try await parts.find(wanted).hits.count == expected) }
    }
  }

  @Test func `a listener ends while connections are open`() async throws {
    try await PartServers.with { servers in
      let sample = try PartSample(parts: 1, seed: 8)
      let port = try Loopback.freePorts(1)[0]
      try await servers.start(sample.parts[0], at: port)
      let (idle, begun) = (try await RawSocket.connect(to: port), try await RawSocket.connect(to: port))
      try await begun.send(Array("POST /v1/directory-part HTTP/1.1\r\nHost: part\r\nContent-Length: 5\r\n\r\n".utf8))
      let parts = servers.parts([(.whole, port)])
      _ = try await parts.find(WantedContacts(sample.tokens))
      async let stopped: Void = servers.stop(port)
      try await idle.ended()
      // What is under way is still answered.
      try await begun.send([1, 2, 3, 4, 5])
      #expect(try await begun.answer().status == 401)
      try await begun.ended()
      await stopped
      await idle.close()
      await begun.close()
    }
  }
}
