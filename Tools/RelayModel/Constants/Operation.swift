import Foundation

/// CPU milliseconds of one operation, by the server that spends them.
struct OperationCost: Sendable, Equatable {
  var relay = 0.0
  /// The peer's relay.
  var peer = 0.0
  var postgres = 0.0
  var redis = 0.0

  var total: Double { relay + peer + postgres + redis }

  static func + (a: Self, b: Self) -> Self {
    Self(relay: a.relay + b.relay, peer: a.peer + b.peer, postgres: a.postgres + b.postgres, redis: a.redis + b.redis)
  }
  static func * (cost: Self, factor: Double) -> Self {
    Self(
      relay: cost.relay * factor, peer: cost.peer * factor, postgres: cost.postgres * factor,
      redis: cost.redis * factor)
  }
}

/// One measurement of an operation: what it cost at a rate, in CPU milliseconds each.
struct OperationPoint: Sendable, Decodable, Equatable {
  /// Of one process.
  let perSecond: Double
  let relay: Double
  let peer: Double?
  let postgres: Double
  let redis: Double

  var cost: OperationCost { OperationCost(relay: relay, peer: peer ?? 0, postgres: postgres, redis: redis) }
}

/// The cost of an operation, which falls while its rate rises: requests that come together share commits and round
/// trips.
///
/// Between two measured rates each part follows the power law through both. Below the lowest and above the highest rate
/// the cost is that of the nearest point: at the lowest, 100 a second, nothing gathers any more (docs/performance.md).
struct Operation: Sendable, Decodable, Equatable {
  let name: String
  let title: String
  let measured: Bool
  let machine: String
  let command: String
  /// Of `relay-bench`, whose figures can be compared with this operation.
  let scenarios: [String]
  /// Ascending by rate, one at least.
  let points: [OperationPoint]

  /// The rates between which it was measured.
  var range: ClosedRange<Double> { (points.first?.perSecond ?? 0)...(points.last?.perSecond ?? 0) }

  /// - Parameter perSecond: of one process.
  func cost(at perSecond: Double) -> OperationCost {
    guard let first = points.first, let last = points.last else { return OperationCost() }
    if perSecond <= first.perSecond { return first.cost }
    if perSecond >= last.perSecond { return last.cost }
    let above = points.firstIndex { $0.perSecond >= perSecond } ?? points.count - 1
    let (low, high) = (points[above - 1], points[above])
    let share = log(perSecond / low.perSecond) / log(high.perSecond / low.perSecond)
    func between(_ part: KeyPath<OperationCost, Double>) -> Double {
      let (from, to) = (low.cost[keyPath: part], high.cost[keyPath: part])
      // Nothing is no beginning of a power law.
      guard from > 0, to > 0 else { return from + (to - from) * share }
      return from * pow(to / from, share)
    }
    return OperationCost(
      relay: between(\.relay), peer: between(\.peer), postgres: between(\.postgres), redis: between(\.redis))
  }
}

/// The names of the operations that the model uses.
enum OperationName: String, CaseIterable, Sendable {
  case deliver
  case deliverAcross = "deliver-across"
  case accept
  case cross
  case draw
  case drawAcross = "draw-across"
  case lookUp1000 = "look-up-1000"
  case lookUp5000 = "look-up-5000"
}
