import CoreMetrics
import Foundation
import RelayMetrics
import TestTags
import Testing

@testable import Operations

/// The table of metrics (`RelayMetric`), and what has to follow it: the page of metrics, the sources, docs/metrics.md,
/// the dashboard and the alerts.
@Suite(.tags(.unit)) struct MetricTableTests {
  private static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent()

  private static func text(_ path: String) throws -> String {
    try String(contentsOf: root.appending(path: path), encoding: .utf8)
  }

  // MARK: /metrics

  @Test func `a metric is shown under its name, with its type and its help`() {
    let registry = PrometheusRegistry()
    for metric in RelayMetric.all where !metric.name.hasPrefix("process_") {
      switch type(of: metric).type {
      case .counter: Counter(label: metric.name, factory: registry).increment()
      case .gauge: CoreMetrics.Gauge(label: metric.name, factory: registry).record(1)
      case .histogram: CoreMetrics.Timer(label: metric.name, factory: registry).recordSeconds(1)
      }
    }
    let lines = Set(registry.exposition().split(separator: "\n"))
    for metric in RelayMetric.all where !metric.name.hasPrefix("process_") {
      #expect(lines.contains("# TYPE \(metric.name) \(type(of: metric).type.rawValue)"), "\(metric.name)")
      #expect(lines.contains("# HELP \(metric.name) \(metric.help)"), "\(metric.name)")
    }
  }

  @Test func `names are distinct, labels of one metric too, and a help is one line that ends with a full stop`() {
    #expect(RelayMetric.all.count == RelayMetric.byName.count && RelayMetric.all.count > 100)
    for metric in RelayMetric.all {
      let labels = type(of: metric).labels.map { $0.name }
      #expect(Set(labels).count == labels.count && !labels.contains("le"), "\(metric.name)")
      #expect(metric.help.hasSuffix(".") && !metric.help.contains("\n"), "\(metric.name)")
    }
  }

  // MARK: docs/metrics.md

  @Test func `docs/metrics.md mirrors the table`() throws {
    let page = try Self.text("docs/metrics.md").split(separator: "\n")
    let rows = page.filter { $0.hasPrefix("| `") }.map(String.init)
    let expected = RelayMetric.all.map(Self.row)
    for row in expected where !rows.contains(row) { Issue.record("docs/metrics.md lacks: \(row)") }
    for row in rows where !expected.contains(row) { Issue.record("docs/metrics.md has, the table not: \(row)") }
    #expect(rows == expected, "in the table's order")
    var titles: [String] = []
    for section in RelayMetric.sections {
      let title = type(of: section).title
      if titles.last != title { titles.append(title) }
    }
    #expect(page.filter { $0.hasPrefix("## ") }.map { String($0.dropFirst(3)) } == titles)
  }

  private static func row(_ metric: any Metric) -> String {
    let labels = type(of: metric).labels.map { label in
      switch label.values {
      case .listed(let values): "`\(label.name)`: \(values.map { "`\($0)`" }.joined(separator: ", "))"
      case .described(let words): "`\(label.name)`: \(words)"
      }
    }
    let (kind, cell) = (type(of: metric).type.rawValue, labels.isEmpty ? "–" : labels.joined(separator: "<br>"))
    return "| `\(metric.name)` | \(kind) | \(cell) | \(metric.help) |"
  }

  // MARK: Sources

  private struct Source {
    let path: String
    /// Without lines that are comments.
    let code: String
  }

  private static func sources() throws -> [Source] {
    let folder = root.appending(path: "Sources")
    return try FileManager.default.subpathsOfDirectory(atPath: folder.path).filter { $0.hasSuffix(".swift") }.map {
      let lines = try String(contentsOf: folder.appending(path: $0), encoding: .utf8).split(separator: "\n")
      let code = lines.filter { !$0.drop(while: \.isWhitespace).hasPrefix("//") }
      return Source(path: $0, code: code.joined(separator: "\n"))
    }
  }

  @Test func `no metric is made, and none is named, but by the table`() throws {
    let sources = try Self.sources().filter { !$0.path.hasPrefix("RelayMetrics/") }
    #expect(sources.count > 500)
    for source in sources {
      if source.code.contains("label:") {
        let made = source.code.matches(of: /\b(?:FloatingPoint)?(?:Counter|Gauge|Meter|Recorder|Timer)\(\s*label:/)
        #expect(made.isEmpty, "\(source.path): \(made.map(\.output))")
      }
      guard ["relay_", "sygnal_", "process_", "http_"].contains(where: source.code.contains) else { continue }
      for match in source.code.matches(of: /\b(?:relay|sygnal|process|http)_[a-z_]+/)
      where [match.output, "relay_" + match.output].contains(where: { RelayMetric.byName[String($0)] != nil }) {
        Issue.record("\(source.path) names \(match.output)")
      }
    }
  }

  @Test func `the folder that owns a section records its metrics, all of them, and no other does`() throws {
    // Sections by the names that code calls them by: `static let requests = Requests()`.
    let table = try Self.text("Sources/RelayMetrics/RelayMetric.swift")
    let types: [String: any MetricSection] = Dictionary(
      RelayMetric.sections.map { ("\(type(of: $0))", $0) }, uniquingKeysWith: { first, _ in first })
    var sections: [String: any MetricSection] = [:]
    for match in table.matches(of: /static let (\w+) = ([A-Z]\w+)\(/) {
      sections[String(match.1)] = types[String(match.2)]
      #expect(types[String(match.2)] != nil, "\(match.1) is not in `sections`")
    }
    #expect(sections.count == RelayMetric.sections.count)

    var recorded: Set<String> = []
    // Operations reads metrics back, and records those of the process.
    for source in try Self.sources()
    where !source.path.hasPrefix("RelayMetrics/") && !source.path.hasPrefix("Operations/") {
      for match in source.code.matches(of: /\bRelayMetric\.([a-z]\w*)(?:\.(\w+))?/) {
        guard let owner = sections[String(match.1)].map({ type(of: $0).owner }) else { continue }
        #expect(source.path.hasPrefix(owner + "/"), "\(source.path) records what \(owner) owns: \(match.output.0)")
        recorded.insert(match.2.map { "\(match.1).\($0)" } ?? "\(match.1)")
      }
    }
    for (name, section) in sections where type(of: section).owner != "Operations" {
      // A lane is handed on as a whole.
      if recorded.contains(name) { continue }
      for entry in Mirror(reflecting: section).children.compactMap(\.label) {
        #expect(recorded.contains("\(name).\(entry)"), "nothing records \(name).\(entry)")
      }
    }
  }

  // MARK: Dashboard and alerts

  @Test func `the dashboard asks for metrics and labels that there are`() {
    let expressions = DashboardPanels.rows.flatMap(\.panels).flatMap(\.series).map(\.expression)
    #expect(expressions.count > 20)
    for expression in expressions { Self.check(expression, in: "the dashboard") }
  }

  @Test func `deploy/grafana/relay.json is the dashboard of this build`() throws {
    func canonical(_ json: Data) throws -> Data {
      try JSONSerialization.data(withJSONObject: JSONSerialization.jsonObject(with: json), options: [.sortedKeys])
    }
    let file = try canonical(Data(try Self.text("deploy/grafana/relay.json").utf8))
    let built = try canonical(try JSONEncoder().encode(GrafanaDashboard()))
    #expect(file == built, "run: relay dashboard > deploy/grafana/relay.json")
  }

  @Test(arguments: ["deploy/prometheus/relay.rules.yml", "deploy/prometheus/relay.rules.test.yml"])
  func `alerts ask for metrics, labels and values that there are`(file: String) throws {
    let lines = try Self.text(file).split(separator: "\n").filter { !$0.contains("#") }
    #expect(lines.contains { $0.contains("relay_") })
    for line in lines { Self.check(String(line), in: file) }
  }

  /// Prometheus adds the first two; a histogram's buckets have the third.
  private static let commonLabels: Set = ["instance", "job", "le"]

  /// - Parameter expression: in Prometheus' language, or a line of one.
  private static func check(_ expression: String, in place: String) {
    var known = commonLabels
    for match in expression.matches(of: /\b((?:relay|sygnal|process)_[a-z0-9_]+)(?:\{([^}]*)\})?/) {
      let shown = String(match.1)
      let name = RelayMetric.byName[shown] == nil ? shown.replacing(/_(bucket|sum|count)$/, with: "") : shown
      guard let metric = RelayMetric.byName[name] else {
        Issue.record("\(place) asks for \(shown)")
        continue
      }
      #expect(name == shown || type(of: metric).type == .histogram, "\(place): \(shown)")
      let labels = type(of: metric).labels
      known.formUnion(labels.map { $0.name })
      for matcher in (match.2 ?? "").matches(of: /([a-z_]+)(=~|!=|=)"([^"]*)"/) {
        let label = labels.first { $0.name == matcher.1 }
        #expect(label != nil || commonLabels.contains(String(matcher.1)), "\(place): \(shown) has no \(matcher.1)")
        if case .listed(let values) = label?.values, matcher.2 != "=~" {
          #expect(values.contains(String(matcher.3)), "\(place): \(shown) has no \(matcher.1) \(matcher.3)")
        }
      }
    }
    guard known != commonLabels else { return }
    for match in expression.matches(of: /\bby \(([a-z_, ]+)\)/) {
      for label in match.1.split(separator: ", ") {
        #expect(known.contains(String(label)), "\(place): \(expression) has no \(label)")
      }
    }
  }
}
