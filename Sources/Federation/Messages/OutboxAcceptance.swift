import RelayCore

/// Takes messages into the outbox, as far as this relay can answer for their devices (docs/federation.md, "The
/// outbox").
struct OutboxAcceptance: Sendable {
  let store: any OutboxStore
  let bounds: OutboxBounds
  let clock: JudgedClock
  let metrics: OutboxMetrics
  let ledger: HandOverLedger

  /// An older confirmation counts no more.
  static let confirmationLife = Duration.seconds(86_400)
  private static let away = Problem(.peerUnavailable, retryAfter: .seconds(2))
  /// Room comes with the peer's return, or by age.
  private static let full = Problem(.peerUnavailable, retryAfter: .seconds(30), reason: "the peer's outbox is full")

  /// - Returns: of each nil when it is held and durable, else why it is not: `Outbox.hold`.
  func accept(_ messages: [PeerSubmission], for relay: RelayName) async -> [Problem?] {
    let problems = await check(messages, for: relay)
    let answerable = zip(messages, problems).compactMap { message, problem in problem == nil ? message : nil }
    var outcomes = await store(answerable, for: relay).makeIterator()
    return problems.map { problem in problem ?? outcomes.next() ?? nil }
  }

  /// Judges each by the devices that the peer confirmed.
  private func check(_ messages: [PeerSubmission], for relay: RelayName) async -> [Problem?] {
    let since = clock.now().adding(.zero - Self.confirmationLife)
    let destinations = Array(Set(messages.map(\.submission.destination)))
    do throws(Problem) {
      let confirmed = try await storing { () async throws(StoreError) in
        try await store.confirmedDevices(of: destinations, at: relay, since: since)
      }
      return messages.map { message in
        guard let devices = confirmed[message.submission.destination] else { return Self.away }
        return message.submission.problem(with: devices)
      }
    } catch {
      return messages.map { _ in error }
    }
  }

  private func store(_ messages: [PeerSubmission], for relay: RelayName) async -> [Problem?] {
    guard !messages.isEmpty else { return [] }
    do throws(StoreError) {
      let crossings = messages.map { ledger.crossings(of: $0.handOver, to: relay) }
      let held = try await store.hold(
        messages, counting: crossings, for: relay, bounds: bounds, now: clock.arrival())
      metrics.messagesHeld(held.count { $0 })
      return held.map { $0 ? nil : Self.full }
    } catch .corrupted where messages.count > 1 {
      // The store refuses something in it: that fails by itself, and not its neighbours.
      var problems: [Problem?] = []
      for message in messages { problems += await store([message], for: relay) }
      return problems
    } catch {
      let problem = Problem(error)
      return messages.map { _ in problem }
    }
  }
}

extension Submission {
  /// The problem that `check` finds.
  fileprivate func problem(with confirmed: [ConfirmedDevice]) -> Problem? {
    do throws(Problem) {
      try check(against: confirmed)
      return nil
    } catch {
      return error
    }
  }
}
