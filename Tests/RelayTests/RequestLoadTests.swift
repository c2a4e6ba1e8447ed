import Logging
import NIOCore
import RelayCore
import TestSupport
import TestTags
import Testing

@testable import RelayHTTP

/// Requests for which there is no room, on a listener of this process: refused behind their heads.
@Suite(.tags(.time)) struct RequestLoadTests {
  /// A load that is overloaded as soon as one request is under way, and not any more when that is over.
  private static func narrow(unansweredMin: Int = 1) -> RequestLoad {
    var bounds = OverloadRule.Bounds()
    (bounds.unansweredMin, bounds.patience, bounds.target) = (unansweredMin, .zero, .zero)
    return RequestLoad(bounds: bounds, logger: Logger(label: "load") { _ in SwiftLogNoOpLogHandler() })
  }

  private static func text(_ lines: String...) -> [UInt8] { Array((lines + ["", ""]).joined(separator: "\r\n").utf8) }

  @Test(arguments: [false, true])
  func `a request without room is refused before its body has come, and its connection goes on`(isSecure: Bool)
    async throws
  {
    let load = Self.narrow()
    try await TransportSite.with(isSecure: isSecure, load: load) { site in
      let socket = try await site.connect()
      load.began()
      try await socket.send(Self.text("PUT /v1/echo HTTP/1.1", "Host: relay", "Content-Length: 4"))
      let refusal = try await socket.answer()
      #expect(refusal.status == 503 && refusal.headers["retry-after"] == "2")
      #expect(refusal.headers["connection"] == nil && refusal.body.hasPrefix("unavailable: "))
      // The body is forgotten, and is not taken for a request.
      try await socket.send(Array("body".utf8) + Self.text("GET /v1/hello HTTP/1.1", "Host: relay"))
      #expect(try await socket.answer().status == 503)
      load.ended()
      try await socket.send(Self.text("PUT /v1/echo HTTP/1.1", "Host: relay", "Content-Length: 4") + Array("more".utf8))
      let answer = try await socket.answer()
      #expect(answer.status == 200 && answer.body == "more")
      await socket.close()
    }
  }

  @Test func `a refusal ends connections that ask for it, with long bodies, and of HTTP 1.0`() async throws {
    let load = Self.narrow()
    try await TransportSite.with(load: load) { site in
      load.began()
      let heads = [
        Self.text("GET /v1/hello HTTP/1.1", "Host: relay", "Connection: close"), Self.text("GET /v1/hello HTTP/1.0"),
        Self.text("PUT /v1/echo HTTP/1.1", "Host: relay", "Content-Length: 300000"),
        Self.text("PUT /v1/echo HTTP/1.1", "Host: relay", "Transfer-Encoding: chunked"),
        Self.text("PUT /v1/echo HTTP/1.1", "Host: relay", "Content-Length: 4", "Expect: 100-continue"),
      ]
      for head in heads {
        let socket = try await site.connect()
        try await socket.send(head)
        let refusal = try await socket.answer()
        #expect(refusal.status == 503 && refusal.headers["connection"] == "close")
        try await socket.ended(within: .seconds(20))
        await socket.close()
      }
      load.ended()
    }
  }

  @Test func `a stream of HTTP 2 without room is refused, and the next one is served`() async throws {
    let load = Self.narrow()
    try await TransportSite.with(isSecure: true, load: load) { site in
      let connection = try await RawHTTP2.connect(to: site.port, trusting: try #require(site.authority))
      load.began()
      try await connection.send(
        RawHTTP2.headers, flags: RawHTTP2.endHeaders | RawHTTP2.endStream, stream: 1,
        RawHTTP2.request("GET", "/v1/hello"))
      #expect(try await connection.status(stream: 1) == 503)
      load.ended()
      try await connection.send(
        RawHTTP2.headers, flags: RawHTTP2.endHeaders | RawHTTP2.endStream, stream: 3,
        RawHTTP2.request("GET", "/v1/hello"))
      #expect(try await connection.status(stream: 3) == 200)
      await connection.close()
    }
  }

  /// Their connection is answered one at a time.
  @Test func `requests behind an unanswered one take no room from others`() async throws {
    let load = Self.narrow(unansweredMin: 3)
    try await TransportSite.with(load: load) { site in
      let greedy = try await site.connect()
      let held = Self.text("GET /v1/held HTTP/1.1", "Host: relay")
      try await greedy.send(Array([[UInt8]](repeating: held, count: 20).joined()))
      for _ in 0..<20 {
        let request = Self.text("GET /v1/hello HTTP/1.1", "Host: relay", "Connection: close")
        #expect(try await site.ask(request).status == 200)
      }
      site.authorizer.release()
      for _ in 0..<20 { #expect(try await greedy.answer().status == 200) }
      await greedy.close()
      try await eventually("nothing is counted") { load.isIdle }
    }
  }

  @Test func `a request that becomes whole in the midst of its answer is not counted`() async throws {
    let load = Self.narrow()
    try await TransportSite.with(load: load) { site in
      var sockets: [RawSocket] = []
      for _ in 0..<5 {
        let socket = try await site.connect()
        try await socket.send(Self.text("GET /v1/begun HTTP/1.1", "Host: relay", "Content-Length: 1"))
        try await eventually("the answer has begun") { socket.unreadBytes > 0 }
        try await socket.send([UInt8(ascii: "x")])
        sockets.append(socket)
      }
      // Its bytes are read before those of a later connection are answered.
      let request = Self.text("GET /v1/hello HTTP/1.1", "Host: relay", "Connection: close")
      try await eventually("a request is served") { try await site.ask(request).status == 200 }
      site.authorizer.release()
      for socket in sockets {
        let rest = String(decoding: try await socket.rest(), as: UTF8.self)
        #expect(rest.hasPrefix("HTTP/1.1 200") && rest.contains("first"))
        await socket.close()
      }
      try await eventually("nothing is counted") { load.isIdle }
    }
  }

  @Test(arguments: [false, true])
  func `requests that are answered, cut off or refused leave nothing counted`(isSecure: Bool) async throws {
    let load = Self.narrow()
    try await TransportSite.with(isSecure: isSecure, load: load) { site in
      let socket = try await site.connect()
      for _ in 0..<20 {
        // The requests of the connection before this one may be read only now.
        try await eventually("a request is served") {
          try await socket.send(Self.text("GET /v1/hello HTTP/1.1", "Host: relay"))
          return try await socket.answer().status == 200
        }
        // Answered before its body has come.
        let early = try await site.connect()
        try await early.send(Self.text("PUT /v1/refuse HTTP/1.1", "Host: relay", "Content-Length: 9"))
        #expect(try await early.answer().status == 415)
        await early.close()
        // Its client is gone before it can be answered whole.
        let gone = try await site.connect()
        try await gone.send(Self.text("GET /v1/stream HTTP/1.1", "Host: relay"))
        await gone.close()
        try await eventually("nothing is counted") { load.admits() && load.isIdle }
      }
      await socket.close()
    }
  }
}
