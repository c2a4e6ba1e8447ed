package import RelayCore

/// One operator's loss ledger for one peer and one day. `relay ledger --json` prints it, and `relay ledger compare`
/// reads it.
package struct LedgerFile: Codable, Sendable, Equatable {
  /// How many, and the sum of their marks as 16 hexadecimal digits.
  package struct Figure: Codable, Sendable, Equatable {
    package let count: Int64
    package let digest: String

    package init(_ sum: LedgerSum) {
      count = sum.count
      digest = CrossingMarks.hexadecimal(sum.digest)
    }

    /// nil unless it is what `init` writes: another operator made the file.
    package var sum: LedgerSum? {
      guard Self.counts.contains(count) else { return nil }
      return CrossingMarks.bits(digest).map { LedgerSum(count: count, digest: $0) }
    }

    /// So many that none of a file's hours can overflow a sum of all of them; what waits may be counted below zero.
    private static let counts: ClosedRange<Int64> = -(1 << 48)...(1 << 48)
  }

  /// The crossings that left this relay. The number handed over is the sum of the others.
  package struct Sent: Codable, Sendable, Equatable {
    package let handedOver: Figure
    package let answered: Figure
    package let waits: Figure
    package let refused: Figure
  }

  /// The crossings that came in. A crossing that was turned down was not accepted, and may have come again.
  package struct Received: Codable, Sendable, Equatable {
    package let accepted: Figure
    package let refused: Figure
  }

  package struct Kinds<Value: Codable & Sendable & Equatable>: Codable, Sendable, Equatable {
    package let messages: Value
    package let receipts: Value
  }

  package struct Hour: Codable, Sendable, Equatable {
    /// 0 to 23, UTC.
    package let hour: Int
    package let sent: Kinds<Sent>
    package let received: Kinds<Received>
  }

  package let format: String
  package let relay: String
  package let peer: String
  package let day: String
  /// Milliseconds since 1970.
  package let taken: Int64
  /// Ascending; those in which nothing crossed are left out.
  package let hours: [Hour]

  package static let format = "relay-ledger-1"

  package init(
    relay: RelayName, peer: RelayName, day: LedgerDay, entries: [LedgerEntry], taken: Timestamp
  ) {
    format = Self.format
    self.relay = relay.text
    self.peer = peer.text
    self.day = day.text
    self.taken = taken.millis
    let byHour = Dictionary(grouping: entries) { Int($0.hour.number) - Int(day.start.number) }
    hours = byHour.keys.sorted().map { hour in Hour(hour, byHour[hour] ?? []) }
  }
}

extension LedgerFile.Hour {
  fileprivate init(_ hour: Int, _ entries: [LedgerEntry]) {
    func sum(_ kind: Crossing.Kind, _ event: LedgerRecord.Event) -> LedgerSum {
      entries.filter { $0.kind == kind && $0.event == event }.reduce(LedgerSum()) { $0 + $1.sum }
    }
    func sent(_ kind: Crossing.Kind) -> LedgerFile.Sent {
      let (all, answered, refused) = (sum(kind, .handedOver), sum(kind, .answered), sum(kind, .refused))
      return LedgerFile.Sent(
        handedOver: .init(all), answered: .init(answered), waits: .init(all - answered - refused),
        refused: .init(refused))
    }
    func received(_ kind: Crossing.Kind) -> LedgerFile.Received {
      LedgerFile.Received(accepted: .init(sum(kind, .accepted)), refused: .init(sum(kind, .turnedDown)))
    }
    self.hour = hour
    self.sent = .init(messages: sent(.message), receipts: sent(.receipt))
    self.received = .init(messages: received(.message), receipts: received(.receipt))
  }
}
