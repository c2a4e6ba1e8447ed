/// Routing data plus opaque ciphertext for one mailbox: what is queued.
package struct Envelope: Sendable, Equatable {
  package var destination: DeviceAddress
  package var type: MessageType
  package var source: DeviceAddress
  /// nil when the source is an account of this relay.
  package var relay: RelayName?
  /// The sender's time, data only: order and expiry go by arrival (reference 3.10).
  package var timestamp: Timestamp
  package var message: [UInt8]?
  package var content: [UInt8]?
  /// Equal for a repeated submission and for nothing else: 16 bytes over the relay that speaks, source, source device,
  /// timestamp, message and content. Unique within one mailbox.
  package var fingerprint: Fingerprint
  /// The mark of a message that a peer hands over: it is counted as accepted when it is stored. Not stored itself.
  package var mark: CrossingMark?

  /// The bytes that the sender wrote.
  package var byteCount: Int { (message?.count ?? 0) + (content?.count ?? 0) }

  package init(
    destination: DeviceAddress, type: MessageType, source: DeviceAddress, relay: RelayName?, timestamp: Timestamp,
    message: [UInt8]?, content: [UInt8]?, fingerprint: Fingerprint, mark: CrossingMark? = nil
  ) {
    self.destination = destination
    self.type = type
    self.source = source
    self.relay = relay
    self.timestamp = timestamp
    self.message = message
    self.content = content
    self.fingerprint = fingerprint
    self.mark = mark
  }

  /// The crossing that is counted for it; nil for none.
  package var crossing: Crossing? {
    mark.map { Crossing($0, of: type == .receipt ? .receipt : .message, at: timestamp) }
  }
}

/// A 16-byte identity of a message's content and origin.
package struct Fingerprint: Sensitive, Sendable, Hashable {
  package static let kind: StaticString = "fingerprint"
  package let high: UInt64
  package let low: UInt64
  package init(high: UInt64, low: UInt64) {
    self.high = high
    self.low = low
  }
  /// - Returns: nil unless there are exactly 16 bytes.
  package init?(bytes: some Collection<UInt8>) {
    guard bytes.count == 16 else { return nil }
    self.high = bytes.prefix(8).reduce(0) { $0 << 8 | UInt64($1) }
    self.low = bytes.suffix(8).reduce(0) { $0 << 8 | UInt64($1) }
  }
  /// Always 16 bytes, big-endian.
  package var bytes: [UInt8] {
    (0..<16).map { index in
      let half = index < 8 ? high : low
      return UInt8(truncatingIfNeeded: half >> UInt64(56 - 8 * (index % 8)))
    }
  }
}

/// An envelope in a mailbox, with its place there.
package struct QueuedEnvelope: Sendable, Equatable {
  /// Rises with the order of acceptance within a mailbox; gaps are possible.
  package let sequence: Int64
  package let envelope: Envelope
  package init(sequence: Int64, envelope: Envelope) {
    self.sequence = sequence
    self.envelope = envelope
  }
}

// As plain text or bytes, and as little to be shown as those.
extension Envelope: Sensitive { package static let kind: StaticString = "envelope" }
