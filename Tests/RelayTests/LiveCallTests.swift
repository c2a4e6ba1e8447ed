import Foundation
import TestSupport
import TestTags
import Testing
import WireMessages

/// The right to open a WebSocket, and the requests over it (reference 1.12).
@Suite(.tags(.processes), .ownRelay) struct LiveCallTests {
  let relay: RelayProcess
  let device: LiveDevice

  init() async throws {
    relay = try suiteRelay().relay
    device = try await relay.registerLive()
  }

  private func status(_ path: String, headers: [(String, String)] = []) async throws -> Int {
    let socket = try await RawSocket.connect(to: relay.clientPort)
    try await socket.send(RawSocket.request(path, headers: headers))
    let answer = try await socket.answer()
    await socket.close()
    return answer.status
  }

  @Test func `credentials are taken in every form that clients send`() async throws {
    let password = device.device.password
    let digits = device.number.dropFirst()
    for query in [
      "login=%2B\(digits)&password=\(password)", "login=+\(digits)&password=\(password)",
      "login=%2B\(digits).1&password=\(password)", "user=%2B\(digits)&password=\(password)",
    ] {
      for path in ["/v1/websocket/", "/v1/websocket"] {
        #expect(try await status("\(path)?\(query)") == 101, "\(path) \(query.prefix(6))")
      }
    }
    #expect(try await status("/v1/websocket/", headers: [("Authorization", device.device.authorization)]) == 101)
  }

  @Test func `wrong credentials are refused as the generations did`() async throws {
    let number = device.number.replacing("+", with: "%2B")
    #expect(try await status("/v1/websocket/?login=\(number)&password=wrong") == 403)
    #expect(try await status("/v1/websocket/?login=\(number).2&password=\(device.device.password)") == 403)
    #expect(try await status("/v1/websocket/?login=nobody&password=x") == 403)
    #expect(try await status("/v1/websocket/?user=\(number)&password=wrong") == 401)
    #expect(try await status("/v1/websocket/", headers: [("Authorization", TestDevice.basic("+1555:x"))]) == 401)
    #expect(try await status("/v1/websocket/") == 403)
    #expect(
      try await status("/v1/websocket/?login=\(number)&login=\(number)&password=\(device.device.password)") == 403)
  }

  @Test func `no credentials come into the log`() async throws {
    _ = try await status("/v1/websocket/?login=needle1&password=needle2")
    let socket = try await relay.open(device)
    await socket.raw.close()
    #expect(!relay.log().contains("needle") && !relay.log().contains(device.device.password))
  }

  @Test func `requests are answered as over HTTP, and only those with an id`() async throws {
    let socket = try await relay.open(device)
    try await socket.ask("GET", "/v1/keepalive", id: nil)
    try await socket.ask("GET", "/v1/keepalive", id: 7)
    let alive = try await socket.response()
    #expect(alive.id == 7 && alive.status == 200 && alive.message == "OK")

    // The caller is known; a body without headers is JSON.
    let key = { (id: Int) in #"{"keyId":\#(id),"publicKey":"k","identityKey":"i"}"# }
    try await socket.ask("PUT", "/v1/keys", body: #"{"lastResortKey":\#(key(9)),"keys":[\#(key(1))]}"#, id: 8)
    #expect(try await socket.response().status == 200)
    try await socket.ask("GET", "/v1/keys/", id: 9)
    let count = try await socket.response()
    #expect(count.id == 9 && count.status == 200 && String(decoding: count.body, as: UTF8.self) == #"{"count":1}"#)
    #expect(count.headers.contains { $0.lowercased() == "content-type:application/json" })

    for (verb, path, status) in [
      ("GET", "/v1/nothing", 404), ("GET", "/v1/websocket/", 404), ("PATCH", "/v1/keys", 405), ("GET", "no path", 404),
      ("NO VERB", "/v1/keys", 404), ("", "/v1/keys", 404),
    ] {
      try await socket.ask(verb, path, id: 10)
      #expect(try await Int(socket.response().status) == status, "\(verb) \(path)")
    }
    await socket.raw.close()
  }

  @Test func `messages can be sent over a socket, to another and to itself`() async throws {
    let recipient = try await relay.registerLive()
    let (socket, other) = (try await relay.open(device), try await relay.open(recipient))
    for time: Int64 in 1...30 {
      try await socket.ask(
        "PUT", "/v1/messages/\(recipient.number)", body: bundle(message(), timestamp: time),
        headers: ["content-type:application/json"], id: UInt64(time))
      #expect(try await socket.response().status == 200)
    }
    #expect(try await other.acknowledging(30) == Array(1...30))
    for socket in [socket, other] { await socket.raw.close() }
  }

  @Test func `URLs in answers lead where the client has reached the relay`() async throws {
    let socket = try await relay.open(device)
    try await socket.ask("GET", "/v1/attachments/", id: 1)
    let body = String(decoding: try await socket.response().body, as: UTF8.self)
    // As `RawSocket` names it.
    #expect(body.contains(#""location":"http://relay/"#))
    await socket.raw.close()
  }

  @Test func `many requests at once are all answered`() async throws {
    let socket = try await relay.open(device)
    for id: UInt64 in 1...60 { try await socket.ask("GET", "/v1/messages/", id: id) }
    var answered: Set<UInt64> = []
    for _ in 1...60 { answered.insert(try await socket.response().id) }
    #expect(answered == Set(1...60))
    await socket.raw.close()
  }

  @Test func `a client that asks for much and does not read yet gets every answer in the end`() async throws {
    // Without a signaling key: nothing but answers is sent.
    let asker = LiveDevice(device: try await relay.register(), key: [])
    let large = Data(repeating: 0x41, count: 60_000).base64EncodedString()
    for time: Int64 in 1...16 {
      let json = bundle(message(large), timestamp: time)
      let sent = try await relay.send("PUT", "/v1/messages/\(asker.number)", json: json, as: device.device)
      #expect(sent.status == 200)
    }
    let socket = try await relay.open(asker)
    try await socket.raw.setReading(false)
    for id: UInt64 in 1...30 { try await socket.ask("GET", "/v1/messages/", id: id) }
    // Long enough for all of them, if they were answered without regard.
    try await Task.sleep(for: .seconds(3))
    try await socket.raw.setReading(true)
    var answered: Set<UInt64> = []
    for _ in 1...30 {
      let answer = try await socket.response()
      #expect(answer.status == 200 && answer.body.count > 500_000)
      answered.insert(answer.id)
    }
    #expect(answered == Set(1...30))
    await socket.raw.close()
  }

  @Test(arguments: [[UInt8](), [0], [8, 1], [8, 3, 0x12, 0], [0xFF, 0xFF, 0xFF]])
  func `a malformed frame closes the connection`(bytes: [UInt8]) async throws {
    let socket = try await relay.open(device)
    try await socket.raw.sendBinary(bytes)
    #expect(try await socket.raw.closeCode() == 1002)
  }

  @Test func `texts, and answers to nothing, are ignored`() async throws {
    let socket = try await relay.open(device)
    try await socket.raw.sendText("{}")
    for id: UInt64 in [0, 1, .max] { try await socket.answer(id) }
    try await socket.ask("GET", "/v1/keepalive", id: 1)
    #expect(try await socket.response().status == 200)
    await socket.raw.close()
  }

  @Test func `credentials in a request over a socket do not make it anyone else's`() async throws {
    let other = try await relay.registerLive()
    let socket = try await relay.open(device)
    try await relay.upload([1, 2, 3], as: other.device)
    try await socket.ask("GET", "/v1/keys", headers: ["Authorization:\(other.device.authorization)"], id: 1)
    #expect(String(decoding: try await socket.response().body, as: UTF8.self) == #"{"count":0}"#)
    await socket.raw.close()
  }
}
