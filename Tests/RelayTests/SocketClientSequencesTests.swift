import Foundation
import RelayClient
import RelayCore
import SwiftProtobuf
import TestSupport
import Testing
import WireMessages

/// The live halves of what the examined clients say, frame by frame (reference 4.1).
extension ClientSequencesTests {
  /// Go: both values escaped; at once a keep-alive without an id, again every 15 s; 200 "OK" to each delivery.
  @Test func `Go: a message comes over the WebSocket, its receipt and its reply come back`() async throws {
    let one = try GoClient("+17711110021", registrationID: 101, password: "pZNrOTTP3xwdVKQC7/iUkw")
    let two = try GoClient("+17711110022", registrationID: 202, password: "MkMre+Fh4f6FmHkxWl0nHg")
    try await register(one)
    try await register(two)
    let key = try SignalingKey("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMw==")
    #expect(try await ask("GET", "/v2/keys/\(two.number)/1", nil, [one.basic]).status == 200)

    let receiver = try await Wire(relay, "login=\(escaped(two.number))&password=\(escaped(two.password))", key)
    try await receiver.keepAlive()
    let sent = try await send(
      from: one, to: two, type: 3, registrationID: 202, body: "Zm9vYmFyego=", at: 1_447_500_000_000)
    #expect(sent.status == 200 && sent.text == #"{"needsSync":false}"#)
    let first = try await receiver.delivery()
    #expect(first.type == 3 && first.source == one.number && first.sourceDevice == 1)
    #expect(first.timestamp == 1_447_500_000_000 && first.message == Array("foobarz\n".utf8) && first.content == nil)
    try await receiver.keepAlive()

    // The sender hears of it when it connects, and of the reply; it answers both.
    let sender = try await Wire(relay, "login=\(escaped(one.number))&password=\(escaped(one.password))", key)
    try await sender.keepAlive()
    let receipt = try await sender.delivery()
    #expect(receipt.type == 5 && receipt.source == two.number && receipt.timestamp == 1_447_500_000_000)
    #expect(receipt.message == nil && receipt.content == nil)
    let reply = try await send(from: two, to: one, type: 1, registrationID: 101, body: "YmFy", at: 1_447_500_000_001)
    #expect(reply.status == 200)
    let second = try await sender.delivery()
    #expect(second.type == 1 && second.source == two.number && second.message == Array("bar".utf8))
    #expect(try await receiver.delivery().timestamp == 1_447_500_000_001, "the receipt of the reply")
    for client in [one, two] {
      try await eventually("everything is acknowledged") {
        try await ask("GET", "/v1/messages/", nil, [client.basic]).list("messages").isEmpty
      }
    }
    for wire in [sender, receiver] { await wire.close() }
  }

  private func send(
    from one: GoClient, to two: GoClient, type: Int, registrationID: Int, body: String, at timestamp: Int64
  ) async throws -> Answer {
    let bundle = """
      {
        "messages": [
          {
            "type": \(type),
            "destinationDeviceId": 1,
            "destinationRegistrationId": \(registrationID),
            "body": "\(body)",
            "content": "",
            "relay": ""
          }
        ],
        "timestamp": \(timestamp),
        "relay": "",
        "destination": "\(two.number)"
      }
      """
    return try await ask("PUT", "/v1/messages/\(two.number)", bundle, [one.basic])
  }

