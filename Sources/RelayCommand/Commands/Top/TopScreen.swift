import Operations

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
        edge.edge, Figure.rate(edge.perSecond), Figure.millis(edge.p50Millis), Figure.millis(edge.p99Millis),
        Figure.rate(edge.refusedPerSecond),
        Figure.rate(edge.failedPerSecond),
      ]
    }
    return columns([["REQUESTS", "/S", "P50 MS", "P99 MS", "4XX /S", "5XX /S"]] + rows, first: 14, others: 9)
  }

  private func delivery(_ delivery: TopReport.Delivery) -> String {
    "DELIVERY  \(Figure.rate(delivery.deliveriesPerSecond))/s delivered  "
      + "\(Figure.rate(delivery.acknowledgementsPerSecond))/s acknowledged  \(Figure.count(delivery.connections)) connections"
      + (delivery.receiptsDroppedPerSecond > 0
        ? "  \(Figure.rate(delivery.receiptsDroppedPerSecond))/s RECEIPTS LOST" : "")
  }

  private func stores(_ stores: TopReport.Stores) -> String {
    let writes = stores.takesWrites.map { $0 ? "takes writes" : "REFUSES WRITES" } ?? "-"
    let redis =
      stores.coordinationAnswers.map { answers in
        "redis " + (answers ? "answers" : "AWAY, \(Figure.rate(stores.localDecisionsPerSecond))/s limits judged alone")
      } ?? "limits in memory"
    return "STORES    store \(writes)  \(redis)  directory \(Figure.count(stores.directoryEntries)), "
      + "\(Figure.age(stores.directoryLagSeconds)) behind"
  }

  private func processes(_ processes: [TopReport.Process]) -> [String] {
    var lines = columns(
      [["PROCESS", "STATE", "UP", "CPU %", "MEMORY", "FILES", "SOCKETS"]]
        + processes.map { process in
          guard process.fault == nil else { return [Self.short(process.url), "DOWN", "-", "-", "-", "-", "-"] }
          return [
            Self.short(process.url), process.isReady ? "ready" : "NOT READY", Figure.age(process.upSeconds),
            Figure.rate(process.cpuPercent), Figure.bytes(process.residentBytes), Figure.count(process.openFiles),
            Figure.count(process.connections),
          ]
        }, first: 23, others: 9)
    for process in processes {
      if let fault = process.fault { lines.append("  \(Self.short(process.url)): \(fault)") }
      if !process.rolesElsewhere.isEmpty {
        lines.append("  \(Self.short(process.url)): \(process.roles.joined(separator: ", ")) only")
      }
      for (check, reason) in process.reasons.sorted(by: { $0.key < $1.key }) { lines.append("  \(check): \(reason)") }
    }
    return lines
  }

  private func peers(_ peers: [TopReport.PeerTraffic]) -> [String] {
    columns(
      [["PEER", "STATE", "OUT /S", "FAILED", "IN /S", "REFUSED", "WAITING", "OLDEST"]]
        + peers.map { peer in
          [
            peer.name, peer.answers ? "answers" : "ALONE", Figure.rate(peer.sentPerSecond),
            Figure.rate(peer.failedPerSecond),
            Figure.rate(peer.receivedPerSecond), Figure.rate(peer.refusedPerSecond), Figure.count(peer.waiting),
            peer.waiting > 0 ? Figure.age(peer.oldestSeconds) : "-",
          ]
        }, first: 17, others: 9)
  }

  private func push(_ lanes: [TopReport.Lane]) -> [String] {
    columns(
      [["PUSH", "PROVIDER", "SENT /S", "FAILED", "WAITING", "OLDEST", "HALTED"]]
        + lanes.map { lane in
          [
            lane.name, lane.provider, Figure.rate(lane.sentPerSecond), Figure.rate(lane.failedPerSecond),
            Figure.count(lane.waiting),
            lane.oldestSeconds.map { lane.waiting > 0 ? Figure.age($0) : "-" } ?? "-", Figure.count(lane.halted),
          ]
        }, first: 20, others: 10)
  }

  private func senders(_ senders: [TopReport.Sender]?) -> [String] {
    guard let senders else { return ["SENDERS   give the relay operator.read-tokens to see which accounts send most"] }
    if senders.isEmpty { return ["SENDERS   none in the last minute"] }
    return columns(
      [["SENDERS", "MESSAGES A MINUTE"]] + senders.map { [$0.handle, Figure.rate($0.perMinute)] }, first: 38, others: 20
    )
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
}
