import Foundation
import RelayClient
import Synchronization
import TestSupport

/// A device that stays connected, whatever becomes of its connections, acknowledges what comes, and writes it down.
final class LiveDevice: Sendable {
  let number: PhoneNumber
  let credentials: Credentials
  private let key: SignalingKey
  private let ledger: DeliveryLedger
  private let habit: Habit
  private let options: RelayClient.LiveOptions
  private let state = Mutex(State())

  private struct State {
    /// Sends over the connection that the device has; nil while it has none.
    var client: RelayClient?
    var connections = 0
    var receipts = 0
    /// Since when it has none, or nil while it has one.
    var lostAt: ContinuousClock.Instant?
    var longestWithout = Duration.zero
    /// How connections ended, and attempts failed, by description.
    var ends: [String: Int] = [:]
    var closes: [Close] = []
    /// When attempts to connect failed without an answer: the relay may have opened the connection all the same, later.
    var unanswered: [ContinuousClock.Instant] = []
    /// Closed as the older one of two, where the device had opened no other that could be younger.
    var unexplained: [String] = []
    /// Attempts to connect that failed.
    var failures: [String] = []
    /// Faults that a relay may never show, whatever dies.
    var faults: [String] = []
    var refusals = 0
    /// Refused, and not delivered again so far.
    var refused: Set<MessageID> = []
    /// Begins and ends of connections.
    var journal: [String] = []
  }

  /// How it treats what comes.
  enum Habit: CaseIterable, Sendable {
    case acknowledgesAtOnce
    case acknowledgesSlowly
    /// Refuses the first messages that it ever gets: they come again on its next connection.
    case refusesFirst
  }

  /// The relay ended a connection.
  struct Close: Sendable {
    let code: Int
    let at: ContinuousClock.Instant
  }

  /// Registers a fresh number at `relay`.
  init(
    registeredAt relay: RelayClient, ledger: DeliveryLedger, habit: Habit = .acknowledgesAtOnce,
    options: RelayClient.LiveOptions = .init()
  ) async throws {
    guard let number = PhoneNumber(TestDevice.freshNumber()) else { throw TestFailure("no number") }
    self.number = number
    self.ledger = ledger
    self.habit = habit
    self.options = options
    credentials = .random(for: number)
    let attributes = DeviceAttributes.random()
    key = try SignalingKey(attributes.signalingKey)
    let credentials = credentials
    try await eventually("\(number) is registered", every: .milliseconds(200)) {
      do {
        guard let code = try await relay.requestCode(for: number, by: .development) else {
          throw TestFailure("no code")
        }
        try await relay.with(credentials).confirm(code: code, attributes: attributes)
        return true
      } catch RelayClientError.refused(503, _, _) {
        // A server that was just started on a busy machine may be slow.
        return false
      }
    }
  }

  /// Its requests go over the connection that the device has at the moment.
  var client: RelayClient? { state.withLock { $0.client } }
  var isConnected: Bool { state.withLock { $0.connections > 0 && $0.lostAt == nil } }
  var connections: Int { state.withLock { $0.connections } }
  var receipts: Int { state.withLock { $0.receipts } }
  /// The longest time between the end of a connection and the begin of the next.
  var longestWithout: Duration { state.withLock { $0.longestWithout } }
  var ends: [String: Int] { state.withLock { $0.ends } }
  var closes: [Close] { state.withLock { $0.closes } }
  var failures: [String] { state.withLock { $0.failures } }
  /// Ends with 1000 that no newer connection of the device explains.
  var unexplained: [String] { state.withLock { $0.unexplained } }
  var faults: [String] { state.withLock { $0.faults } }
  var refusals: Int { state.withLock { $0.refusals } }
  /// Refused, and not delivered again so far.
  var refused: Set<MessageID> { state.withLock { $0.refused } }
  var journal: [String] { state.withLock { $0.journal } }
  private static var now: String { Date.now.formatted(Date.ISO8601FormatStyle(includingFractionalSeconds: true)) }

