// One message of a hand-over as a batch has it, written and read.

import FoundationEssentials
import RelayCore
import SwiftProtobuf
import WireMessages

extension Relay_HandOver.Message {
  init(_ message: SubmittedMessage) {
    self.init()
    type = UInt32(message.type.rawValue)
    device = UInt32(message.device.value)
    registrationID = message.registrationID
    if let bytes = message.body { body = Data(bytes) }
    if let bytes = message.content { content = Data(bytes) }
  }
}

extension SubmittedMessage {
  /// The most that a message takes in a batch beside its `byteCount`.
  static let wireOverheadBytesMax = 57

  /// - Throws: what the request for it alone would be refused with.
  init(_ wire: Relay_HandOver.Message) throws(Problem) {
    guard let type = Int16(exactly: wire.type).flatMap(MessageType.init), MessageBundle.clientTypes.contains(type),
      let device = DeviceID(Int64(wire.device))
    else { throw Problem(.malformedBody) }
    guard wire.body.count + wire.content.count <= WireLimits.messageBytesMax else { throw Problem(.bodyTooLarge) }
    self.init(
      type: type, device: device, registrationID: wire.registrationID,
      body: wire.body.isEmpty ? nil : Array(wire.body), content: wire.content.isEmpty ? nil : Array(wire.content))
  }
}
