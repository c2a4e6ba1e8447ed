import NIOCore
import RelayHTTP
import TestSupport
import TestTags
import Testing

/// How connections over HTTP/1.1 end, and how long whoever sends may take; on one listener of this process.
@Suite(.tags(.time)) struct EdgeHTTP1Tests {
  private static func text(_ lines: String...) -> [UInt8] { Array((lines + ["", ""]).joined(separator: "\r\n").utf8) }

  private static func put(_ path: String, length: Int) -> [UInt8] {
    text("PUT \(path) HTTP/1.1", "Host: relay", "Content-Length: \(length)")
  }

  /// Limits that a test can wait for.
  private static var brief: RequestTimes {
    var times = RequestTimes()
    times.head = .milliseconds(500)
    times.linger = .milliseconds(500)
    times.body.grace = .milliseconds(500)
    times.body.bytesPerSecond = 1000
    times.body.creditMax = .seconds(1)
    return times
  }

  /// Sends `bytes` again and again until the relay has ended the connection.
  private static func drip(_ bytes: [UInt8], on socket: RawSocket) async throws {
    try await eventually("the relay has ended the connection", within: .seconds(60), every: .milliseconds(50)) {
      if socket.hasEnded { return true }
      try? await socket.send(bytes)  // It may have ended meanwhile.
      return false
    }
  }

  @Test(arguments: [false, true])
  func `connections end when they are told to, and not before`(isSecure: Bool) async throws {
    try await TransportSite.with(isSecure: isSecure) { site in
      try await ConnectionRules(port: site.port, path: "/v1/hello", trusting: site.authority).expectAll()
    }
  }

  @Test(arguments: [false, true])
  func `answers to uploads, and streams, come whole before their connection ends`(isSecure: Bool) async throws {
    try await TransportSite.with(isSecure: isSecure) { site in
      let body = [UInt8](repeating: UInt8(ascii: "u"), count: 3 << 20)
      let upload = try await site.connect()
      try await upload.send(
        Self.text("PUT /v1/echo HTTP/1.1", "Host: relay", "Connection: Close", "Content-Length: \(body.count)") + body)
      let answer = try await upload.answer()
      #expect(answer.headers["connection"] == "close" && answer.body.utf8.count == body.count)
      try await upload.ended(within: .seconds(20))
      for version in ["1.1", "1.0"] {
        let download = try await site.connect()
        try await download.send(Self.text("GET /v1/stream HTTP/\(version)", "Host: relay", "Connection: Close"))
        let all = String(decoding: try await download.rest(within: .seconds(20)), as: UTF8.self)
        #expect(all.utf8.count { $0 == UInt8(ascii: "s") } >= 1 << 20 && all.lowercased().contains("connection: close"))
        // HTTP/1.0 knows no chunks.
        #expect(all.lowercased().contains("transfer-encoding: chunked") == (version == "1.1"))
        await download.close()
      }
      await upload.close()
    }
  }

  @Test func `a client that waits for 100 Continue gets it, and the last answer still is the last`() async throws {
    try await TransportSite.with { site in
      let socket = try await site.connect()
      try await socket.send(
        Self.text(
          "PUT /v1/echo HTTP/1.1", "Host: relay", "Connection: Close", "Expect: 100-continue", "Content-Length: 4"))
      #expect(try await socket.answer().status == 100)
      try await socket.send(Array("body".utf8))
      let answer = try await socket.answer()
      #expect(answer.status == 200 && answer.body == "body" && answer.headers["connection"] == "close")
      try await socket.ended(within: .seconds(20))
      await socket.close()
    }
  }

  @Test(arguments: [false, true])
  func `an answer that comes before the body has come is the last, and the body is not waited for`(isSecure: Bool)
    async throws
  {
    try await TransportSite.with(isSecure: isSecure, requests: Self.brief) { site in
      let socket = try await site.connect()
      try await socket.send(Self.put("/v1/refuse", length: 4000) + [0])
      let answer = try await socket.answer()
      #expect(answer.status == 415 && answer.headers["connection"] == "close")
      try await Self.drip([0], on: socket)
      await socket.close()
    }
  }

  @Test(arguments: [false, true]) func `a body that drips is answered with 408`(isSecure: Bool) async throws {
    try await TransportSite.with(isSecure: isSecure, requests: Self.brief) { site in
      let socket = try await site.connect()
      try await socket.send(Self.put("/v1/echo", length: 4000))
      try await Self.drip([0], on: socket)
      let answer = try await socket.answer()
      #expect(answer.status == 408 && answer.headers["connection"] == "close")
      #expect(answer.body.hasPrefix("request-timeout: "))
      await socket.close()
    }
  }

  @Test func `a body that stops is answered with 408, however much came before`() async throws {
    try await TransportSite.with(requests: Self.brief) { site in
      let socket = try await site.connect()
      try await socket.send(Self.put("/v1/echo", length: 2 << 20) + [UInt8](repeating: 0, count: 1 << 20))
      #expect(try await socket.answer(within: .seconds(20)).status == 408)
      try await socket.ended(within: .seconds(20))
      await socket.close()
    }
  }

  @Test func `a slow body that keeps the pace comes whole`() async throws {
    var times = Self.brief
    times.body.grace = .milliseconds(Int64(500 * MachineSpeed.factor))
    try await TransportSite.with(requests: times) { site in
      let socket = try await site.connect()
      try await socket.send(Self.put("/v1/echo", length: 10 * 1000))
      for _ in 0..<10 {
        try await socket.send([UInt8](repeating: UInt8(ascii: "b"), count: 1000))
        try await Task.sleep(for: .milliseconds(150))
      }
      #expect(try await socket.answer().body.utf8.count == 10_000)
      await socket.close()
    }
  }

  @Test(arguments: [false, true])
  func `a head that drips is answered with 408, the first and a later one`(isSecure: Bool) async throws {
    try await TransportSite.with(isSecure: isSecure, requests: Self.brief) { site in
      for isLater in [false, true] {
        let socket = try await site.connect()
        if isLater {
          try await socket.send(Self.text("GET /v1/hello HTTP/1.1", "Host: relay"))
          #expect(try await socket.answer().body == "hello")
          // Bytes between requests begin none, and have no limit of this kind.
          try await socket.send(Array("\r\n".utf8))
          try await Task.sleep(for: .milliseconds(1000))
          #expect(!socket.hasEnded)
        }
        try await socket.send(Array("GET /v1/hello HTTP/1.1\r\nX-Long: ".utf8))
        try await Self.drip([UInt8(ascii: "x")], on: socket)
        let answer = try await socket.answer()
        #expect(answer.status == 408 && answer.headers["connection"] == "close")
        await socket.close()
      }
    }
  }

  @Test(arguments: [false, true])
  func `a head that does not come to its path is ended too, and what is silent without a word`(isSecure: Bool)
    async throws
  {
    var times = SocketTimes()
    times.firstRequest = .milliseconds(500)
    try await TransportSite.with(isSecure: isSecure, times: times, requests: Self.brief) { site in
      let dripping = try await site.connect()
      try await dripping.send(Array("GET /".utf8))
      try await Self.drip([UInt8(ascii: "x")], on: dripping)
      #expect(try await dripping.answer().status == 408)
      let silent = try await site.connect()
      try await silent.ended(within: .seconds(20))
      #expect(silent.unreadBytes == 0)
      for socket in [dripping, silent] { await socket.close() }
    }
  }

  @Test(arguments: [false, true])
  func `a client that takes nothing of its answers is cut off`(isSecure: Bool) async throws {
    var times = Self.brief
    times.taking = .milliseconds(500)
    try await TransportSite.with(isSecure: isSecure, requests: times) { site in
      let socket = try await site.connect()
      // A hand-shake of TLS is over then.
      let hello = Self.text("GET /v1/hello HTTP/1.1", "Host: relay")
      try await socket.send(hello)
      #expect(try await socket.answer().status == 200)
      try await socket.setReading(false)
      // More than the buffers of two sockets.
      let request = Self.text("GET /v1/stream HTTP/1.1", "Host: relay")
      try await socket.send(Array([[UInt8]](repeating: request, count: 31).joined()))
      try await Self.drip(hello, on: socket)
      #expect(socket.unreadBytes < 31 << 20)
      await socket.close()
    }
  }

  @Test func `requests that are pipelined without end are lost behind a bound`() async throws {
    try await TransportSite.with { site in
      let socket = try await site.connect()
      let request = Self.text("GET /v1/held HTTP/1.1", "Host: relay")
      try await socket.send(Array([[UInt8]](repeating: request, count: 200).joined()))
      site.authorizer.release()
      for number in 1...32 {
        let answer = try await socket.answer()
        #expect(answer.status == 200)
        #expect(answer.headers["connection"] == (number == 32 ? "close" : nil), "\(number)")
      }
      try await socket.ended(within: .seconds(20))
      await socket.close()
    }
  }
}
