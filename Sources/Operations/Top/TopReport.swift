/// What `relay top` shows: all processes that were asked, together.
package struct TopReport: Encodable, Sendable {
  package struct Process: Encodable, Sendable {
    package let url: String
    /// Why nothing is known of it; nil where it answers.
    package let fault: String?
    package let isReady: Bool
    /// The reasons why it is not ready, by the check.
    package let reasons: [String: String]
    package let upSeconds: Double
    /// 100 is one core.
    package let cpuPercent: Double
    package let residentBytes: Double
    package let openFiles: Double
    /// WebSockets.
    package let connections: Double
  }
  package struct Edge: Encodable, Sendable {
    /// The listener: `client`, `federation`, ...
    package let edge: String
    package let perSecond: Double
    package let p50Millis: Double?
    package let p99Millis: Double?
    /// Answers of 400 to 499, and of 500 and above.
    package let refusedPerSecond: Double
    package let failedPerSecond: Double
  }
  package struct Delivery: Encodable, Sendable {
    package let deliveriesPerSecond: Double
    package let acknowledgementsPerSecond: Double
    package let wakeUpsPerSecond: Double
    package let connections: Double
    package let receiptsDroppedPerSecond: Double
  }
  package struct Stores: Encodable, Sendable {
    /// nil where nobody knows.
    package let takesWrites: Bool?
    /// Redis; nil where nothing is shared.
    package let coordinationAnswers: Bool?
    package let localDecisionsPerSecond: Double
    package let directoryEntries: Double
    package let directoryLagSeconds: Double
  }
  package struct PeerTraffic: Encodable, Sendable {
    package let name: String
    /// Whether its breaker is closed at every process.
    package let answers: Bool
    /// Requests of ours to it, and those of them that failed.
    package let sentPerSecond: Double
    package let failedPerSecond: Double
    /// Messages and receipts of it for devices here, and requests that were refused.
    package let receivedPerSecond: Double
    package let refusedPerSecond: Double
    package let waiting: Double
    package let waitingBytes: Double
    package let oldestSeconds: Double
  }
  /// A queue of pushes.
  package struct Lane: Encodable, Sendable {
    /// `wakes`, `notifications`, or the app's name.
    package let name: String
    package let provider: String
    package let sentPerSecond: Double
    package let failedPerSecond: Double
    package let waiting: Double
    package let oldestSeconds: Double?
    /// Destinations that are left alone.
    package let halted: Double
  }
  package struct Sender: Encodable, Sendable {
    package let handle: String
    package let perMinute: Double
  }

  package let name: String
  /// Between the two looks that rates are made of.
  package let seconds: Double
  package let processes: [Process]
  package let requests: [Edge]
  package let delivery: Delivery
  package let stores: Stores
  package let peers: [PeerTraffic]
  package let push: [Lane]
  /// nil where no token was given to ask for them.
  package let senders: [Sender]?
}

/// What one process said.
package struct ProcessLook: Sendable {
  let url: String
  let page: MetricsPage
  let time: ContinuousClock.Instant
  /// Seconds since 1970 at that moment.
  let wallSeconds: Double
  let reasons: [String: String]
  let isReady: Bool
  let senders: RankedSendersRow?

  /// - Parameters:
  ///   - reasons: why it is not ready, by the check.
  ///   - senders: nil where nobody may ask for them.
  package init(
    url: String, page: MetricsPage, time: ContinuousClock.Instant, wallSeconds: Double, isReady: Bool,
    reasons: [String: String], senders: RankedSendersRow?
  ) {
    self.url = url
    self.page = page
    self.time = time
    self.wallSeconds = wallSeconds
    self.isReady = isReady
    self.reasons = reasons
    self.senders = senders
  }
}

extension TopReport {
  /// - Parameters:
  ///   - looks: of each process the former look and the present one; nil for one that did not answer, with the fault.
  package init(_ name: String, _ looks: [(url: String, before: ProcessLook?, after: ProcessLook?, fault: String?)]) {
    self.name = name
    var changes: [MetricsChange] = []
    var processes: [Process] = []
    for look in looks {
      guard let after = look.after else {
        processes.append(Process(down: look.url, look.fault ?? "no answer"))
        continue
      }
      let before = look.before ?? after
      let change = MetricsChange(
        before: before.page, after: after.page, seconds: (after.time - before.time) / .seconds(1))
      changes.append(change)
      processes.append(Process(after, change))
    }
    self.processes = processes
    seconds = changes.map(\.seconds).max() ?? 0
    let sums = MetricsSums(changes)
    requests = sums.words(of: "edge", in: "relay_http_requests_total").map { Edge($0, sums) }
    delivery = Delivery(sums)
    stores = Stores(sums)
    peers = sums.words(of: "peer", in: "relay_peer_available").map { PeerTraffic($0, sums) }
    push = Lane.all(sums)
    senders = Self.ranked(looks.compactMap { $0.after?.senders })
  }

