/// A report as lines for a terminal, none wider than it.
struct TopScreen {
  let width: Int

  /// - Parameter time: `HH:MM:SS`, shown at the right of the first line.
  func lines(_ report: TopReport, at time: String) -> [String] {
    var lines = [head(report, time), ""]
    lines += requests(report) + [delivery(report.delivery), stores(report.stores), ""]
    lines += processes(report.processes)
    if !report.peers.isEmpty { lines += [""] + peers(report.peers) }
    if !report.push.isEmpty { lines += [""] + push(report.push) }
    lines += [""] + senders(report.senders)
    return lines.map { Self.cut($0, to: width) }
  }

  private func head(_ report: TopReport, _ time: String) -> String {
    let up = report.processes.filter { $0.fault == nil }.count
    let left = "relay top  \(report.name)  \(up) of \(report.processes.count) processes answer"
    return left + String(repeating: " ", count: max(2, width - left.count - time.count)) + time
  }

  private func requests(_ report: TopReport) -> [String] {
    let rows = report.requests.map { edge in
      [
        edge.edge, rate(edge.perSecond), millis(edge.p50Millis), millis(edge.p99Millis), rate(edge.refusedPerSecond),
        rate(edge.failedPerSecond),
      ]
    }
    return columns([["REQUESTS", "/S", "P50 MS", "P99 MS", "4XX /S", "5XX /S"]] + rows, first: 14, others: 9)
  }

  private func delivery(_ delivery: TopReport.Delivery) -> String {
    "DELIVERY  \(rate(delivery.deliveriesPerSecond))/s delivered  "
      + "\(rate(delivery.acknowledgementsPerSecond))/s acknowledged  \(count(delivery.connections)) connections"
      + (delivery.receiptsDroppedPerSecond > 0 ? "  \(rate(delivery.receiptsDroppedPerSecond))/s RECEIPTS LOST" : "")
  }

  private func stores(_ stores: TopReport.Stores) -> String {
    let writes = stores.takesWrites.map { $0 ? "takes writes" : "REFUSES WRITES" } ?? "-"
    let redis =
      stores.coordinationAnswers.map { answers in
        "redis " + (answers ? "answers" : "AWAY, \(rate(stores.localDecisionsPerSecond))/s limits judged alone")
      } ?? "limits in memory"
    return "STORES    store \(writes)  \(redis)  directory \(count(stores.directoryEntries)), "
      + "\(age(stores.directoryLagSeconds)) behind"
  }

  private func processes(_ processes: [TopReport.Process]) -> [String] {
    var lines = columns(
      [["PROCESS", "STATE", "UP", "CPU %", "MEMORY", "FILES", "SOCKETS"]]
        + processes.map { process in
          guard process.fault == nil else { return [Self.short(process.url), "DOWN", "-", "-", "-", "-", "-"] }
          return [
            Self.short(process.url), process.isReady ? "ready" : "NOT READY", age(process.upSeconds),
            rate(process.cpuPercent), bytes(process.residentBytes), count(process.openFiles),
            count(process.connections),
          ]
        }, first: 23, others: 9)
    for process in processes {
      if let fault = process.fault { lines.append("  \(Self.short(process.url)): \(fault)") }
      for (check, reason) in process.reasons.sorted(by: { $0.key < $1.key }) { lines.append("  \(check): \(reason)") }
    }
    return lines
  }

  private func peers(_ peers: [TopReport.PeerTraffic]) -> [String] {
    columns(
      [["PEER", "STATE", "OUT /S", "FAILED", "IN /S", "REFUSED", "WAITING", "OLDEST"]]
        + peers.map { peer in
          [
            peer.name, peer.answers ? "answers" : "ALONE", rate(peer.sentPerSecond), rate(peer.failedPerSecond),
            rate(peer.receivedPerSecond), rate(peer.refusedPerSecond), count(peer.waiting),
            peer.waiting > 0 ? age(peer.oldestSeconds) : "-",
          ]
        }, first: 17, others: 9)
  }

  private func push(_ lanes: [TopReport.Lane]) -> [String] {
    columns(
      [["PUSH", "PROVIDER", "SENT /S", "FAILED", "WAITING", "OLDEST", "HALTED"]]
        + lanes.map { lane in
          [
            lane.name, lane.provider, rate(lane.sentPerSecond), rate(lane.failedPerSecond), count(lane.waiting),
            lane.oldestSeconds.map { lane.waiting > 0 ? age($0) : "-" } ?? "-", count(lane.halted),
          ]
        }, first: 20, others: 10)
  }

  private func senders(_ senders: [TopReport.Sender]?) -> [String] {
    guard let senders else { return ["SENDERS   give the relay operator.read-tokens to see which accounts send most"] }
    if senders.isEmpty { return ["SENDERS   none in the last minute"] }
    return columns(
      [["SENDERS", "MESSAGES A MINUTE"]] + senders.map { [$0.handle, rate($0.perMinute)] }, first: 38, others: 20)
  }

  // MARK: Cells

  /// The first column to the left, the others to the right.
  private func columns(_ rows: [[String]], first: Int, others: Int) -> [String] {
    rows.map { row in
      row.enumerated().map { index, cell in
        let room = index == 0 ? first : others
        let text = Self.cut(cell, to: room - 1)
        let space = String(repeating: " ", count: max(0, room - text.count))
        return index == 0 ? text + space : space + text
      }.joined()
    }
  }

  private static func short(_ url: String) -> String { String(url.trimmingPrefix("http://")) }

  private static func cut(_ text: String, to width: Int) -> String {
    text.count <= width ? text : String(text.prefix(max(0, width - 1))) + "…"
  }

  private func millis(_ value: Double?) -> String { value.map { $0 < 10 ? figure($0, 1) : figure($0, 0) } ?? "-" }
  private func rate(_ value: Double) -> String { value == 0 ? "0" : value < 10 ? figure(value, 1) : count(value) }
  private func count(_ value: Double) -> String {
    switch value {
    case ..<100_000: figure(value, 0)
    case ..<10_000_000: figure(value / 1000, 0) + "k"
    default: figure(value / 1_000_000, 0) + "M"
    }
  }
  private func bytes(_ value: Double) -> String {
    value < 10 * Double(1 << 30) ? figure(value / Double(1 << 20), 0) + "M" : figure(value / Double(1 << 30), 1) + "G"
  }
  private func age(_ seconds: Double) -> String {
    switch seconds {
    case ..<120: figure(seconds, 0) + "s"
    case ..<7200: figure(seconds / 60, 0) + "m"
    case ..<172_800: figure(seconds / 3600, 0) + "h"
    default: figure(seconds / 86_400, 0) + "d"
    }
  }

  private func figure(_ value: Double, _ places: Int) -> String {
    guard value.isFinite else { return "-" }
    guard places > 0 else { return String(Int(min(value.rounded(), 1e15))) }
    let tenths = Int((value * 10).rounded())
    return "\(tenths / 10).\(tenths % 10)"
  }
}
