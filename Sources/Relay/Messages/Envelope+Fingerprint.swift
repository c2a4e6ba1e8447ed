import Crypto
import RelayCore

extension Submission {
  /// One envelope for each message, in order.
  func envelopes(from origin: Origin, at now: Timestamp) -> [Envelope] {
    let time = timestamp ?? now
    return messages.map { message in
      Envelope(
        destination: DeviceAddress(destination, message.device), type: message.type, source: origin.source,
        relay: origin.relay, timestamp: time, message: message.body, content: message.content,
        fingerprint: Fingerprint(
          origin: origin, timestamp: time, isReceipt: false, message: message.body, content: message.content))
    }
  }
}

extension Envelope {
  /// The receipt that tells `mailbox` that `origin` has received what its account sent at `timestamp`: type, source and
  /// time, nothing else (reference 1.9).
  init(receiptOf timestamp: Timestamp, to mailbox: DeviceAddress, from origin: Origin) {
    self.init(
      destination: mailbox, type: .receipt, source: origin.source, relay: origin.relay, timestamp: timestamp,
      message: nil, content: nil,
      fingerprint: Fingerprint(
        origin: origin, timestamp: timestamp, isReceipt: true, message: nil, content: nil))
  }
}

extension Fingerprint {
  /// SHA-256, cut to 16 bytes, over all that makes a submission the same one again.
  ///
  /// A peer's name is among it: what one peer sends is never taken for what another, or a client of ours, has sent.
  init(origin: Origin, timestamp: Timestamp, isReceipt: Bool, message: [UInt8]?, content: [UInt8]?) {
    var hash = SHA256()
    let source = origin.source
    let relay = origin.relay.map { Array($0.text.utf8) }
    var head: [UInt64] = [
      source.account.digits, UInt64(source.device.value), UInt64(bitPattern: timestamp.millis), isReceipt ? 1 : 0,
      UInt64(message?.count ?? 0), UInt64(content?.count ?? 0),
    ]
    // Nothing for our own clients: retries from before peers were told apart are recognised.
    if let relay { head.append(UInt64(relay.count)) }
    head.withUnsafeBytes { hash.update(bufferPointer: $0) }
    for part in [relay, message, content] { part?.withUnsafeBytes { hash.update(bufferPointer: $0) } }
    self = hash.finalize().withUnsafeBytes { digest in
      Fingerprint(
        high: UInt64(bigEndian: digest.loadUnaligned(fromByteOffset: 0, as: UInt64.self)),
        low: UInt64(bigEndian: digest.loadUnaligned(fromByteOffset: 8, as: UInt64.self)))
    }
  }
}
