import Foundation
import RelayCore

/// Turns the features' answers into the values, by name, that the templates show.
///
/// A mark is the class of a value: `ok`, `warn`, `fail`, or empty.
struct ConsolePages {
  typealias Values = [String: any Sendable]

  let now: Timestamp

  // MARK: Overview

  func overview(_ report: TopReport, reasons: [String: String]) -> Values {
    let process = report.processes.first
    let writes = report.stores.takesWrites
    let redis = report.stores.coordinationAnswers
    var figures = [
      figure("State", reasons.isEmpty ? "ready" : "not ready", reasons.isEmpty ? "ok" : "fail"),
      figure("Up for", Figure.age(process?.upSeconds ?? 0)),
      figure("CPU", Figure.rate(process?.cpuPercent ?? 0) + " % of a core"),
      figure("Memory", Figure.bytes(process?.residentBytes ?? 0)),
      figure("Open files", Figure.count(process?.openFiles ?? 0)),
      figure("Connections", Figure.count(report.delivery.connections)),
      figure("Delivered a second", Figure.rate(report.delivery.deliveriesPerSecond)),
      figure("Acknowledged a second", Figure.rate(report.delivery.acknowledgementsPerSecond)),
      figure(
        "Store", writes.map { $0 ? "takes writes" : "refuses writes" } ?? "-", writes.map { $0 ? "ok" : "fail" } ?? ""),
      figure(
        "Redis", redis.map { $0 ? "answers" : "away: limits are judged alone" } ?? "limits in memory",
        redis.map { $0 ? "ok" : "warn" } ?? ""),
      figure("Directory", Figure.count(report.stores.directoryEntries) + " contacts"),
    ]
    if let process, !process.rolesElsewhere.isEmpty {
      figures.insert(figure("Roles", process.roles.joined(separator: ", ") + " only"), at: 1)
    }
    if report.delivery.receiptsDroppedPerSecond > 0 {
      figures.append(figure("Receipts lost a second", Figure.rate(report.delivery.receiptsDroppedPerSecond), "fail"))
    }
    return [
      "reasons": reasons.sorted { $0.key < $1.key }.map { ["check": $0.key, "reason": $0.value] as Values },
      "figures": figures,
      "requests": report.requests.map { edge in
        [
          "edge": edge.edge, "rate": Figure.rate(edge.perSecond), "p50": Figure.millis(edge.p50Millis),
          "p99": Figure.millis(edge.p99Millis), "refused": Figure.rate(edge.refusedPerSecond),
          "failed": Figure.rate(edge.failedPerSecond), "failedMark": edge.failedPerSecond > 0 ? "fail" : "",
        ] as Values
      },
      "senders": (report.senders ?? []).map {
        ["handle": $0.handle, "rate": Figure.rate($0.perMinute)] as Values
      },
    ]
  }

  private func figure(_ name: String, _ value: String, _ mark: String = "") -> Values {
    ["name": name, "value": value, "mark": mark]
  }

  // MARK: Peers

  func peers(_ peers: [PeerDescription], _ identity: ConsoleIdentity?, _ report: TopReport, relay: String) -> Values {
    var values: Values = [
      "peers": peers.map { peer in
        row(peer).merging(traffic(report.peers.first { $0.name == peer.name.text })) { $1 }
      }
    ]
    if let identity {
      values["identity"] =
        ["words": identity.words].merging(
          ends(identity.leafExpires, identity.authorityExpires)
        ) { $1 } as Values
    }
    if !peers.isEmpty {
      values["picture"] = ["svg": PeeringPicture(relay: relay, peers: peers).svg] as Values
    }
    return values
  }

  private func traffic(_ traffic: TopReport.PeerTraffic?) -> Values {
    [
      "sent": Figure.rate(traffic?.sentPerSecond ?? 0), "received": Figure.rate(traffic?.receivedPerSecond ?? 0),
      "waiting": Figure.count(traffic?.waiting ?? 0),
    ]
  }

  func row(_ described: PeerDescription) -> Values {
    let (peer, look) = (described.peer, PeerLook(described.peer))
    var state = look.rawValue
    if let explanation = PeerLook.explanation(of: peer) { state += ": \(explanation)" }
    let mark =
      switch look {
      case .reachable: "ok"
      case .away: "fail"
      case .suspended: "warn"
      }
    let scopes = described.scopes.map(\.rawValue)
    let values: Values = [
      "name": peer.name.text, "url": described.url, "state": state, "mark": mark, "isSuspended": look == .suspended,
      "scopes": scopes.isEmpty ? "nothing" : scopes.joined(separator: ", "),
      "contacts": peer.policy.contacts.rawValue, "holds": peer.policy.holdsMessages ? "on" : "off",
      "implicit": peer.policy.routesImplicitly ? "on" : "off",
      "ourWords": described.ourWords, "theirWords": described.theirWords,
    ]
    return values.merging(ends(described.leafExpires, described.authorityExpires)) { $1 }
  }

