import ChildProcesses
import Foundation
import Glibc
import TestSupport
import TestTags
import Testing

/// Every endpoint answers any input rightly, and the relay lives on in steady memory.
@Suite(.tags(.processes), .ownRelay, .serialized) struct HostileInputTests {
  let relay: RelayProcess
  let caller: TestDevice
  let endpoints: [Endpoint]

  init() async throws {
    relay = try suiteRelay().relay
    caller = try await relay.register()
    endpoints = try await Endpoint.all(of: relay, caller: caller)
  }

  private func head(_ endpoint: Endpoint, _ fields: String...) -> [UInt8] {
    let lines =
      ["\(endpoint.method) \(endpoint.path) HTTP/1.1", "Host: relay", "Authorization: \(caller.authorization)"]
      + ["Content-Type: application/json"] + fields
    return Array((lines.joined(separator: "\r\n") + "\r\n\r\n").utf8)
  }

  private func ask(_ endpoint: Endpoint, _ body: [UInt8]) async throws -> Int? {
    let head = head(endpoint, "Content-Length: \(body.count)")
    return try await RawExchange.send(head + body, to: relay.clientPort).status
  }

  /// The relay answers as if nothing had happened.
  private func expectWell() async throws {
    #expect(relay.child.exit == nil)
    #expect(try await relay.send("GET", "/v1/keys", as: caller).status == 200)
    #expect(await relay.readyz()?.status == 200)
  }

  private func expectNoInternalErrors() {
    #expect(!relay.log().contains("request failed"), "\(relay.log().suffix(1000))")
  }

  /// Each with a declared and a chunked body.
  @Test func `bodies of 64 MB are refused where they are read, and take no memory anywhere`() async throws {
    let size = 64 << 20
    // Once round before the first look: pools and arenas are as large as they get.
    for endpoint in endpoints {
      let declared = head(endpoint, "Content-Length: \(2 << 20)")
      _ = try await RawExchange.send(declared, bodyBytes: 2 << 20, to: relay.clientPort)
    }
    let before = try relay.residentBytes()
    for endpoint in endpoints {
      // Not read, hence no reason to refuse.
      let expected = endpoint.json == nil ? endpoint.expectedStatus : 413
      let declared = try await RawExchange.send(
        head(endpoint, "Content-Length: \(size)"), bodyBytes: size, to: relay.clientPort)
      #expect(declared.status == expected, "\(endpoint.testDescription), declared")
      let chunked = try await RawExchange.send(
        head(endpoint, "Transfer-Encoding: chunked"), bodyBytes: size, isChunked: true, to: relay.clientPort)
      #expect(chunked.status == expected, "\(endpoint.testDescription), chunked")
    }
    let grown = try relay.residentBytes() - before
    #expect(grown < 64 << 20, "resident memory grew by \(grown >> 20) MiB")
    try await expectWell()
    expectNoInternalErrors()
  }

  @Test func `an upload without a signature takes no memory, and leaves nothing behind`() async throws {
    let before = try relay.residentBytes()
    for query in [
      "", "?", "?expires=99999999999&signature=", "?expires=-1&signature=AAAA", "?signature=%FF&expires=%00",
    ] {
      for id in ["1", "4611686018427387904", "9223372036854775808", "-1", "0", "x"] {
        for (method, length) in [("PUT", 8 << 20), ("GET", 0)] {
          let head = Array(
            ("\(method) /v1/attachments/blobs/\(id)\(query) HTTP/1.1\r\nHost: relay\r\n"
              + "Content-Type: application/octet-stream\r\nContent-Length: \(length)\r\n\r\n").utf8)
          let status = try await RawExchange.send(head, bodyBytes: length, to: relay.clientPort).status
          #expect(status == 403 || status == 404, "\(method) \(id)\(query): \(status ?? 0)")
        }
      }
    }
    #expect(try relay.residentBytes() - before < 32 << 20)
    try await expectWell()
    expectNoInternalErrors()
  }

  @Test func `deep JSON is refused without being followed`() async throws {
    for depth in [100, 30_000] {
      let nested = String(repeating: "[", count: depth) + String(repeating: "]", count: depth)
      let objects = String(repeating: #"{"a":"#, count: depth / 5) + "1" + String(repeating: "}", count: depth / 5)
      for endpoint in endpoints where endpoint.json != nil {
        #expect(try await ask(endpoint, Array(nested.utf8)) == 415, "\(endpoint.testDescription)")
        for value in [nested, depth == 100 ? nested : objects] {
          #expect(try await ask(endpoint, Array(#"{"x":\#(value)}"#.utf8)) == 415, "\(endpoint.testDescription)")
        }
      }
    }
    try await expectWell()
    expectNoInternalErrors()
  }

  @Test func `bytes that are no text are refused`() async throws {
    let text = { (bytes: [UInt8]) in Array(#"{"signalingKey":""#.utf8) + bytes + Array("\"}".utf8) }
    let bodies: [[UInt8]] = [
      text([0xFF]), text([0xC0, 0x80]), text([0xED, 0xA0, 0x80]), text([0xF4, 0x90, 0x80, 0x80]), text([0xE2, 0x82]),
      text([0]), text(Array(#"\u0000"#.utf8)), text(Array(#"\ud800"#.utf8)), [0], [0xFF, 0xFE, 0x7B, 0x00],
      Array(repeating: 0, count: 60_000), (0..<50_000).map { UInt8(truncatingIfNeeded: $0 &* 131) },
    ]
    for endpoint in endpoints where endpoint.json != nil {
      for body in bodies {
        let status = try await ask(endpoint, body)
        #expect(status == 415, "\(endpoint.testDescription): \(body.prefix(24))")
      }
    }
    try await expectWell()
    expectNoInternalErrors()
  }

  @Test func `values of wrong types are refused`() async throws {
    let values = ["1e999", "-1e-999", "99999999999999999999999999", "1.5", "true", "{}", "[[]]", #""\ud83d""#, "NaN"]
    let keys = [
      "signalingKey", "lastResortKey", "keys", "messages", "contacts", "timestamp", "gcmRegistrationId",
      "apnRegistrationId", "pin", "identityKey", "preKeys", "signedPreKey", "keyId", "publicKey", "signature",
    ]
    for endpoint in endpoints where endpoint.json != nil {
      for value in values {
        let properties = keys.map { "\"\($0)\":\(value)" }.joined(separator: ",")
        let status = try await ask(endpoint, Array("{\(properties)}".utf8))
        #expect(status == 415, "\(endpoint.testDescription): \(value) gave \(status ?? 0)")
      }
    }
    expectNoInternalErrors()
  }

  @Test func `huge headers are refused`() async throws {
    let long = String(repeating: "x", count: 1 << 20)
    let many = (0..<5000).map { "X-\($0): y" }.joined(separator: "\r\n")
    for endpoint in endpoints {
      for fields in ["X-Long: \(long)", many, "Authorization: Basic \(long)", "Content-Type: \(long)"] {
        let outcome = try await RawExchange.send(
          head(endpoint, fields, "Content-Length: 0"), to: relay.clientPort)
        // Refused, or closed without a word.
        #expect(outcome.status.map { (400..<500).contains($0) } ?? true, "\(endpoint.testDescription)")
      }
    }
    let path = Array("GET /v1/keys/\(long) HTTP/1.1\r\nHost: relay\r\n\r\n".utf8)
    #expect(try await RawExchange.send(path, to: relay.clientPort).status.map { (400..<500).contains($0) } ?? true)
    try await expectWell()
    expectNoInternalErrors()
  }

  @Test func `bytes that are not HTTP are refused`() async throws {
    let garbage: [[UInt8]] = [
      Array("hello\r\n\r\n".utf8), [0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xFC, 0x03, 0x03],
      Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8), Array("GET / HTTP/9.9\r\n\r\n".utf8),
      Array("GET  HTTP/1.1\r\n\r\n".utf8), Array("\r\n\r\n\r\n".utf8), (0..<4096).map { UInt8(truncatingIfNeeded: $0) },
      Array("GET /v1/keys HTTP/1.1\r\nContent-Length: -1\r\n\r\n".utf8),
      Array("GET /v1/keys HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef".utf8),
      Array("PUT /v1/keys HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n".utf8),
      Array("PUT /v1/keys HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzzz\r\n".utf8),
      Array("GET /v1/\u{0}keys HTTP/1.1\r\nHost: relay\r\n\r\n".utf8),
      Array("GET /v1/keys HTTP/1.1\r\nA: b\u{0}c\r\n\r\n".utf8),
    ]
    for bytes in garbage {
      let outcome = try await RawExchange.send(bytes, to: relay.clientPort, patience: 3)
      #expect(outcome.status.map { (400..<500).contains($0) } ?? true, "\(bytes.prefix(40)): \(outcome)")
    }
    try await expectWell()
    expectNoInternalErrors()
  }

  @Test func `paths of hostile bytes are not found`() async throws {
    let segments = [
      "%FF", "%00", "%", "%2", "%zz", "%C0%AF", "..%2F..%2Fetc", "%2e%2e", "+%00", "%F0%9F%98%80", "a%0d%0ab",
    ]
    for segment in segments {
      for path in [
        "/v1/accounts/sms/code/\(segment)", "/v1/accounts/\(segment)/code/+15550001111", "/v1/keys/\(segment)",
        "/v1/keys/+15550001111/\(segment)", "/v1/directory/\(segment)", "/v1/messages/\(segment)/1", "/\(segment)",
        "/v2/keys/\(segment)/*", "/v1/accounts/code/\(segment)", "/v1/accounts/token/\(segment)",
        "/v1/accounts/voice/twiml/\(segment)", "/v1/receipt/\(segment)/1", "/v1/receipt/+15550001111/\(segment)",
        "/v1/attachments/\(segment)", "/v1/attachments/blobs/\(segment)", "/v1/devices/\(segment)",
      ] {
        for method in ["GET", "DELETE", "PUT", "POST"] {
          let bytes = Array(
            "\(method) \(path) HTTP/1.1\r\nHost: relay\r\nAuthorization: \(caller.authorization)\r\n\r\n".utf8)
          let status = try await RawExchange.send(bytes, to: relay.clientPort, patience: 3).status
          let isFine = status.map { (400..<500).contains($0) || ($0 == 200 && method == "DELETE") } ?? false
          #expect(isFine, "\(method) \(path): \(status ?? 0)")
        }
      }
    }
    try await expectWell()
    expectNoInternalErrors()
  }

  @Test func `requests that never end keep nobody else waiting`() async throws {
    let halves = endpoints.flatMap { endpoint in
      let whole = head(endpoint, "Content-Length: 1000")
      return [Array(whole.prefix(20)), Array(whole.dropLast(2)), whole, whole + Array("{\"".utf8)]
    }
    let open = try halves.map { half in
      let descriptor = try Loopback.connect(to: relay.clientPort, patience: 5)
      #expect(Glibc.send(descriptor, half, half.count, Int32(MSG_NOSIGNAL)) == half.count)
      return descriptor
    }
    try await expectWell()
    for descriptor in open { close(descriptor) }
    try await expectWell()
    expectNoInternalErrors()
  }
}
