/// How long things took: quantiles of all of them.
struct Waits: Sendable, Equatable {
  private var seconds: [Double] = []

  mutating func add(_ duration: Duration) { seconds.append(duration.inSeconds) }

  /// - Parameter share: 0...1; 1 is the longest.
  func quantile(_ share: Double) -> Double {
    guard !seconds.isEmpty else { return 0 }
    let sorted = seconds.sorted()
    return sorted[min(sorted.count - 1, Int(Double(sorted.count) * share))]
  }
}

/// A value that was looked at every so often.
struct Sample: Sendable, Equatable, Encodable {
  let seconds: Double
  let value: Double
}
