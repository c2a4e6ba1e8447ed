import FoundationEssentials
import RelayCore
import WireMessages

extension Envelope {
  /// Reference 2.9. Its type is always written, also 0; a notice has no message.
  var pushSignal: Textsecure_PushSignal {
    var signal = Textsecure_PushSignal()
    signal.type = UInt32(type.rawValue)
    signal.source = source.account.e164
    if let relay { signal.relay = relay.text }
    signal.timestamp = UInt64(bitPattern: timestamp.millis)
    if let message { signal.message = Data(message) }
    signal.sourceDevice = UInt32(source.device.value)
    if let content { signal.content = Data(content) }
    return signal
  }
}
