import RelayCore

/// How full a bucket is, in one process alone, and by a clock that never jumps.
struct BucketLevel {
  /// Charges that have not leaked out yet.
  private var charges = 0.0
  private var read: ContinuousClock.Instant?

  mutating func hasRoom(_ bucket: Bucket, at now: ContinuousClock.Instant) -> Bool {
    leak(bucket, until: now)
    return charges + 1 <= bucket.size
  }

  mutating func charge(_ bucket: Bucket, at now: ContinuousClock.Instant) {
    leak(bucket, until: now)
    charges += 1
  }

  mutating func refund(_ bucket: Bucket, at now: ContinuousClock.Instant) {
    leak(bucket, until: now)
    charges = max(0, charges - 1)
  }

  mutating func isEmpty(_ bucket: Bucket, at now: ContinuousClock.Instant) -> Bool {
    leak(bucket, until: now)
    return charges == 0
  }

  private mutating func leak(_ bucket: Bucket, until now: ContinuousClock.Instant) {
    if let read { charges = max(0, charges - (now - read) / .milliseconds(1) * bucket.perMillisecond) }
    read = now
  }
}

/// The levels of many buckets, bounded in number: those that come when there is no room for another one share one.
struct BucketLevels<Key: Hashable> {
  private struct Entry {
    var level = BucketLevel()
    let bucket: Bucket
  }

  private var entries: [Key: Entry] = [:]
  private var others = BucketLevel()
  private var swept: ContinuousClock.Instant?
  private let max: Int
  private static var sweepInterval: Duration { .seconds(1) }

  init(max: Int = 8192) { self.max = max }

  var count: Int { entries.count }

  mutating func hasRoom(_ key: Key, _ bucket: Bucket, at now: ContinuousClock.Instant) -> Bool {
    change(key, bucket, at: now) { $0.hasRoom(bucket, at: now) }
  }

  mutating func charge(_ key: Key, _ bucket: Bucket, at now: ContinuousClock.Instant) {
    change(key, bucket, at: now) { $0.charge(bucket, at: now) }
  }

  mutating func refund(_ key: Key, _ bucket: Bucket, at now: ContinuousClock.Instant) {
    change(key, bucket, at: now) { $0.refund(bucket, at: now) }
  }

  private mutating func change<Value>(
    _ key: Key, _ bucket: Bucket, at now: ContinuousClock.Instant, _ change: (inout BucketLevel) -> Value
  ) -> Value {
    if entries[key] == nil, entries.count >= max { sweep(at: now) }
    guard entries[key] != nil || entries.count < max else { return change(&others) }
    return change(&entries[key, default: Entry(bucket: bucket)].level)
  }

  /// Empty buckets need no entry. Looked for once a second at most: it takes as long as there are entries.
  private mutating func sweep(at now: ContinuousClock.Instant) {
    if let swept, now - swept < Self.sweepInterval { return }
    swept = now
    for key in Array(entries.keys) {
      guard var entry = entries[key] else { continue }
      if entry.level.isEmpty(entry.bucket, at: now) { entries[key] = nil }
    }
  }
}
