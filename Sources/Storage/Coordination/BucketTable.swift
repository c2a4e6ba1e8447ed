import RelayCore
import RelayWork

/// The buckets of one process, bounded in number.
///
/// Each limiter has two generations: a bucket that is charged moves to the young one, and when that turns, the old one
/// is dropped and the young one takes its place. A limiter turns when everything in its old generation has refilled,
/// so that its buckets are forgotten when they are full again, which changes nothing. When the table is full, the
/// limiter with the most buckets gives room: who floods one limiter with keys makes only that one forget, and has as
/// many buckets there anyway.
struct BucketTable {
  private struct Generations {
    var shape: Bucket
    var buckets = TwoGenerations<LimitKey, LeakyBucket>()
    var turned: Timestamp?

    mutating func turn(at now: Timestamp) {
      buckets.turn()
      turned = now
    }

    /// Without a charge for that long every bucket is full.
    mutating func turnIfRefilled(at now: Timestamp) {
      let begun = turned ?? now
      turned = begun
      if now.millis - begun.millis > shape.refillMillis { turn(at: now) }
    }

    /// The bucket of `key`, which counts as used from here on.
    mutating func use(_ key: LimitKey, at now: Timestamp) -> LeakyBucket {
      buckets.update(key, orInsert: LeakyBucket(shape, at: now)) { $0 }
    }

    mutating func store(_ bucket: LeakyBucket, of key: LimitKey) {
      buckets.update(key, orInsert: bucket) { $0 = bucket }
    }

    func bucket(of key: LimitKey, at now: Timestamp) -> LeakyBucket {
      buckets[key] ?? LeakyBucket(shape, at: now)
    }
  }

  private var buckets: [LimiterName: Bucket]
  private let bucketsMax: Int
  private let generationMax: Int
  private var limiters: [LimiterName: Generations] = [:]

  /// - Parameters:
  ///   - buckets: shapes that differ from `LimiterName.defaultBucket`.
  ///   - bucketsMax: of all limiters together, 2 at least; a charge of several may exceed it by those.
  init(buckets: [LimiterName: Bucket], bucketsMax: Int) {
    self.buckets = buckets
    self.bucketsMax = max(2, bucketsMax)
    generationMax = self.bucketsMax / 2
  }

  var count: Int { limiters.values.reduce(0) { $0 + $1.buckets.count } }

  mutating func take(_ amount: Double, from limiter: LimiterName, key: LimitKey, at now: Timestamp) -> LimitDecision {
    take([LimitCharge(amount, from: limiter, key: key)], at: now)
  }

  /// Charges different buckets: all or none, though each counts as used.
  mutating func take(_ charges: [LimitCharge], at now: Timestamp) -> LimitDecision {
    var decision = LimitDecision.allowed
    var charged: [LeakyBucket] = []
    charged.reserveCapacity(charges.count)
    for charge in charges {
      var bucket = use(charge, at: now)
      decision = decision.and(bucket.take(charge.amount, from: shape(of: charge.limiter), at: now))
      charged.append(bucket)
    }
    guard decision == .allowed else { return decision }
    // A table of a few buckets may have forgotten the first of them for the last: what is stored is what was judged.
    for (charge, bucket) in zip(charges, charged) { limiters[charge.limiter]?.store(bucket, of: charge.key) }
    return .allowed
  }

  /// The space in a bucket; all of it for one that has not been used. The question does not count as use.
  func space(in limiter: LimiterName, key: LimitKey, at now: Timestamp) -> Double {
    let shape = shape(of: limiter)
    return (limiters[limiter]?.bucket(of: key, at: now) ?? LeakyBucket(shape, at: now)).space(in: shape, at: now)
  }

  func shape(of limiter: LimiterName) -> Bucket { buckets[limiter] ?? limiter.defaultBucket }

  /// Charges made before stay in force.
  /// - Parameter buckets: shapes that differ from `LimiterName.defaultBucket`.
  mutating func setShapes(_ buckets: [LimiterName: Bucket]) {
    self.buckets = buckets
    for limiter in limiters.keys {
      let shape = shape(of: limiter)
      limiters[limiter]?.shape = shape
    }
  }

  private mutating func use(_ charge: LimitCharge, at now: Timestamp) -> LeakyBucket {
    let unused = Generations(shape: shape(of: charge.limiter))
    limiters[charge.limiter, default: unused].turnIfRefilled(at: now)
    makeRoom(at: now)
    return limiters[charge.limiter, default: unused].use(charge.key, at: now)
  }

  private mutating func makeRoom(at now: Timestamp) {
    if limiters.values.reduce(0, { $0 + $1.buckets.young.count }) >= generationMax,
      let largest = limiters.max(by: { $0.value.buckets.young.count < $1.value.buckets.young.count })?.key
    {
      limiters[largest]?.turn(at: now)
    }
    if count >= bucketsMax,
      let largest = limiters.max(by: { $0.value.buckets.old.count < $1.value.buckets.old.count })?.key
    {
      limiters[largest]?.buckets.removeOld()
    }
  }
}