  func budgets(_ budgets: [ConsoleBudget]) -> [Values] {
    budgets.map { budget in
      [
        "name": budget.name, "left": "\(budget.left)", "size": "\(budget.size)", "perMinute": "\(budget.perMinute)",
        "share": "\(min(100, max(0, budget.left * 100 / max(1, budget.size))))",
      ]
    }
  }

  /// Days that are left. A leaf lives for weeks and is renewed by itself, a CA for years and is not.
  private func ends(_ leaf: Timestamp?, _ authority: Timestamp) -> Values {
    var values: Values = ["leaf": "-", "leafMark": ""]
    if let leaf { (values["leaf"], values["leafMark"]) = (left(until: leaf), mark(of: leaf, soonDays: 3)) }
    (values["authority"], values["authorityMark"]) = (left(until: authority), mark(of: authority, soonDays: 60))
    return values
  }

  private func left(until end: Timestamp) -> String {
    guard end > now else { return "ended on \(end.date)" }
    let days = days(until: end)
    return days == 1 ? "1 day left" : "\(days) days left"
  }

  private func mark(of end: Timestamp, soonDays: Int64) -> String {
    guard end > now else { return "fail" }
    return days(until: end) < soonDays ? "warn" : "ok"
  }

  private func days(until end: Timestamp) -> Int64 { (end.millis - now.millis) / 86_400_000 }

  func steps(_ steps: [ConsoleStep]) -> Values {
    let failed = steps.count { $0.outcome == "fail" }
    return [
      "verdict": failed == 0 ? "The way is whole." : "\(failed) of \(steps.count) steps failed.",
      "mark": failed == 0 ? "ok" : "fail",
      "steps": steps.map { step in
        var values: Values = [
          "outcome": step.outcome, "step": step.step, "text": step.text, "milliseconds": "\(step.milliseconds)",
        ]
        values["remedy"] = step.remedy
        return values
      },
    ]
  }

  // MARK: Queues

  func queues(_ outbox: [OutboxUsage], _ report: TopReport) -> Values {
    [
      "outbox": outbox.map { usage in
        [
          "name": usage.relay.text, "messages": "\(usage.messages)", "bytes": Figure.bytes(Double(usage.bytes)),
          "oldest": Figure.age(Double(max(0, now.millis - usage.oldest.millis)) / 1000),
          "next": usage.nextAttempt <= now ? "now" : usage.nextAttempt.iso8601,
        ] as Values
      },
      "lanes": report.push.map { lane in
        [
          "name": lane.name, "provider": lane.provider, "sent": Figure.rate(lane.sentPerSecond),
          "failed": Figure.rate(lane.failedPerSecond), "failedMark": lane.failedPerSecond > 0 ? "fail" : "",
          "waiting": Figure.count(lane.waiting),
          "oldest": lane.oldestSeconds.map { lane.waiting > 0 ? Figure.age($0) : "-" } ?? "-",
          "halted": Figure.count(lane.halted),
        ] as Values
      },
    ]
  }

  func attempts(_ attempts: [ConsoleAttempt]) -> [Values] {
    attempts.map { attempt in
      [
        "asked": attempt.asked.iso8601, "provider": attempt.provider ?? "-", "sent": attempt.sent ?? "-",
        "answer": attempt.answer, "milliseconds": attempt.milliseconds.map { "\($0)" } ?? "-",
        "outcome": attempt.outcome, "fault": attempt.fault ?? "",
      ]
    }
  }

  // MARK: Doctor and audit log

  func findings(_ findings: [ConsoleFinding]) -> Values {
    func count(_ outcome: String) -> Int { findings.count { $0.outcome == outcome } }
    let (failed, warned) = (count("fail"), count("warn"))
    return [
      "verdict": "\(count("ok")) ok, \(warned) warnings, \(failed) failed, \(count("skip")) skipped.",
      "mark": failed > 0 ? "fail" : warned > 0 ? "warn" : "ok",
      // Failures and warnings stand first.
      "findings": ["fail", "warn", "ok", "skip"].flatMap { outcome in
        findings.filter { $0.outcome == outcome }.map { finding in
          var values: Values = [
            "outcome": outcome, "group": finding.group, "check": finding.check, "text": finding.text,
          ]
          values["remedy"] = finding.remedy
          return values
        }
      },
    ]
  }

  func audit(_ entries: [AuditEntry], isWholePage: Bool) -> Values {
    var values: Values = [
      "entries": entries.map { entry in
        let row = AuditRow(entry)
        return [
          "time": row.time, "who": row.who, "action": row.action, "subject": row.subject ?? "-",
          "result": [row.result, row.reason].compactMap(\.self).joined(separator: ": "),
          "mark": row.result == "done" ? "ok" : row.result == "failed" ? "fail" : "warn",
        ] as Values
      }
    ]
    if isWholePage, let last = entries.last { values["older"] = "\(last.id)" }
    return values
  }
}
