package import CoreMetrics

/// One row of the table of metrics (`RelayMetric`). Its type says how it is recorded, and its generic arguments are its
/// labels.
package protocol Metric: Sendable {
  /// As `/metrics` shows it, with its suffix.
  var name: String { get }
  /// The HELP text: one plain sentence, with the unit where it is not a number of things.
  var help: String { get }
  static var type: MetricType { get }
  static var labels: [any MetricLabel.Type] { get }
}

/// The words of TYPE lines.
package enum MetricType: String, Sendable { case counter, gauge, histogram }

/// It only rises, and begins at 0 with the process.
package struct CounterMetric<each Label: MetricLabel>: Metric {
  package let name: String
  package let help: String

  init(_ name: String, _ help: String) { (self.name, self.help) = (name, help) }

  /// The series with these labels. Making one takes a lock: keep it where it is recorded into often.
  package func counter(_ labels: repeat each Label) -> Counter {
    Counter(label: name, dimensions: dimensions(repeat each labels))
  }

  package static var type: MetricType { .counter }
  package static var labels: [any MetricLabel.Type] { labelTypes(repeat (each Label).self) }
}

/// The present value of something.
package struct GaugeMetric<each Label: MetricLabel>: Metric {
  package let name: String
  package let help: String

  init(_ name: String, _ help: String) { (self.name, self.help) = (name, help) }

  /// The series with these labels, whose value is set.
  package func gauge(_ labels: repeat each Label) -> Gauge {
    Gauge(label: name, dimensions: dimensions(repeat each labels))
  }

  /// The series with these labels, whose value rises and falls.
  package func meter(_ labels: repeat each Label) -> Meter {
    Meter(label: name, dimensions: dimensions(repeat each labels))
  }

  package static var type: MetricType { .gauge }
  package static var labels: [any MetricLabel.Type] { labelTypes(repeat (each Label).self) }
}

/// How long something takes: a histogram of seconds.
package struct TimerMetric<each Label: MetricLabel>: Metric {
  package let name: String
  package let help: String

  init(_ name: String, _ help: String) { (self.name, self.help) = (name, help) }

  /// The series with these labels. Making one takes a lock: keep it where it is recorded into often.
  package func timer(_ labels: repeat each Label) -> CoreMetrics.Timer {
    CoreMetrics.Timer(label: name, dimensions: dimensions(repeat each labels))
  }

  package static var type: MetricType { .histogram }
  package static var labels: [any MetricLabel.Type] { labelTypes(repeat (each Label).self) }
}

private func dimensions<each Label: MetricLabel>(_ labels: repeat each Label) -> [(String, String)] {
  var dimensions: [(String, String)] = []
  repeat dimensions.append(((each Label).name, (each labels).value))
  return dimensions
}

private func labelTypes<each Label: MetricLabel>(_ types: repeat (each Label).Type) -> [any MetricLabel.Type] {
  var all: [any MetricLabel.Type] = []
  repeat all.append(each types)
  return all
}

// Metrics of one series, without labels.
package typealias SingleCounter = CounterMetric<>
package typealias SingleGauge = GaugeMetric<>
package typealias SingleTimer = TimerMetric<>

/// A label of a metric. A type of its own for each set of values: no other value fits.
package protocol MetricLabel: Sendable {
  static var name: String { get }
  static var values: LabelValues { get }
  var value: String { get }
}

/// Which values a label can have.
package enum LabelValues: Sendable {
  case listed([String])
  /// Too many to list: what they are, in a few words.
  case described(String)
}

/// A label whose values are the cases of an enumeration.
package protocol ListedLabel: MetricLabel, CaseIterable, RawRepresentable where RawValue == String {}

extension ListedLabel {
  package static var values: LabelValues { .listed(allCases.map(\.rawValue)) }
  package var value: String { rawValue }
}

/// A label whose values come from elsewhere: from the operator, or from an enumeration of a feature.
package protocol TextLabel: MetricLabel { init(value: String) }
