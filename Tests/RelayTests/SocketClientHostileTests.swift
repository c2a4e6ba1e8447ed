import Foundation
import TestSupport
import TestTags
import Testing

@testable import RelayClient

/// The client library's live connections end with a reason, and nothing worse, if a server is broken, hostile or
/// vanished.
@Suite(.tags(.unit)) struct SocketClientHostileTests {
  private typealias Server = ScriptedSocketServer

  private let key: SignalingKey
  private let credentials: Credentials

  init() throws {
    key = try SignalingKey(DeviceAttributes.random().signalingKey)
    credentials = .random(for: try #require(PhoneNumber("+447700900001")))
  }

  private func client(_ server: Server, timeout: Duration = .seconds(20)) throws -> RelayClient {
    var options = RelayClient.Options()
    options.requestTimeout = timeout
    return try RelayClient(url: server.url, credentials: credentials, options: options)
  }

  private func connect(_ server: Server, keepAlive: Duration = .seconds(600)) async throws -> LiveSession {
    var options = RelayClient.LiveOptions()
    options.keepAlive = keepAlive
    options.messageBytesMax = 10_000
    return try await client(server).connect(signalingKey: key, options: options)
  }

  /// How a connection ends to which `answer` happens.
  private func end(_ answer: Server.Answer, keepAlive: Duration = .seconds(15)) async throws -> ConnectionEnd {
    let server = try Server(answer)
    defer { server.close() }
    let live = try await connect(server, keepAlive: keepAlive)
    return try await withDeadline(.seconds(60)) { await live.ended() }
  }

  private func isBroken(_ end: ConnectionEnd) -> Bool { if case .broken = end { true } else { false } }
  private func isLost(_ end: ConnectionEnd) -> Bool { if case .lost = end { true } else { false } }

  private func bytes(of message: ClientSocket.Message) -> [UInt8] {
    if case .binary(let bytes) = message { bytes } else { [] }
  }

  @Test func `frames that break the protocol end the connection`() async throws {
    let large = [UInt8](repeating: 1, count: 6000)
    let cases: [(String, [UInt8])] = [
      ("masked", [0x82, 0x81, 1, 2, 3, 4, 5]), ("compressed", [0xC2, 0x01, 1]), ("an unknown kind", [0x83, 0x00]),
      ("a fragment of nothing", [0x80, 0x00]), ("a cut control frame", [0x09, 0x00]),
      ("a long control frame", [0x89, 126, 0, 200]),
      ("an endless frame", [0x82, 127, 0x0F] + [UInt8](repeating: 0xFF, count: 7)),
      ("text that is none", Server.frame(1, [0xC3, 0x28])), ("a close frame of one byte", Server.frame(8, [3])),
      ("a message that cannot be read", Server.frame(2, [0xFF, 0xFF])),
      ("a message too large", Server.frame(2, large, isFinal: false) + Server.frame(0, large)),
    ]
    for (name, bytes) in cases {
      let end = try await end(.upgrade(bytes))
      #expect(isBroken(end), "\(name): \(end)")
    }
  }

  @Test func `random bytes end the connection, or are waited out, and nothing else`() async throws {
    for _ in 0..<60 {
      let bytes = (0..<Int.random(in: 1...300)).map { _ in UInt8.random(in: .min ... .max) }
      _ = try await end(.upgradeAndDrop(bytes))
    }
  }

  @Test func `a connection that is dropped is lost, a closed one says with what`() async throws {
    #expect(isLost(try await end(.upgradeAndDrop([]))))
    let closing = Server.frame(8, [0x0F, 0xA1] + Array("Unauthorized".utf8))
    #expect(try await end(.upgrade(closing)) == .closedByRelay(code: 4001, reason: "Unauthorized"))
    #expect(try await end(.upgrade(Server.frame(8, []))) == .closedByRelay(code: 1005, reason: ""))
  }

  @Test func `a server that gives no sign of life is lost`() async throws {
    let end = try await end(.upgrade([]), keepAlive: .milliseconds(100))
    #expect(isLost(end), "\(end)")
  }

  @Test func `frames right behind the upgrade are delivered, and pings are answered`() async throws {
    let delivery = bytes(of: LiveDialect.request(id: 5, verb: "PUT", path: "/api/v1/message", body: [1, 2]))
    let unknown = bytes(of: LiveDialect.request(id: 6, verb: "GET", path: "/v9/unknown"))
    let server = try Server(.upgrade(Server.frame(2, delivery) + Server.frame(2, unknown) + Server.frame(9, [7])))
    defer { server.close() }
    let live = try await connect(server)
    let first = try await withDeadline(.seconds(60)) {
      for try await delivery in live.deliveries { return delivery as Delivery? }
      return nil
    }
    #expect(first?.id == 5)
    #expect(throws: DeliveryError.notAuthentic) { _ = try first?.message }
    try await first?.acknowledge()
    let expected = [
      bytes(of: LiveDialect.answer(id: 6, status: 404)), [7], bytes(of: LiveDialect.answer(id: 5, status: 200)),
    ]
    try await eventually("the answers arrive") {
      let payloads = Self.payloads(server.bytes())
      return expected.allSatisfy(payloads.contains)
    }
  }

  /// The payloads of a client's frames, each masked and of less than 126 bytes.
  private static func payloads(_ bytes: [UInt8]) -> [[UInt8]] {
    var payloads: [[UInt8]] = []
    var rest = bytes[...]
    while rest.count >= 6, let second = rest.dropFirst().first, second & 0x80 != 0 {
      let count = Int(second & 0x7F)
      let mask = Array(rest.dropFirst(2).prefix(4))
      payloads.append(rest.dropFirst(6).prefix(count).enumerated().map { $1 ^ mask[$0 % 4] })
      rest = rest.dropFirst(6 + count)
    }
    return payloads
  }

  @Test func `answers in place of an upgrade are told as what they are`() async throws {
    let answers: [(String, Int)] = [
      ("HTTP/1.1 403 Forbidden\r\nContent-Length: 7\r\n\r\nrefused", 403),
      ("HTTP/1.1 503 Busy\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n", 503),
      ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200),
      ("HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\n", 101),
      ("HTTP/1.1 101 Switching\r\n\r\n", 101),
    ]
    for (text, status) in answers {
      let server = try Server(.raw(text))
      defer { server.close() }
      let error = await refusal(server)
      #expect(error?.status == status, "\(text): \(String(describing: error))")
      if status == 503 { #expect(error?.retryAfter == .seconds(7)) }
    }
    for text in ["", "garbage\r\n\r\n", "HTTP/1.1 403 Forbidden\r\nContent-Le"] {
      let server = try Server(.raw(text))
      defer { server.close() }
      let error = await refusal(server)
      guard case .unreachable = error else {
        Issue.record("\(text): \(String(describing: error))")
        continue
      }
    }
  }

  private func refusal(_ server: Server) async -> RelayClientError? {
    await #expect(throws: RelayClientError.self) { _ = try await connect(server) }
  }

  @Test func `a server that does not answer is given up in time`() async throws {
    let server = try Server(.silence)
    defer { server.close() }
    let client = try client(server, timeout: MachineSpeed.allow(.milliseconds(500)))
    let error = await #expect(throws: RelayClientError.self) { _ = try await client.connect(signalingKey: key) }
    #expect(error == .timedOut)
    let unanswering = try Server(.upgrade([]))
    defer { unanswering.close() }
    // A deadline may come late, and the keep-alive must not come before it.
    var options = RelayClient.LiveOptions()
    options.keepAlive = .seconds(600)
    let live = try await self.client(unanswering, timeout: MachineSpeed.allow(.seconds(1)))
      .connect(signalingKey: key, options: options)
    let late = await #expect(throws: RelayClientError.self) { _ = try await live.request("GET", "/v1/keys") }
    #expect(late == .timedOut)
    let mute = await #expect(throws: RelayClientError.self) {
      _ = try await self.client(unanswering, timeout: MachineSpeed.allow(.seconds(1))).awaitProvisioning(
        keepAlive: .seconds(600))
    }
    #expect(mute == .timedOut)
  }

  @Test func `a connection that nobody holds any more is closed, one whose deliveries are held is not`() async throws {
    let server = try Server(.upgrade([]))
    defer { server.close() }
    var deliveries: Deliveries? = try await connect(server, keepAlive: .seconds(600)).deliveries
    #expect(deliveries != nil)
    try await Task.sleep(for: .milliseconds(100))
    #expect(server.bytes().isEmpty)
    deliveries = nil
    // A close frame, masked, with its code.
    try await eventually("the connection is closed") { server.bytes().starts(with: [0x88, 0x82]) }
  }

  @Test func `credentials are escaped in the query, and stand in no error`() async throws {
    let server = try Server { head in
      head.hasPrefix("GET /v1/websocket/?login=%2B447700900001%2E2&password=a%2Bb%2F%26%3D%20 HTTP/1.1\r\n")
        ? .upgrade(Server.frame(8, [0x03, 0xE8])) : .raw("HTTP/1.1 400 \(head)")
    }
    defer { server.close() }
    let device = Correspondent(credentials.device.number, deviceID: 2)
    let client = try RelayClient(url: server.url, credentials: Credentials(device, password: "a+b/&= "))
    let live = try await client.connect(signalingKey: key)
    #expect(await live.ended() == .closedByRelay(code: 1000, reason: ""))
  }
}
