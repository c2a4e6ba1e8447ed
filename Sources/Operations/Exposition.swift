import RelayMetrics

/// Prometheus' text format, version 0.0.4.
enum Exposition {
  static let contentType = "text/plain; version=0.0.4; charset=utf-8"

  static func metricName(_ label: String) -> String {
    let name = sanitised(label, allowsColon: true)
    return name.hasPrefix("relay_") || isForeign(name) ? name : "relay_" + name
  }

  /// Whether the metric is another program's that we stand in for: its dashboards know it by exactly that name.
  static func isForeign(_ label: String) -> Bool { label.hasPrefix("sygnal_") }

  /// `{a="1",b="2"}`, or nothing; names ascending and made distinct, so that equal dimensions are one series.
  static func labels(_ dimensions: [(String, String)]) -> String {
    guard !dimensions.isEmpty else { return "" }
    var seen: Set<String> = reserved
    let pairs = dimensions.sorted { $0.0 < $1.0 }.map { name, value in
      var name = sanitised(name, allowsColon: false)
      while !seen.insert(name).inserted { name += "_" }
      return "\(name)=\"\(escaped(value, quotes: true))\""
    }
    return "{" + pairs.joined(separator: ",") + "}"
  }

  /// Adds one label to what `labels` made.
  static func labels(_ text: String, adding name: String, _ value: String) -> String {
    let own = "\(name)=\"\(value)\""
    return text.isEmpty ? "{\(own)}" : "\(text.dropLast()),\(own)}"
  }

  static func header(_ metric: any Metric) -> String {
    header(metric.name, type: type(of: metric).type.rawValue, help: metric.help)
  }

  static func header(_ name: String, type: String, help: String) -> String {
    "# HELP \(name) \(escaped(help, quotes: false))\n# TYPE \(name) \(type)\n"
  }

  static func number(_ value: Double) -> String {
    if value.isNaN { return "NaN" }
    if value.isInfinite { return value < 0 ? "-Inf" : "+Inf" }
    return abs(value) < 1e15 && value == value.rounded() ? String(Int64(value)) : String(value)
  }

  /// Histograms have labels of this name of their own.
  private static let reserved: Set<String> = ["le"]

  private static func sanitised(_ text: String, allowsColon: Bool) -> String {
    var name = ""
    for scalar in text.unicodeScalars {
      switch scalar {
      case "a"..."z", "A"..."Z", "_": name.unicodeScalars.append(scalar)
      case "0"..."9":
        if name.isEmpty { name = "_" }
        name.unicodeScalars.append(scalar)
      case ":" where allowsColon: name.unicodeScalars.append(scalar)
      default: name += "_"
      }
    }
    return name.isEmpty ? "_" : name
  }

  private static func escaped(_ text: String, quotes: Bool) -> String {
    var result = ""
    for scalar in text.unicodeScalars {
      switch scalar {
      case "\\": result += "\\\\"
      case "\n": result += "\\n"
      case "\"" where quotes: result += "\\\""
      default: result.unicodeScalars.append(scalar)
      }
    }
    return result
  }
}
