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