  /// JavaScript: `number.1` and the password as `encodeURIComponent` writes them; 200 "OK" to whatever the server asks.
  @Test func `JavaScript: the message's own time comes back in the delivery and in the receipt`() async throws {
    let one = BrowserClient(number: "+447100000021", password: "4uE8V2i05ATbQaRpUMivgA")
    let two = BrowserClient(number: "+447100000022", password: "MkMre/Fh4f6FmHkxWl0nHg")
    try await verify(one, code: try await relay.code(for: one.number), registrationID: 11)
    try await verify(two, code: try await relay.code(for: two.number), registrationID: 22)
    let key = try SignalingKey("AwoRGB8mLTQ7QklQV15lbHN6gYiPlp2kq7K5wMfO1dzj6vH4/wYNFBsiKTA3PkVMU1phaA==")
    let wires = try await [one, two].asyncMap { client in
      let number = client.number.replacing("+", with: "%2B")
      let password = client.password.replacing("+", with: "%2B").replacing("/", with: "%2F")
      return try await Wire(relay, "login=\(number).1&password=\(password)", key)
    }
    #expect(try await ask("GET", "/v2/keys/\(two.number)/*", nil, one.known).status == 200)
    let bundle =
      #"""
      {"messages":[{"type":3,"destinationDeviceId":1,"destinationRegistrationId":22,"body":"Zm9v",\#
      "timestamp":1447500000123}]}
      """#
    let sent = try await ask("PUT", "/v1/messages/\(two.number)", bundle, one.known)
    #expect(sent.status == 200 || sent.status == 204)
    let delivery = try await wires[1].delivery()
    #expect(delivery.type == 3 && delivery.timestamp == 1_447_500_000_123 && delivery.message == Array("foo".utf8))
    #expect(delivery.source == one.number && delivery.sourceDevice == 1)
    let receipt = try await wires[0].delivery()
    #expect(receipt.type == 5 && receipt.timestamp == 1_447_500_000_123 && receipt.source == two.number)
    // Its keep-alive has an id, and it wants the answer.
    try await wires[0].keepAlive(id: 1)
    for wire in wires { await wire.close() }
  }

  private func escaped(_ text: String) -> String {
    text.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? ""
  }
}

/// A client's socket, frame by frame: answers deliveries as the examined clients do.
private final class Wire: Sendable {
  private let socket: ClientSocket
  private let frames = Frames()
  private let key: SignalingKey

  init(_ relay: RelayProcess, _ query: String, _ key: SignalingKey) async throws {
    let opener = try ClientSocketOpener(
      url: relay.url, trustRootsPEM: nil, connectTimeout: .seconds(20), handshakeTimeout: .seconds(60))
    let path = "/v1/websocket/?" + query
    guard case .opened(let socket) = try await opener.open(.init(path: path), receiver: frames) else {
      throw TestFailure("no WebSocket")
    }
    self.socket = socket
    self.key = key
  }

  /// Without an id nothing comes back.
  func keepAlive(id: UInt64? = nil) async throws {
    var message = Textsecure_WebSocketMessage()
    message.type = 1
    (message.request.verb, message.request.path) = ("GET", "/v1/keepalive")
    if let id { message.request.id = id }
    try await socket.send(.binary(try message.serializedBytes()))
    guard let id else { return }
    let answer = try await next().response
    #expect(answer.id == id && answer.status == 200)
  }

  /// The next frame must be a delivery; it is acknowledged.
  func delivery() async throws -> EnvelopeFields {
    let message = try await next()
    #expect(message.type == 1 && message.request.verb == "PUT" && message.request.path == "/api/v1/message")
    #expect(message.request.hasID && message.request.id > 0 && message.request.id <= UInt64(Int64.max))
    var answer = Textsecure_WebSocketMessage()
    answer.type = 2
    (answer.response.id, answer.response.status, answer.response.message) = (message.request.id, 200, "OK")
    try await socket.send(.binary(try answer.serializedBytes()))
    let plaintext = try key.decrypt(Array(message.request.body))
    return try EnvelopeFields(hex: plaintext.map { String(format: "%02x", $0) }.joined())
  }

  func close() async { await socket.close() }

  private func next() async throws -> Textsecure_WebSocketMessage {
    let frame = try await withDeadline(.seconds(60)) { [frames] in try await frames.received.next() }
    guard case .binary(let bytes) = frame else { throw TestFailure("no binary frame") }
    return try Textsecure_WebSocketMessage(serializedBytes: bytes)
  }

  private final class Frames: ClientSocketReceiver {
    let received = Inbox<ClientSocket.Message>(bounds: .init(count: 100, bytes: 1 << 20))

    func received(_ message: ClientSocket.Message) -> ClientSocketReaction {
      received.offer(message, bytes: 0) ? .goOn : .fail(reason: "it sent far too much")
    }
    func ended(_ end: ConnectionEnd) { received.finish(end) }
  }
}

extension Array {
  /// One after the other.
  fileprivate func asyncMap<Result>(_ transform: (Element) async throws -> Result) async rethrows -> [Result] {
    var results: [Result] = []
    for element in self { results.append(try await transform(element)) }
    return results
  }
}
