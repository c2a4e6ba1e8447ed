package import CoreMetrics
import RelayMetrics
import Synchronization

/// Keeps the process's metrics for Prometheus to read, under the names and HELP texts of the table (`RelayMetric`).
///
/// A metric of a library is in no table: a counter is named `relay_NAME_total` then, a timer `relay_NAME_seconds`, and
/// everything else `relay_NAME`. Dimensions are labels. Asking for a series takes a lock, recording into it does not:
/// keep the `Counter` or `Timer` where a request passes often.
package final class PrometheusRegistry: MetricsFactory {
  private enum Kind: String, Sendable { case counter, gauge, histogram }

  private struct Family {
    let kind: Kind
    /// The one type of all its series.
    let type: ObjectIdentifier
    let help: String
    /// By rendered labels.
    var series: [String: any Instrument] = [:]
  }

  private struct State {
    var families: [String: Family] = [:]
    /// The places of series, to find one that is given up.
    var places: [ObjectIdentifier: (family: String, labels: String)] = [:]
  }

  private let state = Mutex(State())
  private let seriesMax: Int
  private let helps: [String: String]
  private let refused = WholeCounter()

  /// - Parameter seriesMax: series beyond it record nowhere and are counted in
  ///   `relay_metrics_series_refused_total`: a label with too many values must not eat the memory.
  package convenience init(seriesMax: Int = 10_000) {
    self.init(seriesMax: seriesMax, helps: RelayMetric.byName.mapValues(\.help))
  }

  /// - Parameter helps: the HELP texts, by the names that metrics are shown under.
  init(seriesMax: Int, helps: [String: String]) {
    self.seriesMax = seriesMax
    self.helps = helps
  }

  /// Everything in Prometheus' text format: families by name, series by labels.
  package func exposition() -> String {
    let families = state.withLock { $0.families }
    var text = ""
    for (name, family) in families.sorted(by: { $0.key < $1.key }) where !family.series.isEmpty {
      text += Exposition.header(name, type: family.kind.rawValue, help: family.help)
      for (labels, instrument) in family.series.sorted(by: { $0.key < $1.key }) {
        instrument.write(name: name, labels: labels, to: &text)
      }
    }
    let refusals = RelayMetric.registry.refused
    text += Exposition.header(refusals)
    refused.write(name: refusals.name, labels: "", to: &text)
    return text + ProcessMetrics.exposition()
  }

  // MARK: MetricsFactory

  package func makeCounter(label: String, dimensions: [(String, String)]) -> any CounterHandler {
    series(label, suffix: "_total", .counter, dimensions) { WholeCounter() }
  }
  package func makeFloatingPointCounter(label: String, dimensions: [(String, String)])
    -> any FloatingPointCounterHandler
  {
    series(label, suffix: "_total", .counter, dimensions) { RealCounter() }
  }
  package func makeMeter(label: String, dimensions: [(String, String)]) -> any MeterHandler {
    series(label, suffix: "", .gauge, dimensions) { Gauge() }
  }
  package func makeRecorder(label: String, dimensions: [(String, String)], aggregate: Bool) -> any RecorderHandler {
    guard aggregate else { return series(label, suffix: "", .gauge, dimensions) { Gauge() } }
    return series(label, suffix: "", .histogram, dimensions) { Histogram(bounds: Histogram.sizeBounds) }
  }
  package func makeTimer(label: String, dimensions: [(String, String)]) -> any TimerHandler {
    guard !Exposition.isForeign(label) else {
      return series(label, suffix: "", .histogram, dimensions) { Histogram(bounds: Histogram.foreignSecondBounds) }
    }
    return series(label, suffix: "_seconds", .histogram, dimensions) { Histogram(bounds: Histogram.secondBounds) }
  }

  package func destroyCounter(_ handler: any CounterHandler) { remove(handler) }
  package func destroyFloatingPointCounter(_ handler: any FloatingPointCounterHandler) { remove(handler) }
  package func destroyMeter(_ handler: any MeterHandler) { remove(handler) }
  package func destroyRecorder(_ handler: any RecorderHandler) { remove(handler) }
  package func destroyTimer(_ handler: any TimerHandler) { remove(handler) }

  // MARK: Series

  /// The series of that name and those labels, made when there is none.
  ///
  /// A name that is taken by another type of metric gets that of its own type added: two types under one name would
  /// make the whole page unreadable to Prometheus.
  private func series<Made: Instrument>(
    _ label: String, suffix: String, _ kind: Kind, _ dimensions: [(String, String)], _ make: () -> Made
  ) -> Made {
    var name = Exposition.metricName(label)
    if !suffix.isEmpty, !name.hasSuffix(suffix) { name += suffix }
    let labels = Exposition.labels(dimensions)
    return state.withLock { state in
      let type = ObjectIdentifier(Made.self)
      if let family = state.families[name], family.type != type {
        name += "_\(kind.rawValue)\(Made.self == RealCounter.self ? "_real" : "")"
      }
      if let known = state.families[name]?.series[labels] as? Made { return known }
      let made = make()
      guard state.places.count < seriesMax else {
        refused.increment(by: 1)
        return made
      }
      let help = helps[name] ?? name
      state.families[name, default: Family(kind: kind, type: type, help: help)].series[labels] = made
      state.places[ObjectIdentifier(made)] = (name, labels)
      return made
    }
  }

  private func remove(_ handler: AnyObject) {
    state.withLock { state in
      guard let place = state.places.removeValue(forKey: ObjectIdentifier(handler)) else { return }
      state.families[place.family]?.series[place.labels] = nil
    }
  }
}
