import RelayCore
import SwiftProtobuf
import WireMessages

/// The body of `PUT /v1/federation/message`, by which relays of the first generation hand over one message:
/// `{"destination": number, "outgoingMessageSignal": base64 of the signal of reference 2.9}`.
struct LegacyHandOver: Sendable {
  private let destination: String
  private let signal: String

  static func decode(_ json: RawSpan) throws(JSONError) -> LegacyHandOver {
    var reader = JSONReader(json)
    var destination: String?
    var signal: String?
    try reader.beginObject()
    while let key = try reader.nextKey() {
      if reader.matches(key, "destination") {
        destination = try reader.string()
      } else if reader.matches(key, "outgoingMessageSignal") {
        signal = try reader.string()
      } else {
        try reader.skip()
      }
    }
    try reader.finish()
    guard let destination, let signal else { throw .wrongShape }
    return LegacyHandOver(destination: destination, signal: signal)
  }

  /// For device 1 alone, from the device that the signal names, or device 1; a relay that it names is ignored.
  /// - Throws: `.notFound` for a destination that is no number, `.undecodableMessage` for a signal that cannot be read
  ///   or delivered, `.bodyTooLarge`.
  var handOver: HandOver {
    get throws(Problem) {
      guard let destination = AccountNumber(e164: destination) else { throw Problem(.notFound) }
      let signal = try decodedSignal
      guard let account = AccountNumber(e164: signal.source),
        let device = DeviceID(signal.hasSourceDevice ? Int64(signal.sourceDevice) : 1),
        let type = Int16(exactly: signal.type).flatMap(MessageType.init),
        MessageBundle.clientTypes.contains(type), let millis = Int64(exactly: signal.timestamp)
      else { throw Problem(.undecodableMessage) }
      guard signal.message.count + signal.content.count <= WireLimits.messageBytesMax else {
        throw Problem(.bodyTooLarge)
      }
      let message = SubmittedMessage(
        type: type, device: .master, registrationID: 0, body: signal.message.isEmpty ? nil : Array(signal.message),
        content: signal.content.isEmpty ? nil : Array(signal.content))
      let submission = Submission(
        destination: destination, messages: [message], timestamp: millis == 0 ? nil : Timestamp(millis: millis),
        coverage: .masterDevice)
      return .message(submission, source: DeviceAddress(account, device))
    }
  }

  private var decodedSignal: Textsecure_PushSignal {
    get throws(Problem) {
      do {
        guard let bytes = Base64.decode(signal) else { throw Problem(.undecodableMessage) }
        return try Textsecure_PushSignal(serializedBytes: bytes)
      } catch {
        throw Problem(.undecodableMessage)
      }
    }
  }
}
