// The report for CI systems.

extension ConformanceReport {
  /// JUnit's XML: a `testsuite` per section of the API, a `testcase` per rule, times in seconds.
  package var junit: String {
    var xml = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
    xml += "<testsuites name=\"relay conformance\"\(Self.counts(results, duration))>\n"
    for section in sections {
      let own = results.filter { $0.rule.section == section }
      let time = own.reduce(Duration.zero) { $0 + $1.duration }
      xml += "  <testsuite name=\"\(Self.escaped(section))\"\(Self.counts(own, time))>\n"
      for result in own { xml += result.junit }
      xml += "  </testsuite>\n"
    }
    return xml + "</testsuites>\n"
  }

  /// In the order in which they first come.
  private var sections: [String] {
    results.map(\.rule.section).reduce(into: []) { if !$0.contains($1) { $0.append($1) } }
  }

  private static func counts(_ results: [RuleResult], _ time: Duration) -> String {
    let failures = results.count { if case .broken = $0.verdict { true } else { false } }
    let skipped = results.count { if case .skipped = $0.verdict { true } else { false } }
    let errors = results.count { result in
      switch result.verdict {
      case .limited, .notRun: true
      case .kept, .broken, .skipped: false
      }
    }
    return " tests=\"\(results.count)\" failures=\"\(failures)\" errors=\"\(errors)\" skipped=\"\(skipped)\""
      + " time=\"\(millis(time))\""
  }

  /// Seconds with three decimals.
  fileprivate static func millis(_ duration: Duration) -> String {
    let all = Int64((duration / .milliseconds(1)).rounded())
    let fraction = String(all % 1000)
    return "\(all / 1000)." + String(repeating: "0", count: 3 - fraction.count) + fraction
  }

  /// Text as an attribute may hold it; characters that XML forbids become spaces.
  fileprivate static func escaped(_ text: String) -> String {
    var escaped = ""
    for scalar in text.unicodeScalars {
      switch scalar {
      case "&": escaped += "&amp;"
      case "<": escaped += "&lt;"
      case ">": escaped += "&gt;"
      case "\"": escaped += "&quot;"
      default: escaped.unicodeScalars.append(isAllowed(scalar) ? scalar : " ")
      }
    }
    return escaped
  }

  private static func isAllowed(_ scalar: Unicode.Scalar) -> Bool {
    scalar.value >= 0x20 && scalar.value != 0xFFFE && scalar.value != 0xFFFF
  }
}

extension RuleResult {
  fileprivate var junit: String {
    let name = ConformanceReport.escaped(rule.text)
    let open =
      "    <testcase classname=\"\(ConformanceReport.escaped(area))\" name=\"\(name)\""
      + " time=\"\(ConformanceReport.millis(duration))\""
    guard let outcome else { return open + "/>\n" }
    return open + ">\n      \(outcome)\n    </testcase>\n"
  }

  /// nil for a kept rule.
  private var outcome: String? {
    switch verdict {
    case .kept: nil
    case .broken(let failure):
      "<failure type=\"RuleFailure\" message=\""
        + ConformanceReport.escaped(
          "expected \(failure.expected), got \(failure.got)" + (failure.request.map { " from \($0)" } ?? "")) + "\"/>"
    case .limited(let seconds):
      "<error type=\"RuleLimited\" message=\"limited" + (seconds.map { " for \($0) s" } ?? "") + "\"/>"
    case .skipped(let reason): "<skipped message=\"\(ConformanceReport.escaped(reason))\"/>"
    case .notRun: "<error type=\"NotRun\" message=\"no time left\"/>"
    }
  }
}
