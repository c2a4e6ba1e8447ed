/// How long things took, kept in buckets whose width grows with the value: any latency is told to within 1 %.
///
/// Each power of two of nanoseconds is cut into 128 equal buckets. Costs 40 KiB whatever is recorded.
struct LatencyHistogram: Sendable {
  private static let cutBits = 7
  private static let cuts = 1 << cutBits
  /// Longer than two minutes counts as two minutes: no request of ours lives that long.
  private static let nanosecondsMax: UInt64 = 1 << 37

  private var counts = [UInt64](repeating: 0, count: bucket(of: nanosecondsMax) + 1)
  private(set) var count: UInt64 = 0
  private(set) var longest: Duration = .zero

  init() {}

  mutating func record(nanoseconds: UInt64) {
    let value = min(nanoseconds, Self.nanosecondsMax)
    counts[Self.bucket(of: value)] += 1
    count += 1
    longest = max(longest, .nanoseconds(Int64(value)))
  }

  mutating func add(_ other: Self) {
    for bucket in counts.indices { counts[bucket] += other.counts[bucket] }
    count += other.count
    longest = max(longest, other.longest)
  }

  /// - Parameter share: 0...1; 0.99 asks for what 99 of 100 stayed below.
  /// - Returns: the upper edge of the bucket that holds it, never above the longest; zero when nothing was recorded.
  func quantile(_ share: Double) -> Duration {
    guard count > 0 else { return .zero }
    let rank = max(1, UInt64((Double(count) * share).rounded(.up)))
    var seen: UInt64 = 0
    for (bucket, countHere) in counts.enumerated() {
      seen += countHere
      if seen >= rank { return min(longest, .nanoseconds(Int64(Self.upperEdge(of: bucket)))) }
    }
    return longest
  }

  /// Values below `2 * cuts` have a bucket each; above, the leading 8 bits of a value choose its bucket.
  private static func bucket(of value: UInt64) -> Int {
    let shift = max(0, UInt64.bitWidth - value.leadingZeroBitCount - cutBits - 1)
    return shift << cutBits + Int(value >> UInt64(shift))
  }

  private static func upperEdge(of bucket: Int) -> UInt64 {
    guard bucket >= 2 * cuts else { return UInt64(bucket) }
    let shift = bucket >> cutBits - 1
    let leading = UInt64(bucket - shift << cutBits)
    return (leading + 1) << UInt64(shift) - 1
  }
}
