import RelayMetrics

/// One panel of the dashboard: what it shows, in Prometheus' language.
struct DashboardPanel {
  enum Unit: String {
    case plain = "short"
    case perSecond = "ops"
    case seconds = "s"
    case bytes
    case share = "percentunit"
    case yesNo = "bool_yes_no"
  }

  let title: String
  let unit: Unit
  /// Expressions, each with the legend of its series (`{{label}}` stands for a label's value).
  let series: [(expression: String, legend: String)]
}

/// The table that the dashboard is generated from.
enum DashboardPanels {
  static let rows: [(title: String, panels: [DashboardPanel])] = [
    ("Requests", requests), ("Delivery", delivery), ("Stores", stores), ("Peers", peers), ("Push", push),
    ("Processes", processes), ("Abuse", abuse),
  ]

  /// - Parameter matchers: of labels, each behind a comma.
  private static func rate(_ metric: any Metric, by labels: String, matchers: String = "") -> String {
    "sum by (\(labels)) (rate(\(metric.name){\(Self.chosen)\(matchers)}[$__rate_interval]))"
  }

  private static func rate(_ metric: any Metric) -> String {
    "sum(rate(\(metric.name){\(Self.chosen)}[$__rate_interval]))"
  }

  private static func latest(_ function: String, _ metric: any Metric, by labels: String) -> String {
    "\(function) by (\(labels)) (\(metric.name){\(Self.chosen)})"
  }

  private static func quantile(_ share: String) -> String {
    let buckets = "\(RelayMetric.requests.duration.name)_bucket{\(chosen)}[$__rate_interval]"
    return "histogram_quantile(\(share), sum by (edge, le) (rate(\(buckets))))"
  }

  /// The processes that the dashboard's variable names.
  private static let chosen = #"instance=~"$instance""#

  private static let requests = [
    DashboardPanel(
      title: "Answers a second", unit: .perSecond,
      series: [(rate(RelayMetric.requests.answered, by: "edge"), "{{edge}}")]),
    DashboardPanel(
      title: "Refusals and failures a second", unit: .perSecond,
      series: [
        (
          rate(RelayMetric.requests.answered, by: "edge, status", matchers: #",status=~"[45]..""#),
          "{{edge}} {{status}}"
        )
      ]),
    DashboardPanel(
      title: "Time to answer", unit: .seconds,
      series: [(quantile("0.5"), "{{edge}} half"), (quantile("0.99"), "{{edge}} 99 of 100")]),
  ]

  private static let delivery = [
    DashboardPanel(
      title: "Deliveries a second", unit: .perSecond,
      series: [
        (rate(RelayMetric.live.deliveries), "delivered"), (rate(RelayMetric.live.acknowledgements), "acknowledged"),
      ]),
    DashboardPanel(
      title: "WebSockets", unit: .plain, series: [(latest("sum", RelayMetric.live.connections, by: "kind"), "{{kind}}")]
    ),
    DashboardPanel(
      title: "Wake-ups a second", unit: .perSecond, series: [(rate(RelayMetric.live.wakeUps, by: "how"), "{{how}}")]),
    DashboardPanel(
      title: "Receipts lost a second", unit: .perSecond,
      series: [(rate(RelayMetric.receipts.dropped, by: "reason"), "{{reason}}")]),
  ]

  private static let stores = [
    DashboardPanel(
      title: "The store takes writes", unit: .yesNo,
      series: [(latest("min", RelayMetric.store.writable, by: "instance"), "{{instance}}")]),
    DashboardPanel(
      title: "Redis answers", unit: .yesNo,
      series: [(latest("min", RelayMetric.coordination.available, by: "instance"), "{{instance}}")]),
    DashboardPanel(
      title: "Contacts in memory are behind by", unit: .seconds,
      series: [(latest("max", RelayMetric.directory.lag, by: "instance"), "{{instance}}")]),
    DashboardPanel(
      title: "One-time prekeys held back a second", unit: .perSecond,
      series: [(rate(RelayMetric.keys.heldBack), "held back")]),
  ]

  private static let peers = [
    DashboardPanel(
      title: "The peer answers", unit: .yesNo,
      series: [(latest("min", RelayMetric.peers.available, by: "peer"), "{{peer}}")]
    ),
    DashboardPanel(
      title: "Requests to peers a second", unit: .perSecond,
      series: [(rate(RelayMetric.peers.requests, by: "peer, outcome"), "{{peer}} {{outcome}}")]),
    DashboardPanel(
      title: "Use of our budgets by peers a second", unit: .perSecond,
      series: [(rate(RelayMetric.peerEdge.charges, by: "peer, budget"), "{{peer}} {{budget}}")]),
    DashboardPanel(
      title: "Messages that wait for peers", unit: .plain,
      series: [(latest("max", RelayMetric.outbox.messages, by: "peer"), "{{peer}}")]),
    DashboardPanel(
      title: "The oldest has waited for", unit: .seconds,
      series: [(latest("max", RelayMetric.outbox.oldest, by: "peer"), "{{peer}}")]),
    DashboardPanel(
      title: "Certificates end in", unit: .seconds,
      series: [(latest("min", RelayMetric.certificates.expires, by: "holder, kind"), "{{holder}} {{kind}}")]),
  ]

  private static let push = [
    DashboardPanel(
      title: "Devices that wait to be woken", unit: .plain,
      series: [(latest("max", RelayMetric.wakes.waiting, by: "provider"), "{{provider}}")]),
    DashboardPanel(
      title: "Attempts to wake a second", unit: .perSecond,
      series: [(rate(RelayMetric.wakes.attempts, by: "provider, outcome"), "{{provider}} {{outcome}}")]),
    DashboardPanel(
      title: "Attempts to push a second", unit: .perSecond,
      series: [
        (rate(RelayMetric.push.attempts, by: "app, provider, outcome"), "{{app}} {{provider}} {{outcome}}")
      ]),
    DashboardPanel(
      title: "Destinations left alone", unit: .plain,
      series: [(latest("max", RelayMetric.push.halted, by: "app, provider"), "{{app}} {{provider}}")]),
  ]

  private static let processes = [
    DashboardPanel(
      title: "CPU, cores", unit: .plain, series: [(rate(RelayMetric.process.cpu, by: "instance"), "{{instance}}")]),
    DashboardPanel(
      title: "Memory", unit: .bytes,
      series: [(latest("sum", RelayMetric.process.memory, by: "instance"), "{{instance}}")]),
    DashboardPanel(
      title: "Open files, of those allowed", unit: .share,
      series: [
        (
          "\(RelayMetric.process.files.name){\(chosen)} / \(RelayMetric.process.filesMax.name){\(chosen)}",
          "{{instance}}"
        )
      ]),
    DashboardPanel(
      title: "Connections at the clients' port", unit: .plain,
      series: [(latest("sum", RelayMetric.clientConnections.open, by: "state"), "{{state}}")]),
  ]

  private static let abuse = [
    DashboardPanel(
      title: "Wrong codes a second", unit: .perSecond, series: [(rate(RelayMetric.codes.wrong, by: "of"), "{{of}}")]),
    DashboardPanel(
      title: "Look-ups like an enumeration a second", unit: .perSecond,
      series: [(rate(RelayMetric.enumeration.suspicious, by: "kind"), "{{kind}}")]),
    DashboardPanel(
      title: "Connections refused a second", unit: .perSecond,
      series: [(rate(RelayMetric.clientConnections.refused, by: "reason"), "{{reason}}")]),
  ]
}
