import Foundation
import RelayCore

/// One message of a bundle, for one device of the destination (reference 1.8).
public struct OutgoingMessage: Sendable, Hashable {
  /// The id of the destination's device.
  public let deviceID: Int
  /// The device's registration id as it was drawn with its prekey. 0 means "do not compare" (reference 3.3).
  public let registrationID: Int
  /// Bytes that the relay passes on unread, so they are to be encrypted. This project's relays take 64 KiB.
  public let body: [UInt8]
  /// The kind of message: 1 within a session, 3 the first one, which names a prekey. A relay takes 0...4 and passes
  /// it on (reference 2.8).
  public let type: Int

  /// Makes a message. Nothing is checked: the relay does that.
  /// - Parameters:
  ///   - deviceID: the id of the destination's device.
  ///   - registrationID: the device's registration id, or 0.
  ///   - body: encrypted bytes.
  ///   - type: 0...4.
  public init(deviceID: Int = 1, registrationID: Int = 0, body: [UInt8], type: Int = 3) {
    self.deviceID = deviceID
    self.registrationID = registrationID
    self.body = body
    self.type = type
  }
}

/// A message in this device's mailbox (reference 1.9, 2.9).
///
/// It can come more than once: tell repetitions by `source` and `timestamp`.
public struct IncomingMessage: Sendable, Hashable {
  /// 0...4 as the sender chose it, and two kinds that relays make: 5 is a receipt for the message that this device's
  /// account sent at `timestamp` (reference 2.8); 64 says that such a message reached nobody (docs/protocol.md,
  /// "Undeliverable messages"). Acknowledge a type that you do not know.
  public let type: Int
  /// The device that sent it, by the word of the relays. Only the encryption inside can prove it.
  public let source: Correspondent
  /// The relay that it came from, for `relay` when answering; nil for this client's own.
  public let relay: String?
  /// The sender's time in milliseconds since 1970. With the source's number it names the message. It is data alone:
  /// messages are ordered by arrival.
  public let timestamp: Int64
  /// The bytes that the sender's ``OutgoingMessage/body`` had; empty when there are none, as in a receipt.
  public let body: [UInt8]
  /// Bytes that clients since mid 2015 send in place of `body` (reference 1.8); empty when there are none.
  public let content: [UInt8]
}

/// The oldest messages of a mailbox (reference 1.9).
public struct MessagePage: Sendable, Hashable {
  /// The messages, the one that arrived first in front: at most 100, and none for an empty mailbox.
  public let messages: [IncomingMessage]
  /// True when the mailbox has others. Acknowledge these and ask again.
  public let more: Bool
}

extension RelayClient {
  /// Sends a bundle to the devices of `destination` (reference 1.8). It is stored as a whole or not at all.
  ///
  /// On return it is stored: by the relay where the devices live, or by this client's own, where its operator lets
  /// messages wait for a relay that cannot be reached. After `.unreachable`, `.timedOut` or a 503, repeat it with the
  /// same messages and the same timestamp: this project's relays store it once.
  /// - Parameters:
  ///   - messages: one for each active device of the destination, at most 100. To the own number, one for each other
  ///     device (reference 3.4).
  ///   - destination: the number to send to.
  ///   - relay: the relay that the directory names for the number, ``Contact/relay``; nil for this client's own.
  ///   - timestamp: milliseconds since 1970; 0 has the relay take its own clock.
  /// - Returns: true when the sender has other devices that need a copy; false also when the relay does not say.
  /// - Throws: `.mismatchedDevices` and `.staleDevices`: nothing was stored, and the bundle can be mended.
  ///   `.refused`: 400 to the own number through a relay; 404 no such number or relay; 413 too many messages, or a
  ///   full mailbox; 415 a type that only relays make; 503 a relay is away.
  @discardableResult
  public func send(
    _ messages: [OutgoingMessage], to destination: PhoneNumber, at relay: String? = nil,
    timestamp: Int64 = RelayClient.now()
  ) async throws(RelayClientError) -> Bool {
    let wire = messages.map { message in
      WireBundle.Message(
        type: message.type, destinationDeviceId: message.deviceID, destinationRegistrationId: message.registrationID,
        body: Base64.encode(message.body, padded: true))
    }
    let body = WireBundle(messages: wire, relay: relay, timestamp: timestamp)
    let answer = try await send(RelayRequest(.put, "/v1/messages/\(destination.e164)", body: body))
    // Relays of the middle years answer without a body.
    return answer.body.isEmpty ? false : try answer.decoded(WireAcceptance.self).needsSync ?? false
  }

