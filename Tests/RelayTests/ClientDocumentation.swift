// The code of the client library's documentation, as it stands there: `ClientDocumentationTests` compares the two.

import RelayClient

struct ClientDocumentation {
  // MARK: RelayClient.md

  func register(_ number: PhoneNumber, at url: String) async throws -> RegisteredDevice {
    let relay = try RelayClient(url: url)
    return try await relay.register(number, by: .development)
  }

  func send(_ text: String, from device: RegisteredDevice, to number: PhoneNumber) async throws {
    let token = ContactTokens.token(for: number)
    guard let sender = device.client.credentials?.device,
      let contact = try await device.client.lookUp(token: token)
    else { return }
    let keys = try await device.client.drawPreKeys(of: number, at: contact.relay)
    let messages = try keys.map { key in
      OutgoingMessage(
        deviceID: key.deviceID, registrationID: key.registrationID,
        body: try SealedBox.seal(text.utf8, to: key, of: number, from: sender))
    }
    try await device.client.send(messages, to: number, at: contact.relay)
  }

  func receive(as device: RegisteredDevice) async throws -> [String] {
    guard let recipient = device.client.credentials?.device else { return [] }
    var texts: [String] = []
    for message in try await device.client.fetchMessages().messages {
      if message.type == 3 {
        let text = try device.keys.open(message.body, from: message.source, to: recipient)
        texts.append(String(decoding: text, as: UTF8.self))
      }
      try await device.client.acknowledge(message)
    }
    return texts
  }

  // MARK: LiveDelivery.md

  func receive(
    as device: RegisteredDevice, store: (IncomingMessage) async throws -> Void
  ) async throws {
    var backoff = Backoff()
    while true {
      do {
        let live = try await device.connect()
        for try await delivery in live.deliveries {
          backoff.reset()
          do {
            try await store(delivery.message)
            try await delivery.acknowledge()
          } catch is DeliveryError {
            try await delivery.refuse()
          }
        }
        return
      } catch let end as ConnectionEnd where !end.isTemporary {
        throw end
      } catch let error as RelayClientError where error.status == 401 || error.status == 403 {
        throw error
      } catch let error where error is ConnectionEnd || error is RelayClientError {
        try await Task.sleep(for: backoff.next())
      }
    }
  }
}
