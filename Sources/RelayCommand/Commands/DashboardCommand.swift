import ArgumentParser
import Operations

struct DashboardCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "dashboard", abstract: "Print a dashboard for Grafana.",
    discussion: """
      JSON for Dashboards > Import. It reads a Prometheus that scrapes relays under the job name `relay` \
      (deploy/prometheus). The same stands in deploy/grafana/relay.json.
      """)

  func run() throws { try Output.json(GrafanaDashboard()) }
}