  /// Reads the oldest messages of this device's mailbox (reference 1.9). Nothing is removed, so the same call gives
  /// the same messages until they are acknowledged.
  /// - Returns: at most 100 messages. They are not encrypted under the signaling key.
  /// - Throws: `.refused`: 401 wrong credentials. `.unexpectedAnswer` when a source or a body of any of them cannot
  ///   be read.
  public func fetchMessages() async throws(RelayClientError) -> MessagePage {
    let answer = try await send(
      RelayRequest(.get, "/v1/messages", answerBytesMax: AnswerLimits.messagesBytesMax))
    let page = try answer.decoded(WirePage.self)
    var messages: [IncomingMessage] = []
    for message in page.messages {
      guard let number = PhoneNumber(message.source), let body = Base64.decode(message.message ?? ""),
        let content = Base64.decode(message.content ?? "")
      else { throw .unexpectedAnswer(status: answer.status, reason: "a message's source or body cannot be read") }
      messages.append(
        IncomingMessage(
          type: message.type, source: Correspondent(number, deviceID: message.sourceDevice ?? 1),
          relay: message.relay.flatMap { $0.isEmpty ? nil : $0 }, timestamp: message.timestamp, body: body,
          content: content))
    }
    return MessagePage(messages: messages, more: page.more ?? false)
  }

  /// Removes a message from this device's mailbox, and has its sender told with a receipt (reference 1.9).
  ///
  /// Store the message first: it does not come again. A message that is gone already is no error. The request names
  /// it by its source's number and its timestamp; if several match, the oldest is removed.
  /// - Parameter message: a message of ``fetchMessages()``. ``Delivery/acknowledge()`` is for those of a live
  ///   session.
  /// - Throws: `.refused`: 401 wrong credentials.
  public func acknowledge(_ message: IncomingMessage) async throws(RelayClientError) {
    _ = try await send(RelayRequest(.delete, "/v1/messages/\(message.source.number.e164)/\(message.timestamp)"))
  }

  /// Reads this machine's clock in the unit of the wire.
  /// - Returns: milliseconds since 1970 (reference 2.7).
  public static func now() -> Int64 { Int64(Date().timeIntervalSince1970 * 1000) }

  private struct WireBundle: Encodable {
    struct Message: Encodable {
      let type: Int
      let destinationDeviceId: Int
      let destinationRegistrationId: Int
      let body: String
    }
    let messages: [Message]
    let relay: String?
    let timestamp: Int64
  }
  private struct WireAcceptance: Decodable { let needsSync: Bool? }
  private struct WirePage: Decodable {
    struct Message: Decodable {
      let type: Int
      let relay: String?
      let timestamp: Int64
      let source: String
      let sourceDevice: Int?
      let message: String?
      let content: String?
    }
    let messages: [Message]
    let more: Bool?
  }
}

extension RelayClient {
  /// Tells `sender` that this device has received the message it sent at `timestamp` (reference 1.9).
  ///
  /// An acknowledgement has the relay do so by itself. Use this for clients that acknowledge and confirm at different
  /// times.
  /// - Parameters:
  ///   - timestamp: the message's own time, milliseconds since 1970.
  ///   - sender: the number that sent it.
  ///   - relay: the relay that the message came from, ``IncomingMessage/relay``; nil for this client's own.
  /// - Throws: `.refused`: 404 no such message was received, or there is no such number or relay; 413 too many
  ///   receipts; 503 the other relay is away. `.invalidArgument` for an empty `relay`.
  public func sendReceipt(for timestamp: Int64, to sender: PhoneNumber, at relay: String? = nil)
    async throws(RelayClientError)
  {
    let path = "/v1/receipt/\(sender.e164)/\(timestamp)" + (try relayQuery(relay))
    _ = try await send(RelayRequest(.put, path))
  }
}
