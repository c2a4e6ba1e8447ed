/// The dashboard as Grafana imports it, made of `DashboardPanels`.
package struct GrafanaDashboard: Encodable, Sendable {
  struct Source: Encodable {
    let type = "prometheus"
    let uid = "${datasource}"
  }
  struct Place: Encodable {
    let h: Int
    let w: Int
    let x: Int
    let y: Int
  }
  struct Target: Encodable {
    let datasource = Source()
    let expr: String
    let legendFormat: String
    let refId: String
  }
  struct Field: Encodable {
    struct Defaults: Encodable {
      let unit: String
      let min = 0
    }
    let defaults: Defaults
    let overrides: [String] = []
  }
  struct Panel: Encodable {
    let id: Int
    let type: String
    let title: String
    let gridPos: Place
    let datasource: Source?
    let fieldConfig: Field?
    let targets: [Target]?
  }
  struct Variable: Encodable {
    let name: String
    let label: String
    let type: String
    let query: String
    let datasource: Source?
    let includeAll: Bool?
    let multi: Bool?
    let refresh: Int
  }
  struct Templating: Encodable {
    let list: [Variable]
  }
  struct Span: Encodable {
    let from = "now-3h"
    let to = "now"
  }

  let title = "Relay"
  let uid = "relay-overview"
  let tags = ["relay"]
  let schemaVersion = 38
  let version = 1
  let editable = true
  let refresh = "30s"
  let time = Span()
  let templating = Templating(list: [
    Variable(
      name: "datasource", label: "Prometheus", type: "datasource", query: "prometheus", datasource: nil,
      includeAll: nil, multi: nil, refresh: 1),
    Variable(
      name: "instance", label: "Process", type: "query", query: #"label_values(up{job="relay"}, instance)"#,
      datasource: Source(), includeAll: true, multi: true, refresh: 2),
  ])
  let panels: [Panel]

  package init() {
    var panels: [Panel] = []
    var top = 0
    for row in DashboardPanels.rows {
      panels.append(
        Panel(
          id: panels.count + 1, type: "row", title: row.title, gridPos: Place(h: 1, w: 24, x: 0, y: top),
          datasource: nil, fieldConfig: nil, targets: nil))
      top += 1
      for (index, panel) in row.panels.enumerated() {
        let place = Place(h: Self.height, w: Self.width, x: index % 3 * Self.width, y: top + index / 3 * Self.height)
        panels.append(Self.panel(panel, id: panels.count + 1, at: place))
      }
      top += (row.panels.count + 2) / 3 * Self.height
    }
    self.panels = panels
  }

  private static func panel(_ panel: DashboardPanel, id: Int, at place: Place) -> Panel {
    Panel(
      id: id, type: "timeseries", title: panel.title, gridPos: place, datasource: Source(),
      fieldConfig: Field(defaults: .init(unit: panel.unit.rawValue)),
      targets: zip("ABCDEFGH", panel.series).map { letter, series in
        Target(expr: series.expression, legendFormat: series.legend, refId: String(letter))
      })
  }

  /// Three panels stand beside each other, of 24 columns.
  private static let width = 8
  private static let height = 7
}
