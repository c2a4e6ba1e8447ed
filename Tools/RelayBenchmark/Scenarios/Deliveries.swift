import RelayClient

/// Messages for devices that are connected: what it takes until each was accepted, stored, delivered, acknowledged and
/// removed, and its sender was told so in the same way.
struct Deliveries: Sendable {
  let servers: ServerGroup
  let population: LivePopulation
  let settings: BenchmarkSettings

  /// How long the rows of what was acknowledged may take to go.
  private static let removalLimit = Duration.seconds(30)

  /// - Throws: `BenchmarkFailure` when anything failed, came twice, out of order or not at all, or the database holds
  ///   other rows than before.
  func run(_ measurement: Measurement) async throws -> ScenarioFigures {
    guard measurement.scenario.isAcross else {
      return try await run(measurement, recipientsPort: servers.alpha.ports.client)
    }
    return try await servers.withAnotherAlpha { try await run(measurement, recipientsPort: $0.client) }
  }

  private func run(_ measurement: Measurement, recipientsPort: Int) async throws -> ScenarioFigures {
    let rowsBefore = try await rows()
    let result = try await load(measurement, recipientsPort: recipientsPort)
    guard result.failures.isEmpty else {
      let list = result.failures.map { "\($0.value) times \($0.key)" }.sorted().joined(separator: "; ")
      throw BenchmarkFailure("\(measurement.name): \(list)")
    }
    guard result.measured > 0 else { throw BenchmarkFailure("\(measurement.name): nothing was delivered") }
    try await removed(measurement, downTo: rowsBefore)
    return ScenarioFigures(measurement, result, peakResident: try servers.readPeakResident())
  }

  private func load(_ measurement: Measurement, recipientsPort: Int) async throws -> LiveResult {
    let body = randomBytes(settings.bodyBytes)
    let now = RelayClient.now()
    let carrier: MessageWorkload.Carrier = measurement.scenario.isOverSocket ? .socket : .http
    let work = try population.senders.enumerated().map { index, sender in
      LiveLoad.Work(
        sender: sender,
        messages: try MessageWorkload(
          from: sender, to: population.recipients,
          beginningAt: index * settings.recipients / settings.connections, relay: nil, body: body, timestamp: now,
          over: carrier))
    }
    return try await LiveLoad(
      warmUp: .seconds(settings.warmUpSeconds), window: .seconds(settings.seconds),
      pacePerSecond: measurement.pacePerSecond, isOverSocket: measurement.scenario.isOverSocket,
      sendersPort: servers.alpha.ports.client, recipientsPort: recipientsPort
    )
    .run(work, firstTimestamp: now, to: population.recipients, readUsage: UsageWindow(servers, settings).read)
  }

  /// Acknowledgements are gathered, so the last rows go a moment after the last of them was sent.
  private func removed(_ measurement: Measurement, downTo expected: Int) async throws {
    let deadline = ContinuousClock.now + Self.removalLimit
    var found = try await rows()
    while found != expected {
      guard ContinuousClock.now < deadline else {
        throw BenchmarkFailure(
          "\(measurement.name): everything was acknowledged, but \(found - expected) rows too many are in messages")
      }
      try await Task.sleep(for: .milliseconds(50))
      found = try await rows()
    }
  }

  private func rows() async throws -> Int {
    try await servers.postgres.with(servers.alpha.database) { try $0.integer("SELECT count(*) FROM messages") }
  }
}
