import RelayCore

/// The part of shared buckets that one process allows by itself, and what it owes of them. No I/O, no lock and no
/// clock: `LeasedTakes` has these (docs/decisions/2026-11-24-leased-limits.md).
///
/// A process allows a slice of each bucket, a sixteenth, before it is charged, and nothing once it alone has used a
/// quarter of it. So `P` processes together never allow more than the bucket and `P` slices.
struct LeasedBuckets {
  fileprivate struct Key: Hashable {
    let limiter: LimiterName
    let key: LimitKey

    init(_ charge: LimitCharge) { (limiter, key) = (charge.limiter, charge.key) }
  }

  /// Parts of a bucket's size: a process may owe the first, while it has left the second alone.
  static let slice = 1.0 / 16
  static let untouched = 3.0 / 4

  private let limiters: Set<LimiterName>
  private let debtsMax: Int
  /// The buckets as if this process alone charged them.
  private var own: BucketTable
  /// Amounts that were allowed and are not charged yet.
  private var debts: [Key: Double] = [:]
  /// The part of `debts` that Redis is just being asked for.
  private var underWay: [Key: Double] = [:]

  /// - Parameters:
  ///   - limiters: those whose buckets may be leased.
  ///   - shapes: those that differ from `LimiterName.defaultBucket`.
  ///   - bucketsMax: buckets that are looked after; those that were not used for longest are forgotten.
  ///   - debtsMax: buckets of which something is owed; charges of others are not allowed here.
  init(of limiters: Set<LimiterName>, shapes: [LimiterName: Bucket], bucketsMax: Int = 200_000, debtsMax: Int = 10_000)
  {
    self.limiters = limiters
    self.debtsMax = debtsMax
    own = BucketTable(buckets: shapes, bucketsMax: bucketsMax)
  }

  var owes: Bool { !debts.isEmpty }

  /// Allows all of `charges` or none of them: what it allows is owed from then on.
  mutating func allows(_ charges: [LimitCharge], at now: Timestamp) -> Bool {
    guard charges.allSatisfy({ limiters.contains($0.limiter) && $0.amount >= 0 }),
      debts.count + charges.count <= debtsMax
    else { return false }
    for charge in charges {
      let size = own.shape(of: charge.limiter).size
      guard (debts[Key(charge)] ?? 0) + charge.amount <= size * Self.slice,
        own.space(in: charge.limiter, key: charge.key, at: now) - charge.amount >= size * Self.untouched
      else { return false }
    }
    guard own.take(charges, at: now) == .allowed else { return false }
    for charge in charges where charge.amount > 0 { debts[Key(charge), default: 0] += charge.amount }
    return true
  }

  /// Takes what is owed of the buckets of `charges`: the caller charges it before them, and calls `settle`.
  mutating func takeDebts(of charges: [LimitCharge]) -> [LimitCharge] { charges.compactMap { takeDebt(of: Key($0)) } }

  /// Takes what is owed of all buckets.
  mutating func takeDebts() -> [LimitCharge] { debts.keys.compactMap { takeDebt(of: $0) } }

  /// Until then they count as owed, so that no more is allowed than a slice. A debt that was refused goes on to
  /// count: the bucket has no room for it yet.
  /// - Parameter decisions: one for each of `debts`.
  mutating func settle(_ debts: [LimitCharge], by decisions: some Sequence<LimitDecision>) {
    for (debt, decision) in zip(debts, decisions) {
      Self.lower(&underWay, Key(debt), by: debt.amount)
      if decision == .allowed { Self.lower(&self.debts, Key(debt), by: debt.amount) }
    }
  }

  /// `charges` were allowed by Redis.
  mutating func charged(_ charges: [LimitCharge], at now: Timestamp) {
    let leased = charges.filter { limiters.contains($0.limiter) }
    if !leased.isEmpty { _ = own.take(leased, at: now) }
  }

  /// How much of a bucket is owed.
  func debt(of limiter: LimiterName, _ key: LimitKey) -> Double {
    debts[Key(LimitCharge(0, from: limiter, key: key))] ?? 0
  }

  mutating func setShapes(_ shapes: [LimiterName: Bucket]) { own.setShapes(shapes) }

  private mutating func takeDebt(of key: Key) -> LimitCharge? {
    let amount = (debts[key] ?? 0) - (underWay[key] ?? 0)
    guard amount > 0 else { return nil }
    underWay[key, default: 0] += amount
    return LimitCharge(amount, from: key.limiter, key: key.key)
  }

  private static func lower(_ amounts: inout [Key: Double], _ key: Key, by amount: Double) {
    let left = (amounts[key] ?? 0) - amount
    amounts[key] = left > 0 ? left : nil
  }
}
