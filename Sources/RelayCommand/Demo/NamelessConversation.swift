import Foundation
import RelayClient
import RelayWork

/// The conversation a second time, by clients that never name a relay, as most clients of those years: their relays
/// find out by themselves where the other one is. There and back, with an attachment.
struct NamelessConversation {
  let conversation: DemoConversation
  let ann: RegisteredDevice
  let bob: RegisteredDevice
  /// Bob's connection.
  let live: LiveSession

  private var report: DemoReport { conversation.report }

  /// - Throws: `DemoFailure` at the first step that fails, after it was shown.
  func hold() async throws {
    let (anns, bobs) = (conversation.alphaNumber, conversation.betaNumber)
    report.heading("The same once more, by clients that never name a relay")
    let text = "Hello again. I do not know where you are."
    try await send(text, from: ann, anns, at: "alpha", to: bobs)
    try await conversation.read(text, as: bob, over: live)
    report.heading("beta's user answers, with an attachment")
    let blob = Array("what beta's user sends along, encrypted by the client".utf8)
    let slot = try await report.step("beta", "GET /v1/attachments/") {
      let slot = try await bob.client.newAttachment()
      try await bob.client.upload(blob, to: slot)
      return (slot, "\(blob.count) bytes are uploaded to beta")
    }
    let answer = "Nor do I. See \(slot.id)."
    try await send(answer, from: bob, bobs, at: "beta", to: anns)
    try await fetch(answer)
    try await report.step("alpha", "GET /v1/attachments/\(slot.id)") {
      try await patiently { try await ann.client.attachment(slot.id, bytesMax: 1 << 20) == blob }
      return ((), "by the mark in the id alpha knows that beta holds it: \(blob.count) bytes from there")
    }
  }

  private func send(
    _ text: String, from sender: RegisteredDevice, _ own: PhoneNumber, at relay: String, to number: PhoneNumber
  ) async throws {
    let key = try await report.step(relay, "GET /v1/keys/\(number.e164)/*") {
      let key = try await patiently { try await sender.client.drawPreKeys(of: number).first }
      return (key, "one-time prekey \(key.preKey.keyID), drawn from the peer that has the number")
    }
    let box = try SealedBox.seal(Array(text.utf8), to: key, of: number, from: Correspondent(own))
    try await report.step(relay, "PUT /v1/messages/\(number.e164)") {
      let message = OutgoingMessage(deviceID: key.deviceID, registrationID: key.registrationID, body: box)
      let time = RelayClient.now()
      try await patiently {
        try await sender.client.send([message], to: number, timestamp: time)
        return true
      }
      return ((), "accepted: stored where the number is")
    }
  }

  /// Ann reads the answer; receipts for what she sent are there too.
  private func fetch(_ text: String) async throws {
    try await report.step("alpha", "GET /v1/messages") {
      let message = try await patiently { try await ann.client.fetchMessages().messages.first { !$0.body.isEmpty } }
      let opened = try ann.keys.open(
        message.body, from: message.source, to: Correspondent(conversation.alphaNumber))
      guard opened == Array(text.utf8) else { throw DemoFailure("it says something else than was sent") }
      try await ann.client.acknowledge(message)
      return ((), "\"\(text)\", from \(message.source.number.e164) at \(message.relay ?? "this relay")")
    }
  }

  /// Asks until there is something, for half a minute at most: of several processes each hears of a new number, and of
  /// a peer's mark, within seconds.
  @discardableResult
  private func patiently<Value>(_ ask: () async throws -> Value?) async throws -> Value {
    let deadline = ContinuousClock.now + .seconds(30)
    while true {
      do {
        if let value = try await ask() { return value }
      } catch let error as RelayClientError where error.status == 404 && ContinuousClock.now < deadline {
        // Not yet.
      }
      guard ContinuousClock.now < deadline else { throw DemoFailure("there was nothing within 30 s") }
      guard await Pause.for(.milliseconds(250)) else { throw CancellationError() }
    }
  }

  private func patiently(_ ask: () async throws -> Bool) async throws {
    try await patiently { try await ask() ? true : nil }
  }
}
