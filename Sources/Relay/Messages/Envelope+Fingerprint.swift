import Crypto
import RelayCore

extension Submission {
  /// One envelope for each message, in order.
  /// - Parameter marks: of each message, or none at all. They count where the sender gave a time: by it both relays
  ///   know the hour.
  func envelopes(from origin: Origin, marks: [CrossingMark], at now: Timestamp) -> [Envelope] {
    let time = timestamp ?? now
    let isCounted = timestamp != nil && marks.count == messages.count
    return messages.indices.map { index in
      let message = messages[index]
      return Envelope(
        destination: DeviceAddress(destination, message.device), type: message.type, source: origin.source,
        relay: origin.relay, timestamp: time, message: message.body, content: message.content,
        fingerprint: Fingerprint(
          origin: origin, timestamp: time, message: message.body, content: message.content),
        mark: isCounted ? marks[index] : nil)
    }
  }
}

extension Envelope {
  /// The receipt that tells `mailbox` that `origin` has received what its account sent at `timestamp`: type, source and
  /// time, nothing else (reference 1.9).
  init(receiptOf timestamp: Timestamp, to mailbox: DeviceAddress, from origin: Origin, mark: CrossingMark?) {
    self.init(
      destination: mailbox, type: .receipt, source: origin.source, relay: origin.relay, timestamp: timestamp,
      message: nil, content: nil,
      fingerprint: Fingerprint(
        origin: origin, timestamp: timestamp, notice: .receipt, message: nil, content: nil),
      mark: mark)
  }

  /// The word to `mailbox`, one of the sender's, that `message` will not reach its destination: as if from device 1 of
  /// it, with type, relay and time, nothing else (docs/protocol.md, "Undeliverable messages").
  init(undeliverable message: PeerSubmission, to mailbox: DeviceAddress, at now: Timestamp) {
    let origin = Origin.peer(message.relay, source: DeviceAddress(message.submission.destination, .master))
    let timestamp = message.submission.timestamp ?? now
    self.init(
      destination: mailbox, type: .undeliverable, source: origin.source, relay: origin.relay, timestamp: timestamp,
      message: nil, content: nil,
      fingerprint: Fingerprint(
        origin: origin, timestamp: timestamp, notice: .undeliverable, message: nil, content: nil))
  }
}

extension Fingerprint {
  /// The kinds of a relay's word about a message. Two different words to one mailbox about one time are not the same.
  enum Notice: UInt64 {
    case receipt = 1
    case undeliverable
  }

  /// SHA-256, cut to 16 bytes, over all that makes a submission the same one again.
  ///
  /// A peer's name is among it: what one peer sends is never taken for what another, or a client of ours, has sent.
  init(
    origin: Origin, timestamp: Timestamp, notice: Notice? = nil, message: [UInt8]?, content: [UInt8]?
  ) {
    var hash = SHA256()
    let source = origin.source
    let relay = origin.relay.map { Array($0.text.utf8) }
    var head: [UInt64] = [
      source.account.digits, UInt64(source.device.value), UInt64(bitPattern: timestamp.millis),
      notice?.rawValue ?? 0,
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
