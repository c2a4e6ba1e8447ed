/// The contents of a ledger, and their faults.
///
/// The promise: an accepted message is delivered to its recipient at least once and, after de-duplication by id,
/// exactly once, unaltered, and in the order of acceptance. A message comes once over one connection, and over none
/// that was opened when its removal was known. A message without an answer may have been accepted or not.
package struct DeliveryAudit: Sendable, CustomStringConvertible {
  /// `earlier` was accepted before `later` was submitted, and `later` was delivered first.
  package struct Reordered: Sendable, Equatable, CustomStringConvertible {
    package let device: String
    package let earlier: MessageID
    package let later: MessageID
    package var description: String { "\(device) got \(later) before \(earlier)" }
  }

  package private(set) var submitted = 0
  package private(set) var accepted = 0
  /// Different ones.
  package private(set) var delivered = 0
  /// Deliveries of what had been delivered before: what de-duplication takes away.
  package private(set) var repeated = 0
  /// Delivered though the sender never had an answer.
  package private(set) var unanswered = 0
  /// Connections over which anything was delivered.
  package private(set) var connections = 0

  /// Accepted and never delivered to the recipient.
  package private(set) var lost: [MessageID] = []
  /// One message under two ids: the second of them. Or one that came over one connection twice.
  package private(set) var doubled: [MessageID] = []
  /// Delivered over a connection that was opened after the sender had been told that the message was acknowledged.
  package private(set) var returned: [MessageID] = []
  /// Delivered and never submitted, or to another device than the recipient.
  package private(set) var foreign: [MessageID] = []
  /// Delivered with another body than was submitted.
  package private(set) var altered: [MessageID] = []
  /// For each `later` the worst `earlier` at most.
  package private(set) var reordered: [Reordered] = []

  /// From the answer 200 to the first delivery, ascending; zero where the delivery came first.
  private var delays: [Duration] = []

  package var isClean: Bool {
    lost.isEmpty && doubled.isEmpty && returned.isEmpty && foreign.isEmpty && altered.isEmpty && reordered.isEmpty
  }
  /// From the answer 200 to the first delivery.
  package var longestDelay: Duration { delays.last ?? .zero }

  init(
    _ submissions: [MessageID: DeliveryLedger.Submission], _ deliveries: [String: [DeliveryLedger.Delivery]],
    _ receipts: [MessageID: DeliveryLedger.Instant]
  ) {
    submitted = submissions.count
    var arrived: Set<MessageID> = []
    for (device, all) in deliveries.sorted(by: { $0.key < $1.key }) {
      connections += Set(all.map(\.connection)).count
      var firsts: [DeliveryLedger.Delivery] = []
      var seen: Set<MessageID> = []
      // Which the tests make different for each message.
      var bodies: Set<[UInt8]> = []
      var seenOver: [MessageID: Set<Int>] = [:]
      for delivery in all {
        if !seenOver[delivery.id, default: []].insert(delivery.connection).inserted { doubled.append(delivery.id) }
        if let known = receipts[delivery.id], known < delivery.since { returned.append(delivery.id) }
        guard seen.insert(delivery.id).inserted else {
          repeated += 1
          check(delivery, submissions[delivery.id])
          continue
        }
        // A receiver knows a double by nothing but its id: the same words under another are one more message to it.
        if !bodies.insert(delivery.body).inserted { doubled.append(delivery.id) }
        guard let submission = submissions[delivery.id], submission.recipient == device else {
          foreign.append(delivery.id)
          continue
        }
        check(delivery, submission)
        firsts.append(delivery)
        arrived.insert(delivery.id)
        if let accepted = submission.accepted {
          delays.append(max(.zero, delivery.arrived - accepted))
        } else {
          unanswered += 1
        }
      }
      order(firsts, device, submissions)
    }
    delivered = arrived.count
    for (id, submission) in submissions where submission.accepted != nil {
      accepted += 1
      if !arrived.contains(id) { lost.append(id) }
    }
    lost.sort { "\($0)" < "\($1)" }
    delays.sort()
  }

  private mutating func check(_ delivery: DeliveryLedger.Delivery, _ submission: DeliveryLedger.Submission?) {
    if let submission, submission.body != delivery.body { altered.append(delivery.id) }
  }

  /// From the last to the first, with the earliest acceptance of all that came behind.
  private mutating func order(
    _ firsts: [DeliveryLedger.Delivery], _ device: String, _ submissions: [MessageID: DeliveryLedger.Submission]
  ) {
    var earliest: (accepted: DeliveryLedger.Instant, id: MessageID)?
    var found: [Reordered] = []
    for delivery in firsts.reversed() {
      guard let submission = submissions[delivery.id] else { continue }
      if let earliest, earliest.accepted < submission.begun {
        found.append(Reordered(device: device, earlier: earliest.id, later: delivery.id))
      }
      if let accepted = submission.accepted, earliest.map({ accepted < $0.accepted }) ?? true {
        earliest = (accepted, delivery.id)
      }
    }
    reordered += found.reversed()
  }

  /// The delay that `share` of all deliveries kept.
  private func delay(_ share: Double) -> Duration {
    delays.isEmpty ? .zero : delays[min(delays.count - 1, Int(Double(delays.count) * share))]
  }

  package var description: String {
    var lines = [
      "submitted \(submitted), accepted \(accepted), delivered \(delivered) (\(unanswered) of them without an answer)",
      "repeated \(repeated) (taken away by id), over \(connections) connections",
      "from acceptance to delivery: half within \(Self.text(delay(0.5))), 99 of 100 within \(Self.text(delay(0.99))), all "
        + "within \(Self.text(longestDelay))",
      "lost \(lost.count), doubled \(doubled.count), returned \(returned.count), foreign \(foreign.count), altered "
        + "\(altered.count), reordered \(reordered.count)",
    ]
    for (word, offenders) in [
      ("lost", lost.map(\.description)), ("doubled", doubled.map(\.description)),
      ("returned", returned.map(\.description)),
      ("foreign", foreign.map(\.description)), ("altered", altered.map(\.description)),
      ("reordered", reordered.map(\.description)),
    ] where !offenders.isEmpty {
      lines.append("\(word): " + offenders.prefix(5).joined(separator: ", ") + (offenders.count > 5 ? ", ..." : ""))
    }
    return lines.map { "  ledger: " + $0 }.joined(separator: "\n")
  }

  package static func text(_ duration: Duration) -> String {
    let millis = Int((duration / .milliseconds(1)).rounded())
    return millis < 10_000 ? "\(millis) ms" : "\(millis / 1000) s"
  }
}
