import HTTPTypes
import Hummingbird
import NIOCore
import RelayCore
import RelayHTTP
import Synchronization
import TestSupport
import TestTags
import Testing

/// Requests whose bodies come long after their heads: a device that has lost its credentials meanwhile does nothing.
@Suite(.tags(.processes), .ownRelay, .serialized) struct HeldBodyTests {
  let site: RelayOperator
  let relay: RelayProcess

  init() throws {
    let suite = try suiteRelay()
    (site, relay) = (suite.site, suite.relay)
  }

  /// Asks as `device`, whose body is held back until `meanwhile` is done.
  private func ask(
    _ method: String, _ path: String, json: String, as device: TestDevice, meanwhile: () async throws -> Void
  ) async throws -> Int? {
    let head = """
      \(method) \(path) HTTP/1.1\r\nHost: relay\r\nAuthorization: \(device.authorization)\r\n\
      Content-Type: application/json\r\nContent-Length: \(json.utf8.count)\r\n\r\n
      """
    return try await RawExchange.send(Array(head.utf8), then: Array(json.utf8), to: relay.clientPort) {
      // The relay has read the head long before it has answered these.
      for _ in 0..<10 { #expect(try await relay.send("GET", "/v1/keys", as: device).status == 200) }
      try await meanwhile()
    }.status
  }

  @Test func `a held body of a device in good standing is taken`() async throws {
    let device = try await relay.register()
    #expect(try await ask("PUT", "/v1/accounts/pin", json: #"{"pin":"1234"}"#, as: device) {} == 200)
  }

  @Test func `no body takes effect for a former installation`() async throws {
    let endpoints = try await Endpoint.all(of: relay, caller: try await relay.register())
    for endpoint in endpoints {
      guard let json = endpoint.json, endpoint.access == .device else { continue }
      let former = try await relay.register()
      let status = try await ask(endpoint.method, endpoint.path, json: json, as: former) {
        _ = try await relay.register(former.number)
      }
      #expect(status == 401, "\(endpoint.testDescription)")
    }
  }

  @Test func `neither keys nor a pin nor a message of a former installation stay`() async throws {
    let (former, recipient) = (try await relay.register(), try await relay.register())
    var present = former
    let keys =
      #"{"lastResortKey":{"keyId":1,"publicKey":"a","identityKey":"i"},"#
      + #""keys":[{"keyId":2,"publicKey":"b","identityKey":"i"}]}"#
    let status = try await ask("PUT", "/v1/keys", json: keys, as: former) {
      present = try await relay.register(former.number)
    }
    #expect(status == 401)
    #expect(try await relay.send("GET", "/v1/keys", as: present).text == #"{"count":0}"#)
    #expect(try await relay.send("GET", "/v1/keys/\(former.number)/1", as: recipient).status == 404)

    let pinned = try await ask("PUT", "/v1/accounts/pin", json: #"{"pin":"1234"}"#, as: present) {
      _ = try await relay.register(present.number)
    }
    #expect(pinned == 401)
    // Without a lock no pin is asked for.
    present = try await relay.register(present.number)

    let sent = try await ask("PUT", "/v1/messages/\(recipient.number)", json: bundle(message()), as: present) {
      _ = try await relay.register(present.number)
    }
    #expect(sent == 401)
    #expect(try await relay.mailbox(of: recipient).isEmpty)
  }

  @Test func `a removed device sends nothing`() async throws {
    let (master, recipient) = (try await relay.register(), try await relay.register())
    let linked = try await site.linkDevice(2, registrationID: 0, to: master)
    _ = try await relay.send("PUT", "/v1/accounts/wsc", as: master)  // The relay reads the account anew.
    let sent = try await ask("PUT", "/v1/messages/\(recipient.number)", json: bundle(message()), as: linked) {
      let removal = try await relay.send("DELETE", "/v1/devices/2", as: master)
      #expect(removal.status == 200)
    }
    #expect(sent == 401)
    #expect(try await relay.mailbox(of: recipient).isEmpty)
  }
}

/// A body that never ends is ended: no part keeps a request waiting for the next one for ever.
@Suite(.tags(.unit)) struct BodyDeadlineTests {
  private func request(_ body: RequestBody) -> Request {
    Request(
      head: .init(
        method: .put, scheme: "http", authority: "relay", path: "/v1/keys",
        headerFields: [.contentType: "application/json"]), body: body)
  }

  @Test func `a body that comes bit by bit has a deadline`() async throws {
    let endless = request(RequestBody(asyncSequence: AsyncStream { await Self.nothing() }))
    await #expect(throws: Problem(.malformedBody)) { try await endless.jsonBody(max: 10, within: .milliseconds(50)) }
  }

  /// A part with nothing in it.
  private static func nothing() async -> ByteBuffer? {
    await Task.yield()
    return ByteBuffer()
  }

  @Test func `a body in parts is read whole, up to its bound`() async throws {
    let parts = { ["{", #""a":"#, "1}"].map { ByteBuffer(string: $0) } }
    let whole = AsyncStream { continuation in
      for part in parts() { continuation.yield(part) }
      continuation.finish()
    }
    let body = try await request(RequestBody(asyncSequence: whole)).jsonBody(max: 7)
    #expect(body == ByteBuffer(string: #"{"a":1}"#))
    let long = AsyncStream { continuation in
      for part in parts() { continuation.yield(part) }
      continuation.finish()
    }
    await #expect(throws: Problem(.bodyTooLarge)) {
      try await request(RequestBody(asyncSequence: long)).jsonBody(max: 6)
    }
  }
}

/// Bodies that come in part share a room.
@Suite(.tags(.unit)) struct BodyRoomTests {
  private let room = BodyRoom(bytesMax: 4096)

  /// Sends `parts` one by one, as a caller does.
  private func read(
    _ parts: AsyncStream<ByteBuffer>, length: Int? = nil, max: Int = 4096
  ) async throws(Problem) -> ByteBuffer {
    var headers: HTTPFields = [.contentType: "application/json"]
    if let length { headers[.contentLength] = "\(length)" }
    let request = Request(
      head: .init(method: .put, scheme: "http", authority: "relay", path: "/v1/keys", headerFields: headers),
      body: RequestBody(asyncSequence: parts))
    var received = 0
    return try await request.body(as: "application/json", max: max, counting: &received, in: room)
  }

  private func part(_ count: Int) -> ByteBuffer { ByteBuffer(repeating: 1, count: count) }

  @Test func `a body that comes at once takes no room, and one in parts gives its room back`() async throws {
    let (parts, sender) = AsyncStream.makeStream(of: ByteBuffer.self)
    sender.yield(part(1000))
    sender.finish()
    #expect(try await read(parts, length: 1000).readableBytes == 1000)
    let (others, other) = AsyncStream.makeStream(of: ByteBuffer.self)
    async let body = read(others, length: 3000)
    other.yield(part(1000))
    try await eventually("a part is held") { room.bytes >= 1000 }
    other.yield(part(2000))
    other.finish()
    #expect(try await body.readableBytes == 3000)
    #expect(room.bytes == 0)
  }

  /// Twenty bodies of which only the first part comes, and twenty that come whole behind them.
  @Test func `bodies that never end give way to those that do`() async throws {
    try await withThrowingTaskGroup(of: Void.self) { group in
      let gate = Gate()
      defer { gate.open() }
      let begun = Mutex(0)
      for _ in 0..<20 {
        let calls = Mutex(0)
        let dripping = AsyncStream<ByteBuffer> {
          let call = calls.withLock { calls in
            calls += 1
            return calls
          }
          if call == 1 { return part(1000) }
          begun.withLock { $0 += 1 }
          await gate.wait()
          return call == 2 ? part(1) : nil
        }
        group.addTask {
          await #expect(throws: Problem(.unavailable, retryAfter: .seconds(2))) { try await read(dripping) }
        }
      }
      try await eventually("all have begun") { begun.withLock { $0 == 20 } }
      #expect(room.bytes > 3000 && room.bytes <= 4096)
      for _ in 0..<20 {
        let (parts, sender) = AsyncStream.makeStream(of: ByteBuffer.self)
        for _ in 0..<3 { sender.yield(part(1000)) }
        sender.finish()
        #expect(try await read(parts, length: 3000).readableBytes == 3000)
        #expect(room.bytes <= 4096)
      }
      gate.open()
      try await group.waitForAll()
    }
    #expect(room.bytes == 0)
  }

  @Test func `a body that fails gives its room back`() async throws {
    let (parts, sender) = AsyncStream.makeStream(of: ByteBuffer.self)
    for _ in 0..<3 { sender.yield(part(1000)) }
    await #expect(throws: Problem(.bodyTooLarge)) { try await read(parts, max: 2500) }
    #expect(room.bytes == 0)
  }
}