  private static func ranked(_ rankings: [RankedSendersRow]) -> [Sender]? {
    guard !rankings.isEmpty else { return nil }
    var rates: [String: Double] = [:]
    for ranking in rankings {
      for sender in ranking.senders {
        rates[sender.handle, default: 0] += Double(sender.messages) * 60 / max(ranking.seconds, 1)
      }
    }
    return rates.sorted { ($0.value, $1.key) > ($1.value, $0.key) }.prefix(5).map {
      Sender(handle: $0.key, perMinute: $0.value)
    }
  }
}

/// The same figure of several processes.
struct MetricsSums {
  private let changes: [MetricsChange]

  init(_ changes: [MetricsChange]) { self.changes = changes }

  func perSecond(_ name: String, _ isMeant: ([String: String]) -> Bool = { _ in true }) -> Double {
    changes.map { $0.perSecond(name, isMeant) }.reduce(0, +)
  }
  func sum(_ name: String, _ isMeant: ([String: String]) -> Bool = { _ in true }) -> Double {
    changes.compactMap { $0.after.sum(name, isMeant) }.reduce(0, +)
  }
  /// Of what every process shows of the same thing: a queue in the store, say.
  func max(_ name: String, _ isMeant: ([String: String]) -> Bool = { _ in true }) -> Double? {
    changes.compactMap { $0.after.max(name, isMeant) }.max()
  }
  func min(_ name: String, _ isMeant: ([String: String]) -> Bool = { _ in true }) -> Double? {
    changes.compactMap { change in
      change.after.samples(of: name).filter { isMeant($0.labels) }.map(\.value).min()
    }.min()
  }
  func words(of label: String, in name: String) -> [String] {
    Set(changes.flatMap { $0.after.words(of: label, in: name) }).sorted()
  }
  func quantile(_ share: Double, _ name: String, _ isMeant: ([String: String]) -> Bool) -> Double? {
    var counts: [Double: Double] = [:]
    for change in changes {
      for rise in change.rises(of: name, isMeant) { counts[rise.bound, default: 0] += rise.count }
    }
    return Operations.quantile(share, of: counts.sorted { $0.key < $1.key }.map { ($0.key, $0.value) })
  }
}

extension TopReport.Process {
  fileprivate init(down url: String, _ fault: String) {
    self.init(
      url: url, fault: fault, isReady: false, reasons: [:], upSeconds: 0, cpuPercent: 0, residentBytes: 0,
      openFiles: 0, connections: 0)
  }

  fileprivate init(_ look: ProcessLook, _ change: MetricsChange) {
    let now = look.page.sum("process_start_time_seconds").map { look.wallSeconds - $0 } ?? 0
    self.init(
      url: look.url, fault: nil, isReady: look.isReady, reasons: look.reasons, upSeconds: max(0, now),
      cpuPercent: change.perSecond("process_cpu_seconds_total") * 100,
      residentBytes: look.page.sum("process_resident_memory_bytes") ?? 0,
      openFiles: look.page.sum("process_open_fds") ?? 0, connections: look.page.sum("relay_connections") ?? 0)
  }
}

extension TopReport.Edge {
  fileprivate init(_ edge: String, _ sums: MetricsSums) {
    let name = "relay_http_requests_total"
    let isMeant: ([String: String]) -> Bool = { $0["edge"] == edge }
    self.init(
      edge: edge, perSecond: sums.perSecond(name, isMeant),
      p50Millis: sums.quantile(0.5, "relay_http_request_duration_seconds", isMeant).map { $0 * 1000 },
      p99Millis: sums.quantile(0.99, "relay_http_request_duration_seconds", isMeant).map { $0 * 1000 },
      refusedPerSecond: sums.perSecond(name) { isMeant($0) && $0["status"]?.first == "4" },
      failedPerSecond: sums.perSecond(name) { isMeant($0) && $0["status"]?.first == "5" })
  }
}

