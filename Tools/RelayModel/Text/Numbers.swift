import Foundation

/// Numbers for people. The same value gives the same text on every machine.
enum Numbers {
  /// Three digits that count, with separators: 0.126, 12.3, 1,230.
  static func short(_ value: Double) -> String {
    guard value.isFinite else { return value > 0 ? "without bound" : "-" }
    guard value != 0 else { return "0" }
    let size = abs(value)
    if size >= 1000 {
      let step = pow(10, floor(log10(size) + 1e-9) - 2)
      return grouped((value / step).rounded() * step)
    }
    let decimals = size >= 99.95 ? 0 : size >= 9.995 ? 1 : size >= 0.9995 ? 2 : size >= 0.00995 ? 3 : small(size)
    return trimmed(String(format: "%.\(decimals)f", value))
  }

  /// The decimals of three digits that count, below a hundredth.
  private static func small(_ size: Double) -> Int { min(12, 2 - Int(floor(log10(size)))) }

  /// All digits before the point, with separators.
  static func whole(_ value: Double) -> String { value.isFinite ? grouped(value.rounded()) : "without bound" }

  /// All digits of a whole number; three of any other.
  static func exact(_ value: Double) -> String { value == value.rounded() ? whole(value) : short(value) }

  /// As a program reads it.
  static func plain(_ value: Double) -> String {
    guard value.isFinite, abs(value) < 1e15, value == value.rounded() else { return "\(value)" }
    return String(format: "%.0f", value)
  }

  /// With a letter for thousands and millions: 20 k, 100 M.
  static func metric(_ value: Double) -> String {
    for (size, letter) in [(1e9, "G"), (1e6, "M"), (1e3, "k")] where abs(value) >= size {
      return "\(short(value / size)) \(letter)"
    }
    return short(value)
  }

  static func percent(_ share: Double) -> String { "\(short(share * 100)) %" }

  private static func trimmed(_ text: String) -> String {
    guard text.contains(".") else { return text }
    var text = text
    while text.hasSuffix("0") { text.removeLast() }
    if text.hasSuffix(".") { text.removeLast() }
    return text
  }

  private static func grouped(_ value: Double) -> String {
    let digits = String(format: "%.0f", abs(value))
    var text = ""
    for (index, digit) in digits.enumerated() {
      if index > 0, (digits.count - index) % 3 == 0 { text += "," }
      text.append(digit)
    }
    return value < 0 ? "-" + text : text
  }
}
