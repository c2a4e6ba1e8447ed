import Foundation
import HTTPTypes
import NIOCore
import RelayCore
import RelayHTTP
import TestSupport
import TestTags
import Testing

/// How connections become WebSockets, and how all others stay what they were.
@Suite(.tags(.unit)) struct WebSocketTransportUpgradeTests {
  @Test(arguments: [false, true])
  func `a WebSocket echoes text, large messages and pings, and closes`(isSecure: Bool) async throws {
    try await TransportSite.with(isSecure: isSecure) { site in
      let socket = try await site.open()
      try await socket.sendText("hello")
      #expect(try await socket.frame().text == "hello")
      let large = (0..<100_000).map { UInt8(truncatingIfNeeded: $0 &* 31) }
      try await socket.sendBinary(large)
      let echoed = try await socket.frame()
      #expect(echoed.opcode == 2 && echoed.payload == large)
      try await socket.send(RawSocket.frame(9, Array("are you there".utf8)))
      #expect(try await socket.frame() == RawFrame(opcode: 10, isFinal: true, payload: Array("are you there".utf8)))
      try await socket.sendClose(1000)
      #expect(try await socket.closeCode() == 1000)
      try await socket.ended()
      #expect(try await site.ends(of: 1) == [.client])
      await socket.close()
    }
  }

  @Test func `the answer that opens a WebSocket is RFC 6455's, and names no extension`() async throws {
    try await TransportSite.with { site in
      let answer = try await site.ask(
        RawSocket.request(
          "/socket/?a=b",
          headers: [
            ("Sec-WebSocket-Extensions", "permessage-deflate; client_max_window_bits"), ("Origin", "http://a.example"),
            ("X-Forwarded-For", "192.0.2.1"),
          ]))
      #expect(answer.status == 101)
      #expect(answer.headers["sec-websocket-accept"] == RawSocket.accept)
      #expect(answer.headers["upgrade"] == "websocket")
      #expect(answer.headers["sec-websocket-extensions"] == nil)
      let asked = try #require(site.authorizer.asked.first)
      #expect(asked.path == "/socket/" && asked.query == "a=b")
      #expect(asked.headers[.origin] == "http://a.example")
      // No proxy is trusted here.
      #expect(asked.origin == RequestOrigin(address: ClientAddress(text: "127.0.0.1"), isSecure: false))
    }
  }

  @Test(arguments: [false, true])
  func `frames right behind the request are not lost, also while the authorizer is asked`(isSecure: Bool) async throws {
    try await TransportSite.with(isSecure: isSecure) { site in
      for path in ["/socket", "/socket/?hold"] {
        let socket = try await site.connect()
        try await socket.send(RawSocket.request(path) + RawSocket.frame(1, Array("first".utf8)))
        if path.hasSuffix("hold") {
          try await eventually("the authorizer is asked") { site.authorizer.asked.contains { $0.query == "hold" } }
          try await socket.sendText("second")
          site.authorizer.release()
        }
        #expect(try await socket.answer().status == 101)
        #expect(try await socket.frame().text == "first")
        if path.hasSuffix("hold") { #expect(try await socket.frame().text == "second") }
        await socket.close()
      }
    }
  }

  @Test func `a request that comes byte by byte, or behind empty lines, opens one too`() async throws {
    // Many small steps: each waits its turn among other tests.
    var times = SocketTimes()
    times.firstRequest = .minutes(10)
    times.message = .minutes(10)
    try await TransportSite.with(times: times) { site in
      let socket = try await site.connect()
      for byte in Array("\r\n\r\n".utf8) + RawSocket.request("http://relay/socket/?x") {
        try await socket.send([byte])
      }
      #expect(try await socket.answer().status == 101)
      for byte in RawSocket.frame(1, Array("drip".utf8)) { try await socket.send([byte]) }
      #expect(try await socket.frame().text == "drip")
      #expect(site.authorizer.asked.first?.path == "/socket/")
      await socket.close()
    }
  }

  @Test func `a refusal has the problem's status, headers and body, and ends the connection`() async throws {
    try await TransportSite.with { site in
      for (query, status, header) in [("unauthorized", 401, "www-authenticate"), ("busy", 503, "retry-after")] {
        let socket = try await site.connect()
        try await socket.send(RawSocket.request("/socket/?\(query)") + RawSocket.frame(1, Array("too early".utf8)))
        let answer = try await socket.answer()
        #expect(answer.status == status)
        #expect(answer.headers[header] == (status == 401 ? "Basic realm=\"WhisperServer\"" : "7"))
        #expect(answer.headers["connection"] == "close")
        #expect(answer.headers["date"]?.hasSuffix(" GMT") == true)
        #expect(answer.headers["content-type"] == "text/plain; charset=utf-8")
        #expect(answer.body == (status == 401 ? text(.unauthorized) : text(.unavailable)))
        try await socket.ended()
        await socket.close()
      }
      #expect(site.authorizer.opened == 0)
    }
  }

  @Test func `a refusal by the dialect opens the WebSocket and closes it`() async throws {
    try await TransportSite.with { site in
      let socket = try await site.open("/socket/?closed")
      #expect(try await socket.closeCode() == 4001)
      try await socket.sendClose(4001)
      try await socket.ended()
      #expect(site.authorizer.opened == 0)
      await socket.close()
    }
  }

  @Test func `a malformed request for a WebSocket is answered with the reason`() async throws {
    try await TransportSite.with { site in
      for request in broken() {
        let answer = try await site.ask(Array(request.utf8))
        #expect(answer.status == 426, "\(request): \(answer)")
        #expect(answer.headers["upgrade"] == "websocket" && answer.headers["sec-websocket-version"] == "13")
        #expect(answer.body == text(.upgradeRequired))
      }
      for method in ["POST", "PUT", "DELETE", "HEAD"] {
        let whole = String(decoding: RawSocket.request("/socket/"), as: UTF8.self)
        let socket = try await site.connect()
        try await socket.send(Array(whole.replacing("GET ", with: "\(method) ").utf8))
        let answer = try await socket.answer(isBare: method == "HEAD")
        #expect(answer.status == 405 && answer.headers["allow"] == "GET", "\(method)")
        try await socket.ended()
        #expect(socket.unreadBytes == 0)
        await socket.close()
      }
      #expect(site.authorizer.asked.isEmpty)
    }
  }

  @Test func `a head that is no HTTP, or too large, is refused`() async throws {
    try await TransportSite.with { site in
      let line = "GET /socket/ HTTP/1.1\r\n"
      for head in ["\(line)a b c\r\n\r\n", "\(line): x\r\n\r\n", "GET /socket/ HTTP/9.9\r\n\r\n"] {
        #expect(try await site.ask(Array(head.utf8)).status == 400, "\(head)")
      }
      for head in [
        "\(line)X: \(String(repeating: "a", count: 100_000))\r\n\r\n",
        line + (0..<2000).map { "X\($0): y\r\n" }.joined() + "\r\n",
        "\(line)X: \(String(repeating: "a", count: 1_000_000))",
      ] {
        let socket = try await site.connect()
        do {
          try await socket.send(Array(head.utf8))
        } catch {
          // The relay may close before it has taken all.
        }
        try await eventually("it ends") { socket.hasEnded || socket.unreadBytes > 0 }
        await socket.close()
      }
      #expect(site.authorizer.asked.isEmpty)
      #expect(try await site.open().unreadBytes == 0)
    }
  }

  @Test func `a client that goes while the authorizer is asked gets no session`() async throws {
    try await TransportSite.with { site in
      for isHalf in [false, true] {
        let socket = try await site.connect()
        try await socket.send(RawSocket.request("/socket/?hold"))
        try await eventually("the authorizer is asked") { site.authorizer.asked.count == (isHalf ? 2 : 1) }
        if isHalf {
          try await socket.finishSending()
          try await socket.ended()
        }
        await socket.close()
      }
      // While the authorizer is asked, the listener only notices it.
      try await eventually("the listener has seen both go") { try Self.openConnections(at: site.port) == 0 }
      site.authorizer.release()
      // Both answers of the authorizer came to nothing.
      let socket = try await site.open()
      try await socket.sendText("alive")
      #expect(try await socket.frame().text == "alive")
      #expect(site.authorizer.opened == 1 && site.sockets.openCount == 1)
      await socket.close()
    }
  }

  /// Connections that a listener of this machine has not ended: established ones, and those whose client has gone.
  private static func openConnections(at port: Int) throws -> Int {
    let table = try String(contentsOfFile: "/proc/net/tcp", encoding: .utf8)
    return table.split(separator: "\n").dropFirst().count { line in
      let fields = line.split(separator: " ")
      return fields.count > 3 && fields[1].hasSuffix(String(format: ":%04X", port)) && ["01", "08"].contains(fields[3])
    }
  }

  @Test func `an authorizer that does not answer is not waited for`() async throws {
    var times = SocketTimes()
    times.admission = .milliseconds(500)
    try await TransportSite.with(times: times) { site in
      let answer = try await site.ask(RawSocket.request("/socket/?hold"))
      #expect(answer.status == 503 && answer.headers["retry-after"] == "1")
      site.authorizer.release()
      #expect(site.authorizer.opened == 0)
    }
  }

  @Test(arguments: ["", "GET /so", "GET /socket/ HTTP/1.1\r\nHost: relay\r\n", "GET /v1/hello HTT"])
  func `a connection without a whole request is closed`(beginning: String) async throws {
    var times = SocketTimes()
    times.firstRequest = .milliseconds(500)
    // From where the path says that it is not the authorizer's, HTTP/1.1 has it, whose own time is longer.
    let isOurs = !beginning.contains("hello")
    try await TransportSite.with(times: times) { site in
      let socket = try await site.connect()
      if !beginning.isEmpty { try await socket.send(Array(beginning.utf8)) }
      if isOurs { try await socket.ended() }
      await socket.close()
    }
  }

  private func text(_ kind: Problem.Kind) -> String { "\(kind.rawValue): \(kind.text)\n" }

  private func broken() -> [String] {
    let whole = String(decoding: RawSocket.request("/socket/"), as: UTF8.self)
    let key = "Sec-WebSocket-Key: \(RawSocket.key)\r\n"
    return [
      "GET /socket/ HTTP/1.1\r\nHost: relay\r\n\r\n",
      whole.replacing("HTTP/1.1", with: "HTTP/1.0"),
      whole.replacing("Connection: Upgrade\r\n", with: "Connection: keep-alive\r\n"),
      whole.replacing("Upgrade: websocket", with: "Upgrade: h2c"),
      whole.replacing("Version: 13", with: "Version: 8"),
      whole.replacing("Version: 13\r\n", with: "Version: 13\r\nSec-WebSocket-Version: 13\r\n"),
      whole.replacing("Sec-WebSocket-Version: 13\r\n", with: ""),
      whole.replacing(key, with: ""), whole.replacing(key, with: key + key),
      whole.replacing(RawSocket.key, with: "c2hvcnQ="),
      whole.replacing(RawSocket.key, with: "!!!!!!!!!!!!!!!!!!!!!!!!"),
      whole.replacing("\r\n\r\n", with: "\r\nContent-Length: 3\r\n\r\nabc"),
      whole.replacing("\r\n\r\n", with: "\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    ]
  }
}
