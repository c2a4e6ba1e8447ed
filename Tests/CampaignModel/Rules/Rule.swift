/// A promise that a history keeps or breaks.
///
/// Knows what was seen from outside and nothing of the relay. Takes events in their order and keeps no more of them
/// than it needs.
package protocol Rule: Sendable {
  /// As reports name it.
  var name: String { get }
  var violations: Violations { get }

  mutating func take(_ step: Step, at now: Moment, _ trouble: Trouble)
  /// The history is at its end: what has not happened by now never will.
  mutating func finish(at end: Moment, _ trouble: Trouble)
}

extension Rule {
  package mutating func finish(at end: Moment, _ trouble: Trouble) {}
}

/// An event, its operation resolved.
package enum Step: Sendable {
  case invoked(Invocation)
  case answered(Invocation, Reply)
  case unknown(Invocation)
  case saw(Sight)
}

/// A request as it was begun.
package struct Invocation: Sendable, Equatable {
  package let operation: OperationNumber
  package let call: Call
  package let device: DeviceIndex
  package let place: Place
  package let at: Moment
}

/// The events that broke a rule: all are counted, the first are told.
package struct Violations: Sendable, Equatable, Codable {
  package private(set) var count = 0
  /// The first of them, for people.
  package private(set) var first: [String] = []
  private static let toldMax = 20

  package init() {}

  package mutating func add(_ text: @autoclosure () -> String) {
    count += 1
    if first.count < Self.toldMax { first.append(text()) }
  }
}
