import NIOCore
import RelayHTTP
import TestSupport
import TestTags
import Testing

/// HTTP/2 frame by frame, on one listener of this process.
@Suite(.tags(.time)) struct EdgeHTTP2Tests {
  private static var brief: RequestTimes {
    var times = RequestTimes()
    times.head = .milliseconds(500)
    times.body.grace = .milliseconds(500)
    times.body.bytesPerSecond = 1000
    return times
  }

  private static func with(
    _ times: RequestTimes = RequestTimes(), _ body: @escaping @Sendable (TransportSite, RawHTTP2) async throws -> Void
  ) async throws {
    try await TransportSite.with(isSecure: true, requests: times) { site in
      let connection = try await RawHTTP2.connect(to: site.port, trusting: try #require(site.authority))
      try await body(site, connection)
      await connection.close()
    }
  }

  /// Whichever comes first, the answer or the frame: it was a race once.
  @Test(arguments: [false, true])
  func `a window that is opened by nothing resets the stream`(isAnswered: Bool) async throws {
    try await Self.with { _, connection in
      // Not its end: the stream stays open, answered or not.
      let (method, path) = isAnswered ? ("GET", "/v1/hello") : ("PUT", "/v1/echo")
      try await connection.send(
        RawHTTP2.headers, flags: RawHTTP2.endHeaders, stream: 1, RawHTTP2.request(method, path))
      if isAnswered {
        var frame = try await connection.next([RawHTTP2.headers, RawHTTP2.data], stream: 1)
        while frame.flags & RawHTTP2.endStream == 0 {
          frame = try await connection.next([RawHTTP2.headers, RawHTTP2.data], stream: 1)
        }
      }
      try await connection.send(RawHTTP2.windowUpdate, stream: 1, [0, 0, 0, 0])
      #expect(try await connection.next([RawHTTP2.reset], stream: 1).errorCode == RawHTTP2.protocolError)
    }
  }

  @Test func `a window of the connection that is opened by nothing ends it`() async throws {
    try await Self.with { _, connection in
      try await connection.send(RawHTTP2.windowUpdate, stream: 0, [0, 0, 0, 0])
      #expect(try await connection.next([RawHTTP2.goAway], stream: 0).errorCode == RawHTTP2.protocolError)
      try await connection.socket.ended(within: .seconds(20))
    }
  }

  @Test func `a request names its host once, or twice the same`() async throws {
    try await Self.with { _, connection in
      let cases: [(String?, [String], Int)] = [
        ("localhost", [], 200), (nil, ["localhost"], 200), ("localhost", ["LOCALHOST"], 200),
        ("localhost", ["other"], 400), (nil, [], 400), (nil, ["a", "a"], 400), ("user@localhost", [], 400),
      ]
      for (index, (authority, hosts, status)) in cases.enumerated() {
        let stream = UInt32(index * 2 + 1)
        let request = RawHTTP2.request("GET", "/v1/hello", authority: authority, hosts.map { ("host", $0) })
        try await connection.send(
          RawHTTP2.headers, flags: RawHTTP2.endHeaders | RawHTTP2.endStream, stream: stream, request)
        #expect(try await connection.status(stream: stream) == status, "\(authority ?? "none"), \(hosts)")
      }
    }
  }

  @Test func `a body that drips is answered with 408, and its stream is reset; others go on`() async throws {
    try await Self.with(Self.brief) { _, connection in
      try await connection.send(
        RawHTTP2.headers, flags: RawHTTP2.endHeaders, stream: 1, RawHTTP2.request("PUT", "/v1/echo"))
      // One frame, of which single bytes come.
      try await connection.socket.send(
        Array(RawHTTP2.frame(RawHTTP2.data, stream: 1, .init(repeating: 0, count: 400)).prefix(9)))
      let dripping = Task {
        for _ in 0..<400 {
          try await connection.socket.send([0])
          try await Task.sleep(for: .milliseconds(20))
        }
      }
      #expect(try await connection.status(stream: 1) == 408)
      #expect(try await connection.next([RawHTTP2.reset], stream: 1).errorCode == 0)
      try await dripping.value
      try await connection.send(
        RawHTTP2.headers, flags: RawHTTP2.endHeaders | RawHTTP2.endStream, stream: 3,
        RawHTTP2.request("GET", "/v1/hello"))
      #expect(try await connection.status(stream: 3) == 200)
    }
  }

  @Test func `fields that drip end the connection, and so does silence`() async throws {
    try await Self.with(Self.brief) { site, connection in
      // None of the first request: what has been asked for before must not matter.
      try await connection.send(
        RawHTTP2.headers, flags: RawHTTP2.endHeaders | RawHTTP2.endStream, stream: 1,
        RawHTTP2.request("GET", "/v1/hello"))
      #expect(try await connection.status(stream: 1) == 200)
      try await Task.sleep(for: .milliseconds(1000))
      #expect(!connection.socket.hasEnded)
      try await connection.send(RawHTTP2.headers, stream: 3, RawHTTP2.request("GET", "/v1/hello"))
      try await eventually("the relay has ended the connection", within: .seconds(20), every: .milliseconds(50)) {
        if connection.socket.hasEnded { return true }
        // It may have ended meanwhile.
        try? await connection.send(RawHTTP2.continuation, stream: 3, RawHTTP2.fields([("x", "y")]))
        return false
      }
      let silent = try await RawHTTP2.connect(to: site.port, trusting: try #require(site.authority))
      try await silent.socket.ended(within: .seconds(20))
      await silent.close()
    }
  }
}
