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
  private static func narrow() -> RequestLoad {
    var bounds = OverloadRule.Bounds()
    (bounds.unansweredMin, bounds.patience, bounds.target) = (1, .zero, .zero)
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
        try await eventually("nothing is counted") { load.admits() }
      }
      await socket.close()
    }
  }
}
