// The account of what was accepted and what was delivered, and what is wrong between the two.

import Foundation
import Synchronization

/// The id by which clients de-duplicate: a message's source and its sender's timestamp.
package struct MessageID: Hashable, Sendable, CustomStringConvertible {
  package let source: String
  package let timestamp: Int64
  package init(_ source: String, _ timestamp: Int64) {
    self.source = source
    self.timestamp = timestamp
  }
  package var description: String { "\(source)/\(timestamp)" }
}

/// Written by senders and receivers of one process at once, whose times are of one monotonic clock.
package final class DeliveryLedger: Sendable {
  package typealias Instant = ContinuousClock.Instant

  struct Submission: Sendable {
    let recipient: String
    let body: [UInt8]
    /// Before the first attempt was sent: the relay cannot have known of it earlier.
    let begun: Instant
    /// When the answer 200 had come; nil when none did: it may have been accepted all the same.
    var accepted: Instant?
  }

  struct Delivery: Sendable {
    let id: MessageID
    let body: [UInt8]
    /// The number of the device's connection, counted by the device.
    let connection: Int
    /// Before the connection was asked for: the relay read nothing for it earlier.
    let since: Instant
    let arrived: Instant
  }

  private struct State {
    var submissions: [MessageID: Submission] = [:]
    /// By device, in the order of arrival.
    var deliveries: [String: [Delivery]] = [:]
    var acceptedCount = 0
    /// Accepted, and not delivered to its recipient so far.
    var owed: Set<MessageID> = []
    var arrived: Set<MessageID> = []
    /// When the sender had the receipt: the relay had removed the message before.
    var receipts: [MessageID: Instant] = [:]
  }

  private let state = Mutex(State())

  package init() {}

  /// Call it before the first attempt is sent. Repeated attempts are the same submission.
  package func submitting(_ id: MessageID, to recipient: String, body: [UInt8], at time: Instant = .now) {
    state.withLock { state in
      if state.submissions[id] == nil {
        state.submissions[id] = Submission(recipient: recipient, body: body, begun: time)
      }
    }
  }

  /// Call it when the answer 200 has come.
  package func accepted(_ id: MessageID, at time: Instant = .now) {
    state.withLock { state in
      guard state.submissions[id]?.accepted == nil else { return }
      state.submissions[id]?.accepted = time
      state.acceptedCount += 1
      if !state.arrived.contains(id) { state.owed.insert(id) }
    }
  }

  /// Call it for each delivery to `device`, in the order of their arrival, before it is acknowledged.
  /// - Parameter since: before the connection was asked for.
  package func delivered(
    _ id: MessageID, body: [UInt8], to device: String, connection: Int, since: Instant, at time: Instant = .now
  ) {
    state.withLock { state in
      state.deliveries[device, default: []].append(
        Delivery(id: id, body: body, connection: connection, since: since, arrived: time))
      guard state.submissions[id]?.recipient == device else { return }
      state.arrived.insert(id)
      state.owed.remove(id)
    }
  }

  /// Call it when the sender is told that the message was acknowledged.
  package func receipted(_ id: MessageID, at time: Instant = .now) {
    state.withLock { state in
      if state.receipts[id] == nil { state.receipts[id] = time }
    }
  }

  package var acceptedCount: Int { state.withLock { $0.acceptedCount } }
  /// How many are accepted and not delivered so far.
  package var owedCount: Int { state.withLock { $0.owed.count } }

  package func recipient(of id: MessageID) -> String? { state.withLock { $0.submissions[id]?.recipient } }

  /// When it was submitted and accepted, and what its recipient was delivered around that time. For people.
  package func story(of id: MessageID) -> [String] {
    let (submission, deliveries) = state.withLock { state in
      (state.submissions[id], state.submissions[id].flatMap { state.deliveries[$0.recipient] } ?? [])
    }
    guard let submission else { return [] }
    let wall = Date.now - TimeInterval((ContinuousClock.now - submission.begun) / .seconds(1))
    func time(_ instant: Instant) -> String {
      (wall + TimeInterval((instant - submission.begun) / .seconds(1)))
        .formatted(Date.ISO8601FormatStyle(includingFractionalSeconds: true))
    }
    let index = deliveries.firstIndex { $0.arrived > submission.begun } ?? deliveries.count
    let around = deliveries[max(0, index - 4)..<min(deliveries.count, index + 8)]
    return ["\(time(submission.begun)) submitted", "\(submission.accepted.map(time) ?? "never") accepted"]
      + around.map { "\(time($0.arrived)) delivered \($0.id) over connection \($0.connection)" }
  }

  /// The state of the books when everything should have arrived.
  package func audit() -> DeliveryAudit {
    let (submissions, deliveries, receipts) = state.withLock { ($0.submissions, $0.deliveries, $0.receipts) }
    return DeliveryAudit(submissions, deliveries, receipts)
  }
}
