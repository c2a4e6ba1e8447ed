// Messages as rules send and find them.

import RelayClient
import RelayCore

/// One page of a mailbox.
struct Mailbox: Sendable {
  let messages: [JSON]
  let more: Bool

  func expectEmpty() throws(RuleFailure) { try expectCount(0) }

  func expectCount(_ count: Int) throws(RuleFailure) {
    try expect(messages.count == count, "\(count) messages in the mailbox", "\(messages.count)")
  }

  /// The values of one property, in the order of the messages.
  func values(_ key: String) -> [JSON] { messages.map { $0[key] ?? .null } }
}

extension Session {
  func mailbox(of device: Device) async throws -> Mailbox {
    let answer = try await get("/v1/messages/", as: device)
    let messages = try answer.list("messages")
    return Mailbox(messages: messages, more: JSON(bytes: answer.body)?["more"] == true)
  }

  /// Sends a bundle to `number`, whatever comes of it.
  func submit(_ messages: [JSON], to number: String, timestamp: Int64? = nil, as device: Device) async throws -> Answer
  {
    var bundle: [String: JSON] = ["messages": .array(messages)]
    if let timestamp { bundle["timestamp"] = .integer(timestamp) }
    return try await put("/v1/messages/\(number)", .object(bundle), as: device)
  }

  /// Sends one message to device 1 of `number`, and expects that it is accepted.
  func send(to number: String, timestamp: Int64, body: String = "Zm9v", as device: Device) async throws {
    try await submit([message(body)], to: number, timestamp: timestamp, as: device).expect(200)
  }

  func acknowledge(_ source: String, _ timestamp: Int64, as device: Device) async throws {
    try await delete("/v1/messages/\(source)/\(timestamp)", as: device).expectDone()
  }
}

/// The present, milliseconds since 1970.
func now() -> Int64 { RelayClient.now() }

/// Padded base64.
func padded(_ bytes: [UInt8]) -> String { Base64.encode(bytes, padded: true) }
