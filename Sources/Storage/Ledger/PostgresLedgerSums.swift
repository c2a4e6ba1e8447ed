import RelayCore

/// The sums that new crossings add to the loss ledger. PostgreSQL adds up only those that it had to look for.
struct PostgresLedgerSums {
  /// The sum of the crossings with one relay, one hour and one kind.
  struct Sum {
    let relay: RelayName
    let hour: LedgerHour
    let kind: Crossing.Kind
    var count: Int64 = 0
    /// The sums of the marks' lower and upper halves, apart as in the table.
    var low: Int64 = 0
    var high: Int64 = 0
  }

  /// Few: in the order in which they came.
  private(set) var all: [Sum] = []

  mutating func add(_ crossing: Crossing, of relay: RelayName) {
    let place =
      all.lastIndex { $0.hour == crossing.hour && $0.kind == crossing.kind && $0.relay == relay }
      ?? begin(Sum(relay: relay, hour: crossing.hour, kind: crossing.kind))
    all[place].count += 1
    all[place].low += crossing.mark.bits & 0xffff_ffff
    all[place].high += crossing.mark.bits >> 32 & 0xffff_ffff
  }

  private mutating func begin(_ sum: Sum) -> Int {
    all.append(sum)
    return all.count - 1
  }
}
