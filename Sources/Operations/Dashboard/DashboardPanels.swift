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

  private static func rate(_ metric: String, by labels: String) -> String {
    "sum by (\(labels)) (rate(\(metric){\(Self.chosen)}[$__rate_interval]))"
  }

  private static func rate(_ metric: String) -> String { "sum(rate(\(metric){\(Self.chosen)}[$__rate_interval]))" }

  private static func latest(_ function: String, _ metric: String, by labels: String) -> String {
    "\(function) by (\(labels)) (\(metric){\(Self.chosen)})"
  }

  private static func quantile(_ share: String) -> String {
    "histogram_quantile(\(share), sum by (edge, le) (rate(relay_http_request_duration_seconds_bucket{\(chosen)}[$__rate_interval])))"
  }

  /// The processes that the dashboard's variable names.
  private static let chosen = #"instance=~"$instance""#

  private static let requests = [
    DashboardPanel(
      title: "Answers a second", unit: .perSecond,
      series: [(rate("relay_http_requests_total", by: "edge"), "{{edge}}")]),
    DashboardPanel(
      title: "Refusals and failures a second", unit: .perSecond,
      series: [
        (
          "sum by (edge, status) (rate(relay_http_requests_total{\(chosen),status=~\"[45]..\"}[$__rate_interval]))",
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
        (rate("relay_deliveries_total"), "delivered"), (rate("relay_acknowledgements_total"), "acknowledged"),
      ]),
    DashboardPanel(
      title: "WebSockets", unit: .plain, series: [(latest("sum", "relay_connections", by: "kind"), "{{kind}}")]),
    DashboardPanel(
      title: "Wake-ups a second", unit: .perSecond, series: [(rate("relay_wakeups_total", by: "how"), "{{how}}")]),
    DashboardPanel(
      title: "Receipts lost a second", unit: .perSecond,
      series: [(rate("relay_receipts_dropped_total", by: "reason"), "{{reason}}")]),
  ]

  private static let stores = [
    DashboardPanel(
      title: "The store takes writes", unit: .yesNo,
      series: [(latest("min", "relay_storage_writable", by: "instance"), "{{instance}}")]),
    DashboardPanel(
      title: "Redis answers", unit: .yesNo,
      series: [(latest("min", "relay_coordination_available", by: "instance"), "{{instance}}")]),
    DashboardPanel(
      title: "Contacts in memory are behind by", unit: .seconds,
      series: [(latest("max", "relay_directory_lag_seconds", by: "instance"), "{{instance}}")]),
    DashboardPanel(
      title: "One-time prekeys held back a second", unit: .perSecond,
      series: [(rate("relay_prekeys_held_back_total"), "held back")]),
  ]

  private static let peers = [
    DashboardPanel(
      title: "The peer answers", unit: .yesNo, series: [(latest("min", "relay_peer_available", by: "peer"), "{{peer}}")]
    ),
    DashboardPanel(
      title: "Requests to peers a second", unit: .perSecond,
      series: [(rate("relay_peer_requests_total", by: "peer, outcome"), "{{peer}} {{outcome}}")]),
    DashboardPanel(
      title: "Use of our budgets by peers a second", unit: .perSecond,
      series: [(rate("relay_peer_charges_total", by: "peer, budget"), "{{peer}} {{budget}}")]),
    DashboardPanel(
      title: "Messages that wait for peers", unit: .plain,
      series: [(latest("max", "relay_outbox_messages", by: "peer"), "{{peer}}")]),
    DashboardPanel(
      title: "The oldest has waited for", unit: .seconds,
      series: [(latest("max", "relay_outbox_oldest_seconds", by: "peer"), "{{peer}}")]),
    DashboardPanel(
      title: "Certificates end in", unit: .seconds,
      series: [(latest("min", "relay_certificate_expires_seconds", by: "holder, kind"), "{{holder}} {{kind}}")]),
  ]

  private static let push = [
    DashboardPanel(
      title: "Devices that wait to be woken", unit: .plain,
      series: [(latest("max", "relay_wakes_waiting", by: "provider"), "{{provider}}")]),
    DashboardPanel(
      title: "Attempts to wake a second", unit: .perSecond,
      series: [(rate("relay_wakes_total", by: "provider, outcome"), "{{provider}} {{outcome}}")]),
    DashboardPanel(
      title: "Attempts to push a second", unit: .perSecond,
      series: [
        (rate("relay_push_attempts_total", by: "app, provider, outcome"), "{{app}} {{provider}} {{outcome}}")
      ]),
    DashboardPanel(
      title: "Destinations left alone", unit: .plain,
      series: [(latest("max", "relay_push_halted", by: "app, provider"), "{{app}} {{provider}}")]),
  ]

  private static let processes = [
    DashboardPanel(
      title: "CPU, cores", unit: .plain, series: [(rate("process_cpu_seconds_total", by: "instance"), "{{instance}}")]),
    DashboardPanel(
      title: "Memory", unit: .bytes,
      series: [(latest("sum", "process_resident_memory_bytes", by: "instance"), "{{instance}}")]),
    DashboardPanel(
      title: "Open files, of those allowed", unit: .share,
      series: [
        ("process_open_fds{\(chosen)} / process_max_fds{\(chosen)}", "{{instance}}")
      ]),
    DashboardPanel(
      title: "Connections at the clients' port", unit: .plain,
      series: [(latest("sum", "relay_client_connections", by: "state"), "{{state}}")]),
  ]

  private static let abuse = [
    DashboardPanel(
      title: "Wrong codes a second", unit: .perSecond, series: [(rate("relay_wrong_codes_total", by: "of"), "{{of}}")]),
    DashboardPanel(
      title: "Look-ups like an enumeration a second", unit: .perSecond,
      series: [(rate("relay_directory_suspicious_total", by: "kind"), "{{kind}}")]),
    DashboardPanel(
      title: "Connections refused a second", unit: .perSecond,
      series: [(rate("relay_client_connections_refused_total", by: "reason"), "{{reason}}")]),
  ]
}
