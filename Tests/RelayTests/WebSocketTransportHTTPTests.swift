import AsyncHTTPClient
import NIOCore
import NIOHTTP1
import NIOSSL
import RelayHTTP
import TestSupport
import TestTags
import Testing

/// Plain HTTP beside WebSockets on one port, and what a stopping listener does to both.
@Suite(.tags(.unit)) struct WebSocketTransportHTTPTests {
  private static let hello = Array("GET /v1/hello HTTP/1.1\r\nHost: relay\r\n\r\n".utf8)

  private static func echo(_ body: String) -> [UInt8] {
    Array("PUT /v1/echo HTTP/1.1\r\nHost: relay\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)".utf8)
  }

  @Test(arguments: [false, true])
  func `requests follow each other on one connection, also without waiting`(isSecure: Bool) async throws {
    try await TransportSite.with(isSecure: isSecure) { site in
      let socket = try await site.connect()
      for number in 1...3 {
        try await socket.send(Self.echo("body \(number)"))
        #expect(try await socket.answer().body == "body \(number)")
      }
      try await socket.send(Self.hello + Self.echo("a") + Self.hello + Self.echo("b"))
      for expected in ["hello", "a", "hello", "b"] { #expect(try await socket.answer().body == expected) }
      #expect(!socket.hasEnded)
      await socket.close()
    }
  }

  @Test func `a client that has sent all it will is answered`() async throws {
    try await TransportSite.with { site in
      // Many times: what is closed before the listener has come to it is served too.
      for request in (0..<100).flatMap({ _ in [Self.hello, Self.hello + Self.echo("and this")] }) {
        let socket = try await site.connect()
        try await socket.send(request)
        try await socket.finishSending()
        #expect(try await socket.answer().body == "hello")
        if request.count > Self.hello.count { #expect(try await socket.answer().body == "and this") }
        try await socket.ended()
        await socket.close()
      }
    }
  }

  @Test(arguments: [false, true])
  func `large bodies come whole`(isSecure: Bool) async throws {
    try await TransportSite.with(isSecure: isSecure) { site in
      let body = String(repeating: "0123456789abcdef", count: 200_000)
      let socket = try await site.connect()
      try await socket.send(Self.echo(body))
      #expect(try await socket.answer().body == body)
      await socket.close()
    }
  }

  @Test func `over HTTP/2 the router answers, also where WebSockets are to be had`() async throws {
    try await TransportSite.with(isSecure: true) { site in
      let authority = try #require(site.authority)
      var configuration = HTTPClient.Configuration()
      configuration.tlsConfiguration = try TestLeaf.anonymousConfiguration(trusting: authority.certificate)
      let client = HTTPClient(configuration: configuration)
      for (path, status) in [("/v1/hello", 200), ("/socket/", 404)] {
        let answer = try await client.execute(
          HTTPClientRequest(url: "https://localhost:\(site.port)\(path)"), timeout: .seconds(60))
        #expect(answer.status.code == status && answer.version == .http2)
      }
      try await client.shutdown()
    }
  }

  @Test func `garbage is answered with 400`() async throws {
    try await TransportSite.with { site in
      for garbage in ["hello\r\n\r\n", "GET /v1/hello HTTP/9.9\r\n\r\n", "\u{16}\u{3}\u{1}\u{2}\r\n\r\n"] {
        let answer = try await site.ask(Array(garbage.utf8))
        #expect(answer.status == 400)
      }
    }
  }

  @Test func `an upgrade elsewhere is the router's, without the upgrade, and the last of its connection`() async throws
  {
    try await TransportSite.with { site in
      for request in [RawSocket.request("/v1/hello"), Self.hello + RawSocket.request("/v1/hello")] {
        let socket = try await site.connect()
        try await socket.send(request)
        if request.count > RawSocket.request("/v1/hello").count {
          let first = try await socket.answer()
          #expect(first.body == "hello" && first.headers["connection"] == nil)
        }
        let answer = try await socket.answer()
        #expect(answer.status == 200 && answer.body == "hello" && answer.headers["connection"] == "close")
        try await socket.ended()
        await socket.close()
      }
    }
  }

  @Test func `a later request for a WebSocket ends the connection without an answer, so that proxies try a fresh one`()
    async throws
  {
    try await TransportSite.with { site in
      let socket = try await site.connect()
      try await socket.send(Self.hello)
      #expect(try await socket.answer().body == "hello")
      try await socket.send(RawSocket.request("/socket/"))
      try await socket.ended()
      #expect(socket.unreadBytes == 0 && site.authorizer.asked.isEmpty)
      // Without an upgrade it is the router's.
      let other = try await site.connect()
      try await other.send(Self.hello + Array("GET /socket/ HTTP/1.1\r\nHost: relay\r\n\r\n".utf8))
      #expect(try await other.answer().status == 200)
      #expect(try await other.answer().status == 404)
      await socket.close()
      await other.close()
    }
  }

  @Test(arguments: [false, true])
  func `while it drains, answers are the last of their connections and new WebSockets are refused`(isSecure: Bool)
    async throws
  {
    try await TransportSite.with(isSecure: isSecure) { site in
      let (open, idle) = (try await site.open(), try await site.connect())
      try await idle.send(Self.hello)
      #expect(try await idle.answer().headers["connection"] == nil)
      site.drain.begin()
      for socket in [idle, try await site.connect()] {
        try await socket.send(Self.echo("late"))
        let answer = try await socket.answer()
        #expect(answer.body == "late" && answer.headers["connection"] == "close")
        try await socket.ended()
        await socket.close()
      }
      let refused = try await site.ask(RawSocket.request("/socket/"))
      #expect(refused.status == 503 && refused.headers["retry-after"] == "1")
      // Open sockets are the sessions' matter.
      try await open.sendText("still here")
      #expect(try await open.frame().text == "still here")
      await open.close()
    }
  }

  @Test(arguments: [false, true])
  func `a listener that stops closes its WebSockets with 1012 and waits for them`(isSecure: Bool) async throws {
    let sockets = try await TransportSite.with(isSecure: isSecure) { site in
      var sockets: [RawSocket] = []
      for _ in 0..<20 { sockets.append(try await site.open()) }
      // One that has asked for nothing yet must not keep it.
      let silent = try await site.connect()
      await site.stopListening()
      for socket in sockets {
        #expect(try await socket.closeCode() == 1012)
        try await socket.sendClose(1012)
        try await socket.ended()
      }
      try await silent.ended()
      #expect(try await site.ends(of: 20) == Array(repeating: .shutdown, count: 20))
      return sockets + [silent]
    }
    for socket in sockets { await socket.close() }
  }

  @Test func `a client that does not answer a close keeps nobody waiting`() async throws {
    var times = SocketTimes()
    times.closing = .seconds(1)
    try await TransportSite.with(times: times) { site in
      let socket = try await site.open()
      try await socket.sendText("close")
      #expect(try await socket.closeCode() == 1008)
      try await socket.sendText("what is sent now is not taken")
      try await socket.ended()
      #expect(try await site.ends(of: 1) == [.session])
      await socket.close()
    }
  }
}