extension TopReport.Delivery {
  fileprivate init(_ sums: MetricsSums) {
    self.init(
      deliveriesPerSecond: sums.perSecond("relay_deliveries_total"),
      acknowledgementsPerSecond: sums.perSecond("relay_acknowledgements_total"),
      wakeUpsPerSecond: sums.perSecond("relay_wakeups_total"), connections: sums.sum("relay_connections"),
      receiptsDroppedPerSecond: sums.perSecond("relay_receipts_dropped_total"))
  }
}

extension TopReport.Stores {
  fileprivate init(_ sums: MetricsSums) {
    self.init(
      takesWrites: sums.min("relay_storage_writable").map { $0 > 0 },
      coordinationAnswers: sums.min("relay_coordination_available").map { $0 > 0 },
      localDecisionsPerSecond: sums.perSecond("relay_coordination_local_decisions_total"),
      directoryEntries: sums.max("relay_directory_entries") ?? 0,
      directoryLagSeconds: sums.max("relay_directory_lag_seconds") ?? 0)
  }
}

extension TopReport.PeerTraffic {
  fileprivate init(_ peer: String, _ sums: MetricsSums) {
    let isMeant: ([String: String]) -> Bool = { $0["peer"] == peer }
    self.init(
      name: peer, answers: (sums.min("relay_peer_available", isMeant) ?? 0) > 0,
      sentPerSecond: sums.perSecond("relay_peer_requests_total", isMeant),
      failedPerSecond: sums.perSecond("relay_peer_requests_total") { isMeant($0) && $0["outcome"] != "answered" },
      receivedPerSecond: sums.perSecond("relay_peer_charges_total") {
        isMeant($0) && $0["budget"] == "peer-recipients"
      },
      refusedPerSecond: sums.perSecond("relay_peer_refusals_total", isMeant),
      // Each process reads the whole queue from the store.
      waiting: sums.max("relay_outbox_messages", isMeant) ?? 0,
      waitingBytes: sums.max("relay_outbox_bytes", isMeant) ?? 0,
      oldestSeconds: sums.max("relay_outbox_oldest_seconds", isMeant) ?? 0)
  }
}

extension TopReport.Lane {
  fileprivate static func all(_ sums: MetricsSums) -> [Self] { wakes(sums) + notifications(sums) + apps(sums) }

  private static func wakes(_ sums: MetricsSums) -> [Self] {
    sums.words(of: "provider", in: "relay_wakes_waiting").map { provider in
      let isMeant: ([String: String]) -> Bool = { $0["provider"] == provider }
      return Self(
        name: "wakes", provider: provider, sentPerSecond: sums.perSecond("relay_wakes_sent_total", isMeant),
        failedPerSecond: sums.perSecond("relay_wakes_total") {
          isMeant($0) && $0["outcome"]?.hasPrefix("fail") == true
        },
        waiting: sums.max("relay_wakes_waiting", isMeant) ?? 0,
        oldestSeconds: sums.max("relay_wakes_oldest_seconds", isMeant), halted: 0)
    }
  }

  private static func notifications(_ sums: MetricsSums) -> [Self] {
    sums.words(of: "service", in: "relay_notification_pushes_waiting").map { service in
      let isMeant: ([String: String]) -> Bool = { $0["service"] == service }
      let name = "relay_notification_pushes_total"
      return Self(
        name: "notifications", provider: service,
        sentPerSecond: sums.perSecond(name) { isMeant($0) && $0["outcome"] == "delivered" },
        failedPerSecond: sums.perSecond(name) { isMeant($0) && $0["outcome"] != "delivered" },
        waiting: sums.max("relay_notification_pushes_waiting", isMeant) ?? 0,
        oldestSeconds: sums.max("relay_notification_pushes_oldest_seconds", isMeant), halted: 0)
    }
  }

  private static func apps(_ sums: MetricsSums) -> [Self] {
    sums.words(of: "provider", in: "relay_push_held").flatMap { provider in
      sums.words(of: "app", in: "relay_push_held").compactMap { app -> Self? in
        let isMeant: ([String: String]) -> Bool = { $0["provider"] == provider && $0["app"] == app }
        guard sums.max("relay_push_held", isMeant) != nil else { return nil }
        return Self(
          name: app, provider: provider,
          sentPerSecond: sums.perSecond("relay_push_total") { isMeant($0) && $0["outcome"] == "delivered" },
          failedPerSecond: sums.perSecond("relay_push_total") { isMeant($0) && $0["outcome"] != "delivered" },
          waiting: sums.sum("relay_push_held", isMeant), oldestSeconds: nil,
          halted: sums.sum("relay_push_halted", isMeant))
      }
    }
  }
}
