import RelayMetrics

/// The metrics of a process, read back from `/metrics` (Prometheus' text format, version 0.0.4).
package struct MetricsPage: Sendable {
  struct Sample: Sendable {
    let labels: [String: String]
    let value: Double
  }

  private var samples: [String: [Sample]] = [:]

  /// Lines that are no samples are passed over.
  package init(_ text: String) {
    for line in text.split(separator: "\n") where !line.hasPrefix("#") {
      guard let (name, sample) = Self.sample(line) else { continue }
      samples[name, default: []].append(sample)
    }
  }

  func samples(of name: String) -> [Sample] { samples[name] ?? [] }

  /// nil where there is no such sample.
  func sum(_ metric: any Metric, _ isMeant: ([String: String]) -> Bool = { _ in true }) -> Double? {
    let values = samples(of: metric.name).filter { isMeant($0.labels) }.map(\.value)
    return values.isEmpty ? nil : values.reduce(0, +)
  }

  func max(_ metric: any Metric, _ isMeant: ([String: String]) -> Bool = { _ in true }) -> Double? {
    samples(of: metric.name).filter { isMeant($0.labels) }.map(\.value).max()
  }

  /// The values of `label`, ascending.
  func words(of label: String, in metric: any Metric) -> [String] {
    Set(samples(of: metric.name).compactMap { $0.labels[label] }).sorted()
  }

  /// Counts of a histogram below each bound, ascending by bound, all series together.
  func buckets(of metric: any Metric, _ isMeant: ([String: String]) -> Bool) -> [(bound: Double, count: Double)] {
    var counts: [Double: Double] = [:]
    for sample in samples(of: metric.name + "_bucket") where isMeant(sample.labels) {
      guard let text = sample.labels["le"], let bound = text == "+Inf" ? .infinity : Double(text) else { continue }
      counts[bound, default: 0] += sample.value
    }
    return counts.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
  }

  // MARK: Reading

  private static func sample(_ line: Substring) -> (String, Sample)? {
    guard let end = line.firstIndex(where: { $0 == "{" || $0 == " " }) else { return nil }
    let name = String(line[..<end])
    var (labels, rest): ([String: String], Substring) = ([:], line[end...])
    if rest.first == "{" {
      guard let read = Self.labels(rest.dropFirst()) else { return nil }
      (labels, rest) = read
    }
    guard let value = rest.split(separator: " ").first.flatMap({ Double($0) }) else { return nil }
    return (name, Sample(labels: labels, value: value))
  }

  /// - Returns: nil for what does not end.
  private static func labels(_ text: Substring) -> ([String: String], Substring)? {
    var (labels, rest): ([String: String], Substring) = ([:], text)
    while let next = rest.first {
      if next == "}" { return (labels, rest.dropFirst()) }
      if next == "," {
        rest = rest.dropFirst()
        continue
      }
      guard let equals = rest.firstIndex(of: "="), rest[equals...].dropFirst().first == "\"" else { return nil }
      let name = String(rest[..<equals])
      rest = rest[equals...].dropFirst(2)
      var value = ""
      while let character = rest.first, character != "\"" {
        rest = rest.dropFirst()
        guard character == "\\" else {
          value.append(character)
          continue
        }
        guard let escaped = rest.popFirst() else { return nil }
        value.append(escaped == "n" ? "\n" : escaped)
      }
      guard rest.popFirst() == "\"" else { return nil }
      labels[name] = value
    }
    return nil
  }
}

/// Two looks at one process.
struct MetricsChange {
  let before: MetricsPage
  let after: MetricsPage
  let seconds: Double

  /// How much a counter rose in a second. A process that started anew counts from 0.
  func perSecond(_ metric: any Metric, _ isMeant: ([String: String]) -> Bool = { _ in true }) -> Double {
    let (former, present) = (before.sum(metric, isMeant) ?? 0, after.sum(metric, isMeant) ?? 0)
    return (present >= former ? present - former : present) / Swift.max(seconds, 0.001)
  }

  /// The rise of each bucket of a histogram; cumulative, as they are shown.
  func rises(of metric: any Metric, _ isMeant: ([String: String]) -> Bool) -> [(bound: Double, count: Double)] {
    let former = Dictionary(before.buckets(of: metric, isMeant).map { ($0.bound, $0.count) }, uniquingKeysWith: +)
    return after.buckets(of: metric, isMeant).map { bucket in
      let rise = bucket.count - (former[bucket.bound] ?? 0)
      return (bucket.bound, rise >= 0 ? rise : bucket.count)
    }
  }
}

/// The value below which a share of what a histogram counted lies: between two bounds, as if evenly spread.
/// - Returns: nil where nothing was counted; the last finite bound for what lies above all.
func quantile(_ share: Double, of buckets: [(bound: Double, count: Double)]) -> Double? {
  guard let total = buckets.last?.count, total > 0 else { return nil }
  let rank = share * total
  var (lower, below) = (0.0, 0.0)
  for (bound, count) in buckets {
    if count >= rank {
      guard bound.isFinite else { return lower }
      return count > below ? lower + (bound - lower) * (rank - below) / (count - below) : bound
    }
    (lower, below) = (bound.isFinite ? bound : lower, count)
  }
  return lower
}
