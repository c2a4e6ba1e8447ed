import Foundation

extension BenchmarkReport {
  /// A table for people.
  var text: String {
    var lines = [
      "\(machine.processor), \(machine.processors) processors, "
        + String(format: "%.0f GiB", machine.memoryGiB) + ", Linux \(machine.kernel), "
        + (machine.postgres.map { "PostgreSQL \($0), " } ?? "") + "\(machine.build) build"
    ]
    if machine.postgres != nil {
      lines.append(
        "\(settings.connections) connections in a closed loop \(settings.bodyBytes)-byte bodies, "
          + String(format: "%.1f s a scenario after %.1f s of warm-up", settings.seconds, settings.warmUpSeconds)
          + "; client, relays, PostgreSQL and Redis on this machine")
    }
    lines += scenarioTable + deliveryTable + idleTable + stormTable + tableTable + pushTable
    lines += lookUpTable + startTable + obliviousTable + partsTable + overloadTable + growthTable + ejabberdTable
    lines += goalTable
    if let peaks = scenarios.last?.peakResidentMiB {
      let list = peaks.sorted { $0.key < $1.key }.map { "\($0.key) \(Self.number($0.value, 0)) MiB" }
      lines += ["", "Peak resident memory: " + list.joined(separator: ", ")]
    }
    if let ratios {
      lines.append(
        "An accepted local message takes the CPU of \(Self.number(ratios.cpu, 1)) bare rows, at "
          + "\(Self.number(ratios.rate, 2)) of their rate.")
    }
    lines += singleRowLines
    for hop in hops {
      lines.append(
        "At \(hop.pacePerSecond) messages/s the hop adds \(Self.number(hop.p50Millis, 2)) ms to p50 and "
          + "\(Self.number(hop.p99Millis, 2)) ms to p99.")
    }
    for hop in hopsAcross {
      lines.append(
        "At \(hop.pacePerSecond) messages/s the way through another process adds "
          + "\(Self.number(hop.p50Millis, 2)) ms to p50 and \(Self.number(hop.p99Millis, 2)) ms to p99 of delivery."
      )
    }
    if let handshakes {
      let (relay, openssl) = (handshakes.relay.perCPUSecond, handshakes.openssl.perCPUSecond)
      lines.append(
        "Full mutual TLS 1.3 handshakes per CPU second of the server: relay \(Self.number(relay, 0)), openssl s_server "
          + "\(Self.number(openssl, 0)); ratio \(Self.number(relay / openssl, 2)).")
    }
    if let handshakeFlood { lines.append(handshakeFlood.text) }
    let others = scenarios.map(\.machineShareOfOthers).max() ?? 0
    if others > 0.05 {
      lines.append(
        "Other processes took up to \(Self.number(others * 100, 0)) % of the machine: "
          + "on a quiet one rates are higher and latencies lower.")
    }
    let counted = scenarios.filter { $0.delivery == nil && $0.lookUps == nil }
    let confirmed = counted.map { "\($0.rowsConfirmed) \($0.scenario.table)" }.joined(separator: ", ")
    if !confirmed.isEmpty { lines.append("Rows counted in the database, equal to the answers: \(confirmed).") }
    let delivered = scenarios.filter { $0.delivery != nil }.map { "\($0.rowsConfirmed)" }.joined(separator: ", ")
    if !delivered.isEmpty {
      lines.append(
        "Messages accepted, each delivered once, acknowledged, receipted and gone from the database: \(delivered).")
    }
    if scenarios.contains(where: { $0.lookUps != nil }) {
      lines.append("Every answer to a look-up held the contacts that are known, and no others.")
    }
    return lines.joined(separator: "\n")
  }

  /// Empty where neither scenarios nor bare rows were measured.
  private var scenarioTable: [String] {
    let rows = scenarios.map { figures in
      let cpu = figures.cpuSecondsPerThousand
      return [
        figures.title, Self.number(figures.perSecond, 0), Self.number(figures.p50Millis, 2),
        Self.number(figures.p99Millis, 2), Self.number(cpu.total, 3),
      ] + serverClasses.map { Self.number(cpu.byProcess[$0.rawValue] ?? 0, 3) }
        + [
          Self.number(figures.switchesPerRequest, 1), Self.counted(figures.systemCallsPerRequest, 1),
          Self.counted(figures.statementsPerRequest, 2),
        ]
    }
    guard !rows.isEmpty || bareInsert != nil else { return [] }
    let header =
      ["", "per s", "p50 ms", "p99 ms", "CPU s/1,000"] + serverClasses.map(\.rawValue)
      + ["switches", "syscalls", "statements"]
    return [""] + Self.table(header, rows + bareRows)
  }

  /// Without workers where there are none.
  private var serverClasses: [ServerClass] {
    ServerClass.allCases.filter { $0 != .worker || settings.citusWorkers > 0 }
  }

  private var bareRows: [[String]] {
    [bareInsert, singleInsert].compactMap { $0 }.map { bare in
      let cpu = bare.cpuSecondsPerThousand
      let postgres = cpu.byProcess[ServerClass.postgres.rawValue] ?? 0
      let title = bare.rowsPerStatement == 1 ? "single durable rows" : "bare rows, \(bare.rowsPerStatement) a statement"
      return [
        title, Self.number(bare.rowsPerSecond, 0), Self.number(bare.p50Millis, 2), Self.number(bare.p99Millis, 2),
        Self.number(cpu.total, 3),
      ] + serverClasses.map { $0 == .postgres ? Self.number(postgres, 3) : "" } + ["", "", ""]
    }
  }

  private var singleRowLines: [String] {
    (ratios?.singleRows ?? [:]).sorted { $0.key < $1.key }.map { pace, ratio in
      "An accepted local message" + (pace > 0 ? " at \(pace)/s" : "") + " takes the CPU of "
        + "\(Self.number(ratio, 2)) single durable rows."
    }
  }

  /// Nothing is made up in the place of a figure that was not measured.
  static func counted(_ value: Double?, _ decimals: Int) -> String {
    value.map { number($0, decimals) } ?? "not measured"
  }

  static func number(_ value: Double, _ decimals: Int) -> String {
    String(format: "%.\(decimals)f", value)
  }

  /// The first column to the left, the others to the right, as Markdown reads them too.
  static func table(_ header: [String], _ rows: [[String]]) -> [String] {
    let widths = header.indices.map { column in max(3, ([header] + rows).map { $0[column].count }.max() ?? 0) }
    let line = { (cells: [String]) in
      let padded = cells.indices.map { column in
        let padding = String(repeating: " ", count: widths[column] - cells[column].count)
        return column == 0 ? cells[column] + padding : padding + cells[column]
      }
      return "| " + padded.joined(separator: " | ") + " |"
    }
    let rule = widths.indices.map { String(repeating: "-", count: widths[$0] - 1) + ($0 == 0 ? "-" : ":") }
    return [line(header), line(rule)] + rows.map(line)
  }
}

extension HandshakeFloodFigures {
  fileprivate var text: String {
    let number = BenchmarkReport.number
    return "Handshake of a known peer, to its first answer, during a flood of \(perSecond)/s without certificates: p50 "
      + "\(number(flooded.p50Millis, 1)) ms, p99 \(number(flooded.p99Millis, 1)) ms; alone p50 "
      + "\(number(alone.p50Millis, 1)) ms, p99 \(number(alone.p99Millis, 1)) ms."
  }
}
