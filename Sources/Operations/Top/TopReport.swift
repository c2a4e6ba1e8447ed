import RelayCore
import RelayMetrics

/// The figures that `relay top` shows: all processes that were asked, together.
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
    /// The roles that it has, ascending.
    package let roles: [String]
    /// The roles that it leaves to others, ascending.
    package let rolesElsewhere: [String]
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

/// The answer of one process.
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
    requests = sums.words(of: "edge", in: RelayMetric.requests.answered).map { Edge($0, sums) }
    delivery = Delivery(sums)
    stores = Stores(sums)
    peers = sums.words(of: "peer", in: RelayMetric.peers.available).map { PeerTraffic($0, sums) }
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

  func perSecond(_ metric: any Metric, _ isMeant: ([String: String]) -> Bool = { _ in true }) -> Double {
    changes.map { $0.perSecond(metric, isMeant) }.reduce(0, +)
  }
  func sum(_ metric: any Metric, _ isMeant: ([String: String]) -> Bool = { _ in true }) -> Double {
    changes.compactMap { $0.after.sum(metric, isMeant) }.reduce(0, +)
  }
  /// For a figure that every process shows alike, such as a queue in the store.
  func max(_ metric: any Metric, _ isMeant: ([String: String]) -> Bool = { _ in true }) -> Double? {
    changes.compactMap { $0.after.max(metric, isMeant) }.max()
  }
  func min(_ metric: any Metric, _ isMeant: ([String: String]) -> Bool = { _ in true }) -> Double? {
    changes.compactMap { change in
      change.after.samples(of: metric.name).filter { isMeant($0.labels) }.map(\.value).min()
    }.min()
  }
  func words(of label: String, in metric: any Metric) -> [String] {
    Set(changes.flatMap { $0.after.words(of: label, in: metric) }).sorted()
  }
  func quantile(_ share: Double, _ metric: any Metric, _ isMeant: ([String: String]) -> Bool) -> Double? {
    var counts: [Double: Double] = [:]
    for change in changes {
      for rise in change.rises(of: metric, isMeant) { counts[rise.bound, default: 0] += rise.count }
    }
    return Operations.quantile(share, of: counts.sorted { $0.key < $1.key }.map { ($0.key, $0.value) })
  }
}

extension TopReport.Process {
  fileprivate init(down url: String, _ fault: String) {
    self.init(
      url: url, fault: fault, isReady: false, reasons: [:], upSeconds: 0, cpuPercent: 0, residentBytes: 0,
      openFiles: 0, connections: 0, roles: [], rolesElsewhere: [])
  }

  fileprivate init(_ look: ProcessLook, _ change: MetricsChange) {
    let now = look.page.sum(RelayMetric.process.started).map { look.wallSeconds - $0 } ?? 0
    self.init(
      url: look.url, fault: nil, isReady: look.isReady, reasons: look.reasons, upSeconds: max(0, now),
      cpuPercent: change.perSecond(RelayMetric.process.cpu) * 100,
      residentBytes: look.page.sum(RelayMetric.process.memory) ?? 0,
      openFiles: look.page.sum(RelayMetric.process.files) ?? 0,
      connections: look.page.sum(RelayMetric.live.connections) ?? 0, roles: Self.roles(look, 1),
      rolesElsewhere: Self.roles(look, 0))
  }

  private static func roles(_ look: ProcessLook, _ value: Double) -> [String] {
    let held = RelayMetric.roles.held
    return look.page.words(of: "role", in: held).filter { role in
      look.page.max(held) { $0["role"] == role } == value
    }
  }
}

extension TopReport.Edge {
  fileprivate init(_ edge: String, _ sums: MetricsSums) {
    let answered = RelayMetric.requests.answered
    let isMeant: ([String: String]) -> Bool = { $0["edge"] == edge }
    self.init(
      edge: edge, perSecond: sums.perSecond(answered, isMeant),
      p50Millis: sums.quantile(0.5, RelayMetric.requests.duration, isMeant).map { $0 * 1000 },
      p99Millis: sums.quantile(0.99, RelayMetric.requests.duration, isMeant).map { $0 * 1000 },
      refusedPerSecond: sums.perSecond(answered) { isMeant($0) && $0["status"]?.first == "4" },
      failedPerSecond: sums.perSecond(answered) { isMeant($0) && $0["status"]?.first == "5" })
  }
}

extension TopReport.Delivery {
  fileprivate init(_ sums: MetricsSums) {
    self.init(
      deliveriesPerSecond: sums.perSecond(RelayMetric.live.deliveries),
      acknowledgementsPerSecond: sums.perSecond(RelayMetric.live.acknowledgements),
      wakeUpsPerSecond: sums.perSecond(RelayMetric.live.wakeUps), connections: sums.sum(RelayMetric.live.connections),
      receiptsDroppedPerSecond: sums.perSecond(RelayMetric.receipts.dropped))
  }
}

