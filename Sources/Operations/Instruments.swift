// The live form of metrics: atomics. Recording takes no lock and allocates nothing.

import CoreMetrics
import Synchronization

/// A `Double` that is added to atomically.
struct AtomicDouble: ~Copyable {
  private let bits = Atomic<UInt64>(0)

  var value: Double { Double(bitPattern: bits.load(ordering: .relaxed)) }

  func set(_ value: Double) { bits.store(value.bitPattern, ordering: .relaxed) }

  func add(_ amount: Double) {
    var old = bits.load(ordering: .relaxed)
    while true {
      let new = (Double(bitPattern: old) + amount).bitPattern
      let (exchanged, original) = bits.weakCompareExchange(expected: old, desired: new, ordering: .relaxed)
      if exchanged { return }
      old = original
    }
  }
}

/// A metric that can write its samples.
protocol Instrument: AnyObject, Sendable {
  /// Appends the lines of one series. - Parameter labels: as `Exposition.labels` makes them.
  func write(name: String, labels: String, to text: inout String)
}

final class WholeCounter: Instrument, CounterHandler {
  private let count = Atomic<Int64>(0)

  /// Counters only rise: what is negative is ignored.
  func increment(by amount: Int64) {
    guard amount > 0 else { return }
    count.wrappingAdd(amount, ordering: .relaxed)
  }
  func reset() { count.store(0, ordering: .relaxed) }
  func write(name: String, labels: String, to text: inout String) {
    text += "\(name)\(labels) \(count.load(ordering: .relaxed))\n"
  }
}

final class RealCounter: Instrument, FloatingPointCounterHandler {
  private let sum = AtomicDouble()

  func increment(by amount: Double) {
    guard amount > 0, amount.isFinite else { return }
    sum.add(amount)
  }
  func reset() { sum.set(0) }
  func write(name: String, labels: String, to text: inout String) {
    text += "\(name)\(labels) \(Exposition.number(sum.value))\n"
  }
}

/// The present value of something. Also serves recorders that do not aggregate.
final class Gauge: Instrument, MeterHandler, RecorderHandler {
  private let value = AtomicDouble()

  func set(_ value: Int64) { self.value.set(Double(value)) }
  func set(_ value: Double) { self.value.set(value) }
  func increment(by amount: Double) { value.add(amount) }
  func decrement(by amount: Double) { value.add(-amount) }
  func record(_ value: Int64) { self.value.set(Double(value)) }
  func record(_ value: Double) { self.value.set(value) }
  func write(name: String, labels: String, to text: inout String) {
    text += "\(name)\(labels) \(Exposition.number(value.value))\n"
  }
}

/// Counts values by size. A timer's values are seconds.
final class Histogram: Instrument, TimerHandler, RecorderHandler {
  private static let boundCount = 14
  /// Half a millisecond to ten seconds: from a cached answer to a request that gave up.
  static let secondBounds = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]
  /// As Sygnal's (push gateway reference, 10).
  static let foreignSecondBounds = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10]
  /// Batch sizes and bytes alike.
  static let sizeBounds: [Double] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 10_000, 100_000, 1_000_000, 10_000_000]

  /// Ascending, `boundCount` of them.
  private let bounds: [Double]
  /// By bucket, the last one without bound; not cumulative.
  private let counts = InlineArray<15, Atomic<Int64>> { _ in Atomic(0) }
  private let sum = AtomicDouble()

  init(bounds: [Double]) {
    precondition(bounds.count == Self.boundCount)
    self.bounds = bounds
  }

  func record(_ value: Double) {
    guard value.isFinite else { return }
    var bucket = 0
    while bucket < Self.boundCount, value > bounds[bucket] { bucket += 1 }
    counts[bucket].wrappingAdd(1, ordering: .relaxed)
    sum.add(value)
  }
  func record(_ value: Int64) { record(Double(value)) }
  func recordNanoseconds(_ duration: Int64) { record(Double(duration) / 1e9) }

  func write(name: String, labels: String, to text: inout String) {
    var total: Int64 = 0
    for bucket in 0...Self.boundCount {
      total += counts[bucket].load(ordering: .relaxed)
      let bound = bucket < Self.boundCount ? Exposition.number(bounds[bucket]) : "+Inf"
      text += "\(name)_bucket\(Exposition.labels(labels, adding: "le", bound)) \(total)\n"
    }
    text += "\(name)_sum\(labels) \(Exposition.number(sum.value))\n\(name)_count\(labels) \(total)\n"
  }
}