  /// Connects by one of `entrances`, drawn at random, and again when the connection ends, until the task is cancelled.
  func stayConnected(by entrances: [RelayClient], _ random: SeededGenerator) async {
    var random = random
    while !Task.isCancelled {
      guard let entrance = entrances.randomElement(using: &random) else { return }
      do {
        try await connect(by: entrance)
      } catch {
        if !Task.isCancelled { note(error) }
      }
      // Clients come back at different times.
      do { try await Task.sleep(for: .milliseconds(Int.random(in: 20...250, using: &random))) } catch { return }
    }
  }

  /// One connection, to its end.
  func connect(by entrance: RelayClient) async throws {
    let since = ContinuousClock.now
    let live: LiveSession
    do {
      live = try await entrance.with(credentials).connect(signalingKey: key, options: options)
    } catch {
      noteUnanswered(error)
      throw error
    }
    let connection = state.withLock { state in
      state.connections += 1
      if let lostAt = state.lostAt { state.longestWithout = max(state.longestWithout, .now - lostAt) }
      (state.lostAt, state.client) = (nil, live.client)
      state.journal.append("\(Self.now) connection \(state.connections) begins at \(entrance.url)")
      return state.connections
    }
    defer { state.withLock { ($0.lostAt, $0.client) = (.now, nil) } }
    for try await delivery in live.deliveries {
      let message = try delivery.message
      if message.type == Self.receipt {
        state.withLock { $0.receipts += 1 }
        ledger.receipted(MessageID(number.e164, message.timestamp))
      } else {
        let id = MessageID(message.source.number.e164, message.timestamp)
        ledger.delivered(id, body: message.body, to: number.e164, connection: connection, since: since)
        if wouldRefuse(id) {
          try await delivery.refuse()
          continue
        }
        if habit == .acknowledgesSlowly { try await Task.sleep(for: Self.slowness) }
      }
      try await delivery.acknowledge()
    }
    await live.close()
  }

  /// A relay that refused it has not opened it.
  private func noteUnanswered(_ error: any Error) {
    if case RelayClientError.refused = error { return }
    state.withLock { $0.unanswered.append(.now) }
  }

  /// A relay gives a connection up after 30 s of silence in these tests, and takes as long to open one at most.
  private static let ghostLife = Duration.seconds(60)

  private func wouldRefuse(_ id: MessageID) -> Bool {
    state.withLock { state in
      // A message that comes again is taken.
      if state.refused.remove(id) != nil { return false }
      guard habit == .refusesFirst, state.refusals < Self.refusalsMax else { return false }
      state.refusals += 1
      state.refused.insert(id)
      return true
    }
  }

  private static let refusalsMax = 3
  private static let slowness = Duration.milliseconds(100)

  /// The type of the word that a message was acknowledged (reference 2.8).
  private static let receipt = 5

  private func note(_ error: any Error) {
    state.withLock { state in
      switch error {
      case ConnectionEnd.closedByRelay(let code, _):
        state.closes.append(Close(code: code, at: .now))
        // One after the other: no connection of the device is younger than its last, but one whose opening was not
        // answered.
        if code == 1000, !state.unanswered.contains(where: { $0 > .now - Self.ghostLife }) {
          state.unexplained.append("\(number): connection \(state.connections), \(Self.now)")
        }
      case ConnectionEnd.lost, ConnectionEnd.closedHere: break
      case let error as RelayClientError:
        state.failures.append("\(error)")
        if case .refused(let status, _, _) = error, status != 503 { state.faults.append("\(error)") }
      // A relay that breaks the protocol, or a delivery that does not open.
      default: state.faults.append("\(error)")
      }
      state.ends["\(error)", default: 0] += 1
      state.journal.append("\(Self.now) \(error)")
    }
  }
}
