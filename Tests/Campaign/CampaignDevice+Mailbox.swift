import CampaignModel
import RelayClient

// The messages that wait for a device, and the relay's notices to their senders.

extension CampaignDevice {
  /// Writes down what waits for it when all is over. - Throws: as long as the relay does not answer.
  func readMailbox(by entrance: RelayClient) async throws {
    let client = entrance.with(credentials)
    var page = try await client.fetchMessages()
    while true {
      for message in page.messages {
        guard let name = Self.name(of: message) else { continue }
        if message.type >= Self.receipt {
          tell(message, name)
        } else {
          // Only what is removed makes room for the next page.
          if page.more { world.history.saw(.acknowledging(name, by: index)) }
          world.history.saw(.waiting(name, for: index))
        }
      }
      guard page.more else { return }
      for message in page.messages { try await client.acknowledge(message) }
      page = try await client.fetchMessages()
    }
  }

  /// Writes down what a relay says of a message of this device's.
  func tell(_ notice: IncomingMessage, _ name: MessageNumber) {
    guard notice.type == Self.receipt else {
      world.forget(name)
      return world.history.saw(.undeliverable(name, to: index))
    }
    if let source = world.index(of: notice.source, in: name) {
      world.history.saw(.receipt(name, of: source, to: index))
    }
  }
}
