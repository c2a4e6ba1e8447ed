import NIOCore
import TestTags
import Testing

@testable import RelayHTTP

/// The decision who gets a connection's first bytes, however they are cut into pieces.
@Suite(.tags(.unit)) struct FirstRequestTests {
  private static let door = "GET /v1/websocket?login=1 HTTP/1.1\r\nHost: relay\r\n\r\n"

  private static let cases: [(bytes: String, decision: String)] = [
    (door, "head \(door)"), ("\r\n\r\n\(door)rest", "head \(door)"),
    ("GET /v1/accounts HTTP/1.1\r\n\r\n", "elsewhere"), ("PRI * HTTP/2.0\r\n\r\n", "elsewhere"),
    ("\(many("\r\n", 8))\(door)", "head \(door)"),
    // A request that is longer than its bound is the router's, also when its end has come.
    ("\(many("\r\n", 9))\(door)", "elsewhere"),
    ("\(many("G", 33)) /v1/websocket HTTP/1.1\r\n\r\n", "elsewhere"),
    ("GET http://\(many("a", 1024))/v1/websocket HTTP/1.1\r\n\r\n", "elsewhere"),
    ("GET /v1/websocket HTTP/1.1\r\nx: \(many("a", 64 << 10))\r\n\r\n", "elsewhere"),
    ("", "more"), ("GET /v1/websock", "more"), ("GET /v1/websocket HTTP/1.1\r\nHost: relay\r\n", "more"),
  ]

  private static func many(_ text: String, _ count: Int) -> String { String(repeating: text, count: count) }

  @Test(arguments: cases)
  func `the bytes decide, not their pieces`(bytes: String, decision: String) {
    for size in [1, 7, 1000, 1 << 20] {
      #expect(Self.decision(on: Array(bytes.utf8), inPiecesOf: size).what == decision, "pieces of \(size)")
    }
  }

  @Test func `empty lines without end are not held`() {
    let flood = Array(repeating: UInt8(ascii: "\n"), count: 100_000)
    let decision = Self.decision(on: flood, inPiecesOf: 10)
    #expect(decision.what == "elsewhere")
    #expect(decision.bytes == 20)
  }

  /// The decision, and the number of bytes after which it was made.
  private static func decision(on all: [UInt8], inPiecesOf size: Int) -> (what: String, bytes: Int) {
    var first = FirstRequest()
    var start = 0
    while start < all.count {
      let end = min(all.count, start + size)
      let step = first.received(ByteBuffer(bytes: all[start..<end])) { $0 == "/v1/websocket" }
      start = end
      switch step {
      case .more: continue
      case .elsewhere: return ("elsewhere", end)
      case .head(let head, _): return ("head \(String(buffer: head))", end)
      }
    }
    return ("more", start)
  }
}
