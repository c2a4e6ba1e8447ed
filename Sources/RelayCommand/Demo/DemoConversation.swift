import Foundation
import RelayClient
import RelayWork

/// The conversation: a user registers at each of two peered relays, and one writes to the other across.
struct DemoConversation {
  let report: DemoReport
  let alpha: RelayClient
  let beta: RelayClient
  let alphaNumber: PhoneNumber
  let betaNumber: PhoneNumber

  /// The credentials with which the viewer of the demo can go on.
  struct Outcome: Sendable {
    let alphaCredentials: Credentials
    let betaToken: String
  }

  /// - Throws: `DemoFailure` at the first step that fails, after it was shown.
  func hold() async throws -> Outcome {
    report.heading("A user registers at each relay")
    let ann = try await register(alphaNumber, at: alpha, "alpha")
    let bob = try await register(betaNumber, at: beta, "beta")
    let live = try await report.step("beta", "GET /v1/websocket/") {
      (try await bob.connect(), "connected: messages come by themselves")
    }

    report.heading("alpha's user writes to beta's")
    let token = ContactTokens.token(for: betaNumber)
    let relay = try await find(token, with: ann.client)
    let path = "/v1/keys/\(betaNumber.e164)/*?relay=\(relay)"
    let drawn = try await report.step("alpha", "GET \(path)") {
      let keys = try await ann.client.drawPreKeys(of: betaNumber, at: relay)
      guard keys.count == 1, let key = keys.first else { throw DemoFailure("there are \(keys.count) keys, not one") }
      return (key, "one-time prekey \(key.preKey.keyID) of device \(key.deviceID), drawn from beta")
    }
    let text = "Hello beta, this is alpha. Nobody in between can read this."
    let box = try await report.step("alpha", "seal the message (in the client)") {
      let box = try SealedBox.seal(
        Array(text.utf8), to: drawn, of: betaNumber, from: Correspondent(alphaNumber))
      return (box, "\(text.utf8.count) bytes of text in a box of \(box.count)")
    }
    try await report.step("alpha", "PUT /v1/messages/\(betaNumber.e164)") {
      let message = OutgoingMessage(deviceID: drawn.deviceID, registrationID: drawn.registrationID, body: box)
      try await ann.client.send([message], to: betaNumber, at: relay)
      return ((), "accepted: stored at beta")
    }

    report.heading("beta's user reads it")
    try await read(text, as: bob, over: live)
    try await NamelessConversation(conversation: self, ann: ann, bob: bob, live: live).hold()
    await live.close()
    guard let credentials = ann.client.credentials else { throw DemoFailure("alpha's user has no credentials") }
    return Outcome(alphaCredentials: credentials, betaToken: token)
  }

  private func register(_ number: PhoneNumber, at relay: RelayClient, _ name: String) async throws -> RegisteredDevice {
    let code = try await report.step(name, "GET /v1/accounts/dev/code/\(number.e164)") {
      guard let code = try await relay.requestCode(for: number, by: .development) else {
        throw DemoFailure("the answer holds no code")
      }
      return (code, "code \(code)")
    }
    let client = relay.with(.random(for: number))
    let attributes = DeviceAttributes.random()
    try await report.step(name, "PUT /v1/accounts/code/\(code.filter { $0 != "-" })") {
      try await client.confirm(code: code, attributes: attributes)
      return ((), "\(number.e164) is registered")
    }
    let keys = DeviceKeys()
    try await report.step(name, "PUT /v1/keys") {
      try await client.upload(keys.bundle)
      return ((), "\(keys.bundle.oneTimeKeys.count) one-time prekeys and a last resort are stored")
    }
    return RegisteredDevice(client: client, keys: keys, attributes: attributes)
  }

  /// Asks the directory until what beta lists has come to alpha.
  /// - Returns: the name by which alpha knows the relay of the contact.
  private func find(_ token: String, with client: RelayClient) async throws -> String {
    try await report.step("alpha", "PUT /v1/directory/oblivious/evaluations, GET /v1/directory/oblivious/registered") {
      let deadline = ContinuousClock.now + .seconds(60)
      var (tries, contacts) = (1, ObliviousContacts())
      while true {
        if let contact = try await look(for: token, with: client, &contacts) {
          guard let relay = contact.relay else { throw DemoFailure("the directory says that the number is alpha's") }
          return (relay, "\(betaNumber.e164) lives at \(relay)" + (tries > 1 ? ", found at try \(tries)" : ""))
        }
        guard ContinuousClock.now < deadline else {
          throw DemoFailure("beta's user did not appear in alpha's directory within 60 s")
        }
        guard await Pause.for(.milliseconds(250)) else { throw CancellationError() }
        tries += 1
      }
    }
  }

  /// - Returns: nil also while the relay has not made all outputs yet.
  private func look(
    for token: String, with client: RelayClient, _ contacts: inout ObliviousContacts
  ) async throws(RelayClientError) -> Contact? {
    do throws(RelayClientError) {
      return try await client.lookUp([token], contacts: &contacts).first
    } catch {
      guard error.status == 503 else { throw error }
      return nil
    }
  }

  func read(_ text: String, as device: RegisteredDevice, over live: LiveSession) async throws {
    let (delivery, message) = try await report.step("beta", "PUT /api/v1/message (from the relay)") {
      guard let delivery = try await delivered(over: live) else { throw DemoFailure("the connection was closed") }
      let message = try delivery.message
      guard let relay = message.relay else { throw DemoFailure("the message names no relay") }
      let shown = "a message of \(message.body.count) bytes from \(message.source.number.e164) at \(relay)"
      return ((delivery, message), shown)
    }
    try await report.step("beta", "open the message (in the client)") {
      let opened = try device.keys.open(message.body, from: message.source, to: Correspondent(betaNumber))
      guard opened == Array(text.utf8) else { throw DemoFailure("it says something else than was sent") }
      return ((), "\"\(String(decoding: opened, as: UTF8.self))\"")
    }
    try await report.step("beta", "200 OK (to the relay)") {
      try await delivery.acknowledge()
      return ((), "acknowledged")
    }
    try await report.step("beta", "GET /v1/messages") {
      // An acknowledgement is not answered: it shows here.
      let isEmpty = try await Pause.poll(every: .milliseconds(20), until: .now + .seconds(10)) {
        try await device.client.fetchMessages().messages.isEmpty
      }
      try Task.checkCancellation()
      guard isEmpty else { throw DemoFailure("the mailbox still holds the message") }
      return ((), "the mailbox is empty")
    }
  }

  /// The first delivery.
  private func delivered(over live: LiveSession) async throws -> Delivery? {
    try await withDeadline(.seconds(30)) {
      for try await delivery in live.deliveries { return delivery }
      return nil
    }
  }
}
