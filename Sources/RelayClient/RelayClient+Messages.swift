import Foundation
import RelayCore

/// One message of a bundle: for one device of the destination.
public struct OutgoingMessage: Sendable, Hashable {
  public let deviceID: Int
  /// The device's registration id as drawn with its prekey; 0 is "do not compare".
  public let registrationID: Int
  /// What the relay passes on unread.
  public let body: [UInt8]
  /// 1 a message of a session, 3 one that begins it by a prekey.
  public let type: Int

  public init(deviceID: Int = 1, registrationID: Int = 0, body: [UInt8], type: Int = 3) {
    self.deviceID = deviceID
    self.registrationID = registrationID
    self.body = body
    self.type = type
  }
}

/// A message in this device's mailbox.
public struct IncomingMessage: Sendable, Hashable {
  public let type: Int
  public let source: Correspondent
  /// The relay it came from; nil when that is this client's own.
  public let relay: String?
  /// The sender's time, milliseconds since 1970. With the source's number it names the message.
  public let timestamp: Int64
  /// Empty when there is none, as in a receipt.
  public let body: [UInt8]
  /// What clients since mid 2015 send in place of `body`; empty when there is none.
  public let content: [UInt8]
}

/// The oldest messages of a mailbox.
public struct MessagePage: Sendable, Hashable {
  /// Oldest first, at most 100; may be empty.
  public let messages: [IncomingMessage]
  /// There may be more: acknowledge these and ask again.
  public let more: Bool
}

extension RelayClient {
  /// Sends a bundle to the devices of `destination`. On return the relay where they live has stored it.
  ///
  /// Repeat it with the same timestamp after `.unreachable` or `.timedOut`: it is stored once.
  /// - Parameters:
  ///   - messages: one for each active device of the destination.
  ///   - relay: the relay that the directory names for the number; nil for this client's own.
  ///   - timestamp: milliseconds since 1970.
  /// - Returns: true when the sender has other devices, which need a copy.
  /// - Throws: `.mismatchedDevices`, `.staleDevices`; `.refused`: 404 no such number or relay, 413 too many, 503.
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

  /// Reads the oldest messages of this device's mailbox; nothing is removed.
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

  /// Removes `message` from this device's mailbox. No error when it is gone already.
  public func acknowledge(_ message: IncomingMessage) async throws(RelayClientError) {
    _ = try await send(RelayRequest(.delete, "/v1/messages/\(message.source.number.e164)/\(message.timestamp)"))
  }

  /// The present time as the wire counts it, milliseconds since 1970.
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
