import Foundation

/// Where values stand between two ends of a picture.
struct Axis: Sendable {
  enum Scale: Sendable { case linear, logarithmic }

  let label: String
  let scale: Scale
  let range: ClosedRange<Double>
  /// Ascending, within `range`.
  let ticks: [Double]

  /// An axis that has room for all of `values`. It begins at 0, or where it is logarithmic at a power of ten.
  init(_ label: String, of values: [Double], scale: Scale = .linear) {
    self.label = label
    self.scale = scale
    let finite = values.filter(\.isFinite)
    switch scale {
    case .linear:
      let largest = finite.max() ?? 0
      let most = largest > 0 ? largest : 1
      let step = Self.step(for: most)
      let count = max(1, (most / step - 1e-9).rounded(.up))
      range = 0...(step * count)
      ticks = (0...Int(count)).map { Double($0) * step }
    case .logarithmic:
      let positive = finite.filter { $0 > 0 }
      let low = floor(log10(positive.min() ?? 1) + 1e-9)
      let high = max(low + 1, ceil(log10(positive.max() ?? 10) - 1e-9))
      range = pow(10, low)...pow(10, high)
      ticks = (Int(low)...Int(high)).map { pow(10, Double($0)) }
    }
  }

  /// 0 at the beginning, 1 at the end; values beyond an end stand there.
  func place(_ value: Double) -> Double {
    let value = min(max(value, range.lowerBound), range.upperBound)
    switch scale {
    case .linear: return (value - range.lowerBound) / (range.upperBound - range.lowerBound)
    case .logarithmic: return log10(value / range.lowerBound) / log10(range.upperBound / range.lowerBound)
    }
  }

  func text(_ tick: Double) -> String { Self.text(tick) }

  /// 1, 2 or 5 times a power of ten: five ticks or so.
  private static func step(for most: Double) -> Double {
    let rough = most / 5
    let power = pow(10, floor(log10(rough)))
    return (([1, 2, 5, 10].first { $0 * power >= rough * 0.999_999 }) ?? 10) * power
  }

  private static func text(_ value: Double) -> String {
    for (size, letter) in [(1e9, "G"), (1e6, "M"), (1e3, "k")] where value >= size * 0.999_999 {
      return decimal(value / size) + letter
    }
    return decimal(value)
  }

  private static func decimal(_ value: Double) -> String {
    for decimals in 0...4 {
      let text = String(format: "%.\(decimals)f", value)
      if let back = Double(text), abs(back - value) <= abs(value) * 1e-6 { return text }
    }
    return String(format: "%.5f", value)
  }
}
