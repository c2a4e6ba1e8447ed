import RelayCore

/// The buckets of one process, bounded in number.
///
/// Two generations: a bucket that is charged moves to the young one; when that is full, or so old that everything
/// in the old one has refilled, the old one is dropped and the young one takes its place. So a bucket is forgotten
/// when it is full again (which changes nothing) or when `bucketsMax / 2` others were charged since: an attacker who
/// can use that many keys has as many buckets anyway.
struct BucketTable {
  private struct Key: Hashable {
    let limiter: LimiterName
    let key: LimitKey
  }

  private let buckets: [LimiterName: Bucket]
  private let generationMax: Int
  /// After this long without a charge every bucket is full.
  private let refillMillisMax: Int64
  private var young: [Key: LeakyBucket] = [:]
  private var old: [Key: LeakyBucket] = [:]
  private var turned: Timestamp?

  /// - Parameter buckets: shapes that differ from `LimiterName.defaultBucket`.
  init(buckets: [LimiterName: Bucket], bucketsMax: Int) {
    self.buckets = buckets
    generationMax = max(1, bucketsMax / 2)
    refillMillisMax = LimiterName.allCases.map { (buckets[$0] ?? $0.defaultBucket).refillMillis }.max() ?? 0
  }

  var count: Int { young.count + old.count }

  mutating func take(_ amount: Double, from limiter: LimiterName, key: LimitKey, at now: Timestamp) -> LimitDecision {
    turn(at: now)
    let shape = buckets[limiter] ?? limiter.defaultBucket
    let key = Key(limiter: limiter, key: key)
    var bucket = young[key] ?? old.removeValue(forKey: key) ?? LeakyBucket(shape, at: now)
    let decision = bucket.take(amount, from: shape, at: now)
    young[key] = bucket
    return decision
  }

  private mutating func turn(at now: Timestamp) {
    let begun = turned ?? now
    guard young.count >= generationMax || now.millis - begun.millis > refillMillisMax else {
      turned = begun
      return
    }
    old = young
    young = [:]
    turned = now
  }
}
