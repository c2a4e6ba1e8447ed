/// Figures as people read them: short, with three or four digits that matter.
package enum Figure {
  /// For events a second, or any other figure that is often small.
  package static func rate(_ value: Double) -> String {
    value == 0 ? "0" : value < 10 ? digits(value, 1) : count(value)
  }

  /// `99999`, `150k`, `12M`.
  package static func count(_ value: Double) -> String {
    switch value {
    case ..<100_000: digits(value, 0)
    case ..<10_000_000: digits(value / 1000, 0) + "k"
    default: digits(value / 1_000_000, 0) + "M"
    }
  }

  /// `-` where there is none.
  package static func millis(_ value: Double?) -> String {
    value.map { $0 < 10 ? digits($0, 1) : digits($0, 0) } ?? "-"
  }

  /// `120M`, `12.5G`.
  package static func bytes(_ value: Double) -> String {
    value < 10 * Double(1 << 30) ? digits(value / Double(1 << 20), 0) + "M" : digits(value / Double(1 << 30), 1) + "G"
  }

  /// `90s`, `5m`, `7h`, `3d`.
  package static func age(_ seconds: Double) -> String {
    switch seconds {
    case ..<120: digits(seconds, 0) + "s"
    case ..<7200: digits(seconds / 60, 0) + "m"
    case ..<172_800: digits(seconds / 3600, 0) + "h"
    default: digits(seconds / 86_400, 0) + "d"
    }
  }

  private static func digits(_ value: Double, _ places: Int) -> String {
    guard value.isFinite else { return "-" }
    guard places > 0 else { return String(Int(min(value.rounded(), 1e15))) }
    let tenths = Int((min(value, 1e15) * 10).rounded())
    return "\(tenths / 10).\(tenths % 10)"
  }
}
