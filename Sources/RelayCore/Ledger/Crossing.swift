/// One message for one device, or one receipt, on its way between this relay and a peer: the unit of the loss ledger.
package struct Crossing: Sendable, Hashable {
  /// Stored.
  package enum Kind: Int16, Sendable, CaseIterable {
    case message = 0
    case receipt = 1
  }

  package let mark: CrossingMark
  /// The tag of a message that leaves us; nil for everything else.
  package let tag: HandOverTag?
  package let hour: LedgerHour
  package let kind: Kind

  /// - Parameter timestamp: the sender's; of a receipt: of the message that was received.
  package init(_ mark: CrossingMark, tag: HandOverTag? = nil, of kind: Kind, at timestamp: Timestamp) {
    self.mark = mark
    self.tag = tag
    hour = LedgerHour(of: timestamp)
    self.kind = kind
  }
}

/// The mark by which both relays know a crossing: 64 bits that the sender's relay makes under a key of its own. It is
/// the same for a repeated submission, and tells nothing without the key.
package struct CrossingMark: Sensitive, Sendable, Hashable {
  package static let kind: StaticString = "crossing mark"
  package let bits: Int64
  package init(bits: Int64) { self.bits = bits }
}

/// An hour of the loss ledger, counted from 1970-01-01T00:00Z.
///
/// It is that of the sender's time, which stands on the wire and is the same for whatever is handed over again: so both
/// relays know it, whatever their clocks say and however long the way takes.
package struct LedgerHour: Sendable, Hashable, Comparable {
  package let number: Int32
  package init(number: Int32) { self.number = number }

  /// The first or the last hour that there is, for times beyond them: clients may name any.
  package init(of timestamp: Timestamp) {
    let (quotient, remainder) = timestamp.millis.quotientAndRemainder(dividingBy: Self.millis)
    number = Int32(clamping: remainder < 0 ? quotient - 1 : quotient)
  }

  package static func < (a: Self, b: Self) -> Bool { a.number < b.number }
  package func adding(hours: Int32) -> LedgerHour {
    let (sum, isBeyond) = number.addingReportingOverflow(hours)
    return LedgerHour(number: isBeyond ? (hours < 0 ? .min : .max) : sum)
  }

  private static let millis: Int64 = 3_600_000
}

/// An event in the life of crossings.
package struct LedgerRecord: Sendable, Equatable {
  /// Stored. An outgoing crossing is handed over once, and then answered, refused, or neither yet. An incoming one is
  /// accepted or turned down.
  package enum Event: Int16, Sendable, CaseIterable {
    case handedOver = 0
    case answered = 1
    case refused = 2
    case accepted = 3
    case turnedDown = 4
  }

  package let relay: RelayName
  package let event: Event
  package let crossings: [Crossing]
  package init(_ event: Event, _ crossings: [Crossing], relay: RelayName) {
    self.event = event
    self.crossings = crossings
    self.relay = relay
  }
}

/// How many crossings, and the sum of their marks modulo 2^64: it does not depend on their order, and shows what is
/// there twice.
package struct LedgerSum: Sendable, Hashable {
  package var count: Int64
  package var digest: UInt64
  package init(count: Int64 = 0, digest: UInt64 = 0) {
    self.count = count
    self.digest = digest
  }

  package static func + (a: Self, b: Self) -> Self {
    LedgerSum(count: a.count &+ b.count, digest: a.digest &+ b.digest)
  }
  package static func - (a: Self, b: Self) -> Self {
    LedgerSum(count: a.count &- b.count, digest: a.digest &- b.digest)
  }
}

/// One line of what is kept of a peer.
package struct LedgerEntry: Sendable, Equatable {
  package let hour: LedgerHour
  package let kind: Crossing.Kind
  package let event: LedgerRecord.Event
  package let sum: LedgerSum
  package init(hour: LedgerHour, kind: Crossing.Kind, event: LedgerRecord.Event, sum: LedgerSum) {
    self.hour = hour
    self.kind = kind
    self.event = event
    self.sum = sum
  }
}
