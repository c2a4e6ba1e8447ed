// A device on a WebSocket, by our own reading of the wire, so that no library of ours is its own judge.

import Crypto
import CryptoExtras
import Foundation
import SwiftProtobuf
import TestSupport
import WireMessages

/// A device that can be reached by WebSocket, and the key that what it is sent is sealed under.
struct LiveDevice: Sendable {
  var device: TestDevice
  let key: [UInt8]

  var number: String { device.number }

  /// - Parameter dialect: `login`, or `user` for JSON.
  func path(_ dialect: String = "login") -> String {
    "/v1/websocket/?\(dialect)=\(Self.escaped(device.user))&password=\(Self.escaped(device.password))"
  }

  private static func escaped(_ text: String) -> String {
    text.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? text
  }
}

extension RelayProcess {
  /// Registers a device with a signaling key of its own.
  func registerLive(_ number: String = TestDevice.freshNumber()) async throws -> LiveDevice {
    var random = SystemRandomNumberGenerator()
    let key = (0..<52).map { _ in UInt8.random(in: 0...255, using: &random) }
    // If a key comes twice the last one counts.
    let device = try await register(number, attributes: #","signalingKey":"\#(Data(key).base64EncodedString())""#)
    return LiveDevice(device: device, key: key)
  }

  func open(_ live: LiveDevice) async throws -> LiveSocket {
    LiveSocket(try await RawSocket.open(live.path(), on: clientPort), key: live.key)
  }

  /// Sends one message with `time` as its timestamp and its body.
  func sendText(_ time: Int64, from sender: LiveDevice, to recipient: LiveDevice) async throws {
    let body = Data("\(time)".utf8).base64EncodedString()
    let answer = try await send(
      "PUT", "/v1/messages/\(recipient.number)", json: bundle(message(body), timestamp: time), as: sender.device)
    guard answer.status == 200 else { throw TestFailure("not sent: \(answer.status) \(answer.text)") }
  }
}

/// A delivery, opened.
struct LiveDelivery {
  let id: UInt64
  let envelope: EnvelopeFields
  var timestamp: Int64? { envelope.timestamp }
}

/// One connection that speaks protobuf.
actor LiveSocket {
  let raw: RawSocket
  private let key: [UInt8]
  private var deliveries: [LiveDelivery] = []
  private var answers: [Textsecure_WebSocketResponse] = []

  init(_ raw: RawSocket, key: [UInt8]) {
    self.raw = raw
    self.key = key
  }

  /// The next delivery.
  func delivery() async throws -> LiveDelivery {
    while deliveries.isEmpty { try take(try await raw.frame()) }
    return deliveries.removeFirst()
  }

  /// The times of the next deliveries, each acknowledged.
  func acknowledging(_ count: Int) async throws -> [Int64] {
    var times: [Int64] = []
    for _ in 0..<count {
      let delivery = try await delivery()
      times.append(delivery.timestamp ?? 0)
      try await answer(delivery.id)
    }
    return times
  }

  /// How many deliveries came already and were not taken.
  func waitingCount() throws -> Int {
    while let frame = raw.frameIfAny() { try take(frame) }
    return deliveries.count
  }

  func answer(_ id: UInt64, status: UInt32 = 200) async throws {
    var frame = Textsecure_WebSocketMessage()
    frame.type = 2
    frame.response.id = id
    frame.response.status = status
    frame.response.message = "OK"
    try await send(frame)
  }

  /// Asks without waiting; without `id` no answer is wanted.
  func ask(_ verb: String, _ path: String, body: String? = nil, headers: [String] = [], id: UInt64?) async throws {
    var frame = Textsecure_WebSocketMessage()
    frame.type = 1
    frame.request.verb = verb
    frame.request.path = path
    if let body { frame.request.body = Data(body.utf8) }
    frame.request.headers = headers
    if let id { frame.request.id = id }
    try await send(frame)
  }

  /// The next answer.
  func response() async throws -> Textsecure_WebSocketResponse {
    while answers.isEmpty { try take(try await raw.frame()) }
    return answers.removeFirst()
  }

  private func send(_ frame: Textsecure_WebSocketMessage) async throws {
    try await raw.sendBinary(try frame.serializedBytes())
  }

  private func take(_ frame: RawFrame) throws {
    guard frame.opcode == 2 else { throw TestFailure("a frame of type \(frame.opcode): \(frame.closeCode ?? 0)") }
    let message = try Textsecure_WebSocketMessage(serializedBytes: frame.payload)
    switch message.type {
    case 1:
      guard message.request.verb == "PUT", message.request.path == "/api/v1/message", message.request.hasID else {
        throw TestFailure("\(message.request.verb) \(message.request.path)")
      }
      deliveries.append(
        LiveDelivery(id: message.request.id, envelope: try Self.open(Array(message.request.body), key)))
    case 2: answers.append(message.response)
    default: throw TestFailure("type \(message.type)")
    }
  }

  /// Opens what is sealed under a signaling key (reference 2.4).
  static func open(_ sealed: [UInt8], _ key: [UInt8]) throws -> EnvelopeFields {
    guard sealed.count >= 43, sealed[0] == 1 else { throw TestFailure("no sealed envelope") }
    let code = HMAC<SHA256>.authenticationCode(for: sealed.dropLast(10), using: SymmetricKey(data: key[32...]))
    guard Array(code).prefix(10) == sealed.suffix(10) else { throw TestFailure("sealed under another key") }
    let plaintext = try AES._CBC.decrypt(
      sealed[17..<sealed.count - 10], using: SymmetricKey(data: key[..<32]), iv: try .init(ivBytes: sealed[1..<17]))
    return try EnvelopeFields(hex: plaintext.map { byte in (byte < 16 ? "0" : "") + String(byte, radix: 16) }.joined())
  }
}
