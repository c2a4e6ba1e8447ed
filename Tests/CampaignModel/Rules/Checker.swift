/// Decides of a history which rules it keeps.
package struct Checker: Sendable {
  package struct Verdict: Sendable, Codable, Equatable {
    package let rule: String
    package let violations: Violations
    package var isKept: Bool { violations.count == 0 }
  }

  /// The history itself is not one: an operation ends that never began, or times go back.
  private struct Whole: Rule {
    let name = "the history is whole"
    var violations = Violations()
    mutating func take(_ step: Step, at now: Moment, _ trouble: Trouble) {}
  }

  private var rules: [any Rule] = [
    NothingLost(), DeliveredAsSent(), OrderWithinSender(), KeysHandedOutOnce(), OneLiveConnection(), NobodyDeaf(),
    NobodyRefused(), ReceiptsTrue(), LimitsKept(), ResourcesReturn(), NothingOdd(),
  ]
  private var whole = Whole()
  private var open: [OperationNumber: Invocation] = [:]
  private var trouble = Trouble()
  private var now = Moment.begin

  package init() {}

  package mutating func take(_ event: Event) {
    if event.at < now { whole.violations.add("\(event.at) comes after \(now)") }
    now = max(now, event.at)
    guard let step = resolve(event) else { return }
    if case .saw(let sight) = step { trouble.take(sight, at: event.at) }
    for index in rules.indices { rules[index].take(step, at: event.at, trouble) }
  }

  /// Ends the history: what has no answer by now is unknown.
  /// - Returns: one verdict for each rule.
  package mutating func finish() -> [Verdict] {
    for invocation in open.values.sorted(by: { $0.operation.rawValue < $1.operation.rawValue }) {
      for index in rules.indices { rules[index].take(.unknown(invocation), at: now, trouble) }
    }
    open = [:]
    for index in rules.indices { rules[index].finish(at: now, trouble) }
    return (rules + [whole]).map { Verdict(rule: $0.name, violations: $0.violations) }
  }

  private mutating func resolve(_ event: Event) -> Step? {
    switch event.fact {
    case .invoked(let operation, let call, let device, let place):
      let invocation = Invocation(operation: operation, call: call, device: device, place: place, at: event.at)
      if open.updateValue(invocation, forKey: operation) != nil { whole.violations.add("\(operation) begins twice") }
      return .invoked(invocation)
    case .answered(let operation, let answer):
      return end(operation).map { .answered($0, answer) }
    case .unknown(let operation): return end(operation).map { .unknown($0) }
    case .saw(let sight): return .saw(sight)
    }
  }

  private mutating func end(_ operation: OperationNumber) -> Invocation? {
    guard let invocation = open.removeValue(forKey: operation) else {
      whole.violations.add("\(operation) ends and never began")
      return nil
    }
    return invocation
  }

  /// Checks the history in the file at `path`.
  package static func check(historyAt path: String) throws -> [Verdict] {
    var checker = Checker()
    try HistoryReader(path: path).forEach { checker.take($0) }
    return checker.finish()
  }
}
