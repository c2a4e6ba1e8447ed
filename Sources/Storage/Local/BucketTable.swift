import RelayCore

/// The buckets of one process, bounded in number.
///
/// Each limiter has two generations: a bucket that is charged moves to the young one, and when that turns, the old one is
/// dropped and the young one takes its place. A limiter turns when everything in its old generation has refilled, so that
/// its buckets are forgotten when they are full again, which changes nothing. When the table is full, the limiter with the
/// most buckets gives room: who floods one limiter with keys makes only that one forget, and has as many buckets there
/// anyway.
struct BucketTable {
  private struct Generations {
    let shape: Bucket
    var young: [LimitKey: LeakyBucket] = [:]
    var old: [LimitKey: LeakyBucket] = [:]
    var turned: Timestamp?

    mutating func turn(at now: Timestamp) {
      old = young
      young = [:]
      turned = now
    }

    /// Without a charge for that long every bucket is full.
    mutating func turnIfRefilled(at now: Timestamp) {
      let begun = turned ?? now
      turned = begun
      if now.millis - begun.millis > shape.refillMillis { turn(at: now) }
    }

    mutating func take(_ amount: Double, key: LimitKey, at now: Timestamp) -> LimitDecision {
      var bucket = young[key] ?? old.removeValue(forKey: key) ?? LeakyBucket(shape, at: now)
      let decision = bucket.take(amount, from: shape, at: now)
      young[key] = bucket
      return decision
    }
  }

  private let buckets: [LimiterName: Bucket]
  private let bucketsMax: Int
  private let generationMax: Int
  private var limiters: [LimiterName: Generations] = [:]

  /// - Parameters:
  ///   - buckets: shapes that differ from `LimiterName.defaultBucket`.
  ///   - bucketsMax: of all limiters together, 2 at least.
  init(buckets: [LimiterName: Bucket], bucketsMax: Int) {
    self.buckets = buckets
    self.bucketsMax = max(2, bucketsMax)
    generationMax = self.bucketsMax / 2
  }

  var count: Int { limiters.values.reduce(0) { $0 + $1.young.count + $1.old.count } }

  mutating func take(_ amount: Double, from limiter: LimiterName, key: LimitKey, at now: Timestamp) -> LimitDecision {
    let unused = Generations(shape: buckets[limiter] ?? limiter.defaultBucket)
    limiters[limiter, default: unused].turnIfRefilled(at: now)
    makeRoom(at: now)
    return limiters[limiter, default: unused].take(amount, key: key, at: now)
  }

  private mutating func makeRoom(at now: Timestamp) {
    if limiters.values.reduce(0, { $0 + $1.young.count }) >= generationMax,
      let largest = limiters.max(by: { $0.value.young.count < $1.value.young.count })?.key
    {
      limiters[largest]?.turn(at: now)
    }
    if count >= bucketsMax, let largest = limiters.max(by: { $0.value.old.count < $1.value.old.count })?.key {
      limiters[largest]?.old = [:]
    }
  }
}
