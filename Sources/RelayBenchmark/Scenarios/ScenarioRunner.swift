import RelayClient

/// Runs scenarios against the servers and holds each one's figures against what the database says.
struct ScenarioRunner: Sendable {
  let servers: ServerGroup
  let population: Population
  let settings: BenchmarkSettings

  /// - Throws: `BenchmarkFailure` when a request failed, or the database holds other than what was answered.
  func run(_ scenario: Scenario) async throws -> ScenarioFigures {
    try await settle()
    let rowsBefore = try await rows(scenario)
    let result = try await load(scenario)
    guard result.failures.isEmpty else {
      let list = result.failures.map { "\($0.value) times \($0.key)" }.sorted().joined(separator: "; ")
      throw BenchmarkFailure("\(scenario.rawValue): requests failed: \(list)")
    }
    guard result.measured > 0 else { throw BenchmarkFailure("\(scenario.rawValue): nothing was answered") }
    let changed = abs(try await rows(scenario) - rowsBefore)
    guard changed == result.rowsChanged else {
      throw BenchmarkFailure(
        "\(scenario.rawValue): by the answers \(result.rowsChanged) rows of \(scenario.table) changed, in truth \(changed)"
      )
    }
    return ScenarioFigures(scenario, result, peakResident: try servers.readPeakResident())
  }

  private func load(_ scenario: Scenario) async throws -> LoadResult {
    let relay = scenario.isFederated ? servers.beta.name : nil
    let others = scenario.isFederated ? population.betasRecipients : population.alphasRecipients
    switch scenario {
    case .messagesLocal, .messagesFederated, .messagesLocalPaced, .messagesFederatedPaced:
      let body = randomBytes(settings.bodyBytes)
      let now = RelayClient.now()
      return try await drive(
        scenario,
        population.senders.enumerated().map { index, sender in
          try MessageWorkload(
            from: sender, to: others, beginningAt: firstTurn(index), relay: relay, body: body, timestamp: now)
        })
    case .prekeysLocal, .prekeysFederated:
      return try await drive(
        scenario,
        population.senders.enumerated().map { index, sender in
          try DrawWorkload(by: sender, of: others, beginningAt: firstTurn(index), relay: relay)
        })
    }
  }

  private func drive(_ scenario: Scenario, _ workloads: [some Workload]) async throws -> LoadResult {
    try await LoadGenerator(
      warmUp: .seconds(settings.warmUpSeconds), window: .seconds(settings.seconds),
      pacePerSecond: scenario.isPaced ? settings.pacePerSecond : nil
    )
    .run(workloads, port: servers.alpha.ports.client, readUsage: servers.readUsage)
  }

  /// The connections begin spread over the recipients.
  private func firstTurn(_ connection: Int) -> Int { connection * settings.recipients / settings.connections }

  /// A checkpoint now, so that none left over from the scenario before falls into this one.
  private func settle() async throws { try await servers.postgres.with("postgres") { try $0.execute("CHECKPOINT") } }

  private func rows(_ scenario: Scenario) async throws -> Int {
    let home = scenario.isFederated ? servers.beta : servers.alpha
    let table = scenario.table
    return try await servers.postgres.with(home.database) { try $0.integer("SELECT count(*) FROM \(table)") }
  }
}
