// The report for people: one line a rule, and a summary.

extension RuleResult {
  /// `ok     1.6    a one-time prekey is handed out once`; below it, for a broken rule, what was expected and got.
  package var text: String {
    switch verdict {
    case .kept: line("ok", nil)
    case .broken(let failure):
      line("FAIL", nil) + "\n       expected  \(failure.expected)\n       got       \(failure.got)"
        + (failure.request.map { "\n       from      \($0)" } ?? "")
    case .limited(let seconds): line("limit", seconds.map { "limited for \($0) s" } ?? "limited")
    case .skipped(let reason): line("skip", reason)
    case .notRun: line("-", "no time left")
    }
  }

  private func line(_ mark: String, _ remark: String?) -> String {
    padded(mark, 7) + rule.text(sectionWidth: 7) + (remark.map { "  (\($0))" } ?? "")
  }
}

extension Rule {
  /// The section in a column, then the text.
  package func text(sectionWidth: Int) -> String { padded(section, sectionWidth) + text }
}

extension ConformanceReport {
  /// The counts in one line, and what helps where rules were limited.
  package var summary: String {
    let broken = count { if case .broken = $0 { true } else { false } }
    let limited = count { if case .limited = $0 { true } else { false } }
    let skipped = count { if case .skipped = $0 { true } else { false } }
    var parts = ["\(count { $0 == .kept }) kept", "\(broken) broken"]
    if limited > 0 { parts.append("\(limited) limited") }
    if skipped > 0 { parts.append("\(skipped) skipped") }
    let notRun = count { $0 == .notRun }
    if notRun > 0 { parts.append("\(notRun) not run") }
    let line = "\(results.count) rules: \(parts.joined(separator: ", ")), in \(seconds(duration)) s"
    return limited == 0
      ? line : line + "\nWhat was limited has not been shown: run it again later, or raise the server's limits."
  }
}

private func padded(_ text: String, _ width: Int) -> String {
  text + String(repeating: " ", count: max(1, width - text.count))
}

/// With one decimal.
func seconds(_ duration: Duration) -> String {
  let tenths = Int64((duration / .milliseconds(100)).rounded())
  return "\(tenths / 10).\(tenths % 10)"
}