extension TopReport.Stores {
  fileprivate init(_ sums: MetricsSums) {
    self.init(
      takesWrites: sums.min(RelayMetric.store.writable).map { $0 > 0 },
      coordinationAnswers: sums.min(RelayMetric.coordination.available).map { $0 > 0 },
      localDecisionsPerSecond: sums.perSecond(RelayMetric.coordination.localDecisions),
      directoryEntries: sums.max(RelayMetric.directory.entries) ?? 0,
      directoryLagSeconds: sums.max(RelayMetric.directory.lag) ?? 0)
  }
}

extension TopReport.PeerTraffic {
  fileprivate init(_ peer: String, _ sums: MetricsSums) {
    let isMeant: ([String: String]) -> Bool = { $0["peer"] == peer }
    self.init(
      name: peer, answers: (sums.min(RelayMetric.peers.available, isMeant) ?? 0) > 0,
      sentPerSecond: sums.perSecond(RelayMetric.peers.requests, isMeant),
      failedPerSecond: sums.perSecond(RelayMetric.peers.requests) { isMeant($0) && $0["outcome"] != "answered" },
      receivedPerSecond: sums.perSecond(RelayMetric.peerEdge.charges) {
        isMeant($0) && $0["budget"] == "peer-recipients"
      },
      refusedPerSecond: sums.perSecond(RelayMetric.peerEdge.refusals, isMeant),
      // Each process reads the whole queue from the store.
      waiting: sums.max(RelayMetric.outbox.messages, isMeant) ?? 0,
      waitingBytes: sums.max(RelayMetric.outbox.bytes, isMeant) ?? 0,
      oldestSeconds: sums.max(RelayMetric.outbox.oldest, isMeant) ?? 0)
  }
}

extension TopReport.Lane {
  fileprivate static func all(_ sums: MetricsSums) -> [Self] { wakes(sums) + notifications(sums) + apps(sums) }

  /// Outcomes of attempts that were made in vain.
  private static let failedWakes = Set(
    [WakeAttempt.Outcome.dead, .superseded, .refused, .putOff].map(\.rawValue))

  private static func wakes(_ sums: MetricsSums) -> [Self] {
    sums.words(of: "provider", in: RelayMetric.wakes.waiting).map { provider in
      let isMeant: ([String: String]) -> Bool = { $0["provider"] == provider }
      return Self(
        name: "wakes", provider: provider, sentPerSecond: sums.perSecond(RelayMetric.wakes.sent, isMeant),
        failedPerSecond: sums.perSecond(RelayMetric.wakes.attempts) {
          isMeant($0) && $0["outcome"].map(failedWakes.contains) == true
        },
        waiting: sums.max(RelayMetric.wakes.waiting, isMeant) ?? 0,
        oldestSeconds: sums.max(RelayMetric.wakes.oldest, isMeant), halted: 0)
    }
  }

  private static func notifications(_ sums: MetricsSums) -> [Self] {
    sums.words(of: "service", in: RelayMetric.notifications.waiting).map { service in
      let isMeant: ([String: String]) -> Bool = { $0["service"] == service }
      let pushes = RelayMetric.notifications.pushes
      return Self(
        name: "notifications", provider: service,
        sentPerSecond: sums.perSecond(pushes) { isMeant($0) && $0["outcome"] == "delivered" },
        failedPerSecond: sums.perSecond(pushes) { isMeant($0) && $0["outcome"] != "delivered" },
        waiting: sums.max(RelayMetric.notifications.waiting, isMeant) ?? 0,
        oldestSeconds: sums.max(RelayMetric.notifications.oldest, isMeant), halted: 0)
    }
  }

  private static func apps(_ sums: MetricsSums) -> [Self] {
    sums.words(of: "provider", in: RelayMetric.push.held).flatMap { provider in
      sums.words(of: "app", in: RelayMetric.push.held).compactMap { app -> Self? in
        let isMeant: ([String: String]) -> Bool = { $0["provider"] == provider && $0["app"] == app }
        guard sums.max(RelayMetric.push.held, isMeant) != nil else { return nil }
        return Self(
          name: app, provider: provider,
          sentPerSecond: sums.perSecond(RelayMetric.push.ended) { isMeant($0) && $0["outcome"] == "delivered" },
          failedPerSecond: sums.perSecond(RelayMetric.push.ended) { isMeant($0) && $0["outcome"] != "delivered" },
          waiting: sums.sum(RelayMetric.push.held, isMeant), oldestSeconds: nil,
          halted: sums.sum(RelayMetric.push.halted, isMeant))
      }
    }
  }
}
