extension Plan {
  /// For people at a terminal.
  var text: String {
    var lines = [
      "\(Numbers.metric(load.accounts)) accounts, \(Numbers.metric(connections)) connected devices, "
        + "\(Numbers.short(messagesPerSecond)) messages/s in the busiest hour, \(Numbers.whole(load.peers)) peers",
      "",
    ]
    lines += partTable.lines + [""] + boundTable.lines + ["", verdict, cost]
    if !outsideMeasured.isEmpty {
      lines.append("Faster than was measured, at the cost of the fastest point: " + list(outsideMeasured) + ".")
    }
    if !assumed.isEmpty { lines.append("Assumed, and not measured: " + list(assumed) + ".") }
    return lines.joined(separator: "\n")
  }

  var partTable: TextTable {
    TextTable(
      header: ["part", "count", "busy cores", "cores", "memory GiB", "disk GiB", "network Mbit/s"],
      rows: parts.map { part in
        [
          part.name, Numbers.whole(part.count), Numbers.short(part.busyCores), Numbers.short(part.cores),
          Numbers.short(part.memoryGiB), Numbers.short(part.diskGiB), Numbers.short(part.networkMegabits),
        ]
      })
  }

  var boundTable: TextTable {
    TextTable(
      header: ["bound", "need", "limit", "used"],
      rows: bounds.map { bound in
        [
          bound.name.rawValue, "\(Numbers.short(bound.need)) \(bound.unit)", Numbers.exact(bound.limit),
          Numbers.percent(bound.share),
        ]
      })
  }

  var verdict: String {
    guard let first = firstBound else { return "Nothing is in the way." }
    if !isPossible {
      return "First bottleneck: \(first.name.rawValue). It would be used to \(Numbers.percent(first.share))."
    }
    let reach = accountsAtFirstBound.map { "a bound is reached at some \(Numbers.metric($0)) accounts" }
    return "First bottleneck: \(first.name.rawValue), used to \(Numbers.percent(first.share)); "
      + (reach ?? "no bound is reached below 10 G accounts") + "."
  }

  var cost: String {
    "\(Numbers.short(coreHoursPerMonth)) core hours a month, \(Numbers.short(costPerMonth)) at "
      + "\(Numbers.short(hardware.coreHourPrice)) for each."
  }

  private func list(_ names: [String]) -> String { names.joined(separator: ", ") }
}
