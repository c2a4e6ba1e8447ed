import RelayCore

/// The sums that new crossings add to the loss ledger. PostgreSQL adds up only those that it had to look for.
struct PostgresLedgerSums {
  /// The sum of the crossings with one relay, one hour and one kind.
  private struct Sum {
    let relay: RelayName
    let hour: LedgerHour
    let kind: Crossing.Kind
    var count: Int64 = 0
    /// The sums of the marks' lower and upper halves, apart as in the table.
    var low: Int64 = 0
    var high: Int64 = 0
  }

  /// Few: in the order in which they came.
  private var sums: [Sum] = []

  mutating func add(_ crossing: Crossing, of relay: RelayName) {
    let place =
      sums.lastIndex { $0.hour == crossing.hour && $0.kind == crossing.kind && $0.relay == relay }
      ?? begin(Sum(relay: relay, hour: crossing.hour, kind: crossing.kind))
    sums[place].count += 1
    sums[place].low += crossing.mark.bits & 0xffff_ffff
    sums[place].high += crossing.mark.bits >> 32 & 0xffff_ffff
  }

  private mutating func begin(_ sum: Sum) -> Int {
    sums.append(sum)
    return sums.count - 1
  }

  /// Six arrays: relays, hours, kinds, counts, low, high.
  func add(to parameters: inout PostgresParameters) {
    parameters.add(texts: sums.lazy.map(\.relay.text))
    parameters.add(integers: sums.lazy.map(\.hour.number))
    parameters.add(smallints: sums.lazy.map(\.kind.rawValue))
    parameters.add(bigints: sums.lazy.map(\.count))
    parameters.add(bigints: sums.lazy.map(\.low))
    parameters.add(bigints: sums.lazy.map(\.high))
  }
}
