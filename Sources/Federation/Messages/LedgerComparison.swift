import RelayCore

/// Holds one operator's word of a day against its peer's.
///
/// One side has accepted all that the other handed over, less all that was refused. Crossings that wait for an answer
/// may have arrived or not: all of them, or none, is no difference.
package struct LedgerComparison: Sendable, Equatable {
  /// Why two files say nothing of each other.
  package enum Mismatch: Error, Equatable, CustomStringConvertible {
    case format(String)
    case days(String, String)
    case sameRelay(String)
    case strangers(String, String)

    package var description: String {
      switch self {
      case .format(let reason): reason
      case .days(let first, let second): "The files are of different days: \(first) and \(second)."
      case .sameRelay(let name):
        "Both files are \(name)'s: compare one's own with the one that the peer's operator made."
      case .strangers(let first, let second): "The files are not of each other: \(first); \(second)."
      }
    }
  }

  package enum Finding: String, Codable, Sendable {
    /// Fewer were accepted than the peer said it accepted.
    case missing
    /// More were accepted than were handed over.
    case surplus
    /// As many, but others.
    case others
    /// No more is missing than waits for an answer.
    case unsettled
  }

  /// The first place at which the files differ.
  package struct Difference: Codable, Sendable, Equatable {
    package let hour: Int
    package let from: String
    package let to: String
    /// `messages` or `receipts`.
    package let kind: String
    package let handedOver: Int64
    package let answered: Int64
    package let waits: Int64
    package let refused: Int64
    package let accepted: Int64
    package let finding: Finding
    /// Whether one of the files was made before the hour was over.
    package let isUnderWay: Bool
  }

  /// The crossings from one relay to the other, where nothing differs.
  package struct Total: Codable, Sendable, Equatable {
    package let from: String
    package let to: String
    package internal(set) var messages: Int64 = 0
    package internal(set) var receipts: Int64 = 0
    /// Messages and receipts that `to` accepted and whose answer `from` does not have.
    package internal(set) var unanswered: Int64 = 0
  }

  package let day: String
  package private(set) var difference: Difference?
  package private(set) var totals: [Total]

  package init(_ first: LedgerFile, _ second: LedgerFile) throws(Mismatch) {
    let day = try Self.check(first, second)
    self.day = first.day
    totals = [Total(from: first.relay, to: first.peer), Total(from: second.relay, to: second.peer)]
    let taken = Timestamp(millis: min(first.taken, second.taken))
    for hour in 0..<24 {
      let (one, other) = (first.hours.first { $0.hour == hour }, second.hours.first { $0.hour == hour })
      for (index, pair) in [(one, other), (other, one)].enumerated() {
        for kind in ["messages", "receipts"] {
          let outcome = try Self.compare(kind, sent: pair.0, received: pair.1)
          guard let finding = outcome.finding else {
            totals[index].add(outcome, kind)
            continue
          }
          difference = Difference(
            hour: hour, from: totals[index].from, to: totals[index].to, kind: kind,
            handedOver: outcome.handedOver.count, answered: outcome.answered.count, waits: outcome.waits.count,
            refused: outcome.refused.count, accepted: outcome.accepted.count, finding: finding,
            isUnderWay: taken < day.end(of: hour))
          return
        }
      }
    }
  }

  private static func check(_ first: LedgerFile, _ second: LedgerFile) throws(Mismatch) -> LedgerDay {
    for file in [first, second] where file.format != LedgerFile.format {
      throw .format("\(file.relay)'s file is of another format, \(file.format): both relays must be of one version.")
    }
    // All of them, whatever is compared first: both operators must come to the same end.
    for hour in first.hours + second.hours {
      for kind in ["messages", "receipts"] { _ = try compare(kind, sent: hour, received: hour) }
    }
    guard first.day == second.day else { throw .days(first.day, second.day) }
    guard let day = LedgerDay(first.day) else { throw .format("There is no day \(first.day).") }
    guard first.relay != second.relay else { throw .sameRelay(first.relay) }
    guard first.relay == second.peer, first.peer == second.relay else {
      throw .strangers("\(first.relay) with \(first.peer)", "\(second.relay) with \(second.peer)")
    }
    return day
  }

  fileprivate struct Outcome {
    var handedOver = LedgerSum()
    var answered = LedgerSum()
    var waits = LedgerSum()
    var refused = LedgerSum()
    var accepted = LedgerSum()

    var finding: Finding? {
      if accepted == answered || accepted == answered + waits { return nil }
      if accepted.count < answered.count { return .missing }
      if accepted.count > answered.count + max(0, waits.count) { return .surplus }
      return accepted.count == answered.count || accepted.count == answered.count + waits.count ? .others : .unsettled
    }
  }

  private static func compare(
    _ kind: String, sent: LedgerFile.Hour?, received: LedgerFile.Hour?
  ) throws(Mismatch) -> Outcome {
    var outcome = Outcome()
    if let sent = sent.map({ kind == "messages" ? $0.sent.messages : $0.sent.receipts }) {
      outcome.handedOver = try sum(sent.handedOver)
      outcome.answered = try sum(sent.answered)
      outcome.waits = try sum(sent.waits)
      outcome.refused = try sum(sent.refused)
    }
    if let received = received.map({ kind == "messages" ? $0.received.messages : $0.received.receipts }) {
      outcome.accepted = try sum(received.accepted)
    }
    return outcome
  }

  private static func sum(_ figure: LedgerFile.Figure) throws(Mismatch) -> LedgerSum {
    guard let sum = figure.sum else {
      throw .format("A figure is none, or its digest has not 16 hexadecimal digits: the file was changed.")
    }
    return sum
  }
}

extension LedgerComparison.Total {
  fileprivate mutating func add(_ outcome: LedgerComparison.Outcome, _ kind: String) {
    if kind == "messages" { messages += outcome.accepted.count } else { receipts += outcome.accepted.count }
    unanswered += outcome.accepted.count - outcome.answered.count
  }
}
