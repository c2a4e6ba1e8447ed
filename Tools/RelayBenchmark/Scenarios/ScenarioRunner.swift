import RelayClient

/// Runs scenarios against the servers and holds each one's figures against what the database says; all but look-ups,
/// which are `LookUpScenarios`'.
struct ScenarioRunner: Sendable {
  let servers: ServerGroup
  /// The population of a scenario that is measured; nil for the others.
  let population: Population?
  let live: LivePopulation?
  let settings: BenchmarkSettings

  /// - Throws: `BenchmarkFailure` when a request failed, or the database holds other than what was answered.
  func run(_ measurement: Measurement) async throws -> ScenarioFigures {
    let scenario = measurement.scenario
    if scenario.namesNoRelay { try await waitUntilListed(registered(population)) }
    try await servers.postgres.settle()
    let rowsBefore = try await rows(scenario)
    let result: LoadResult
    switch scenario.subject {
    case .messages: result = try await drive(measurement, messages(scenario))
    case .prekeys: result = try await drive(measurement, draws(scenario))
    case .deliveries:
      return try await Deliveries(servers: servers, population: registered(live), settings: settings)
        .run(measurement)
    case .lookUps: throw BenchmarkFailure("\(scenario.rawValue): look-ups have a runner of their own")
    }
    try result.demandSuccess(of: measurement)
    let changed = abs(try await rows(scenario) - rowsBefore)
    guard changed == result.rowsChanged else {
      throw BenchmarkFailure(
        "\(measurement.name): by the answers \(result.rowsChanged) rows of \(scenario.table) changed, in truth \(changed)"
      )
    }
    return ScenarioFigures(measurement, result, peakResident: try servers.readPeakResident())
  }

  private func messages(_ scenario: Scenario) throws -> [MessageWorkload] {
    let (population, body, now) = (try registered(population), randomBytes(settings.bodyBytes), RelayClient.now())
    return try population.senders.enumerated().map { index, sender in
      try MessageWorkload(
        from: sender, to: others(scenario, population), beginningAt: firstTurn(index), relay: relay(scenario),
        body: body, timestamp: now)
    }
  }

  private func draws(_ scenario: Scenario) throws -> [DrawWorkload] {
    let population = try registered(population)
    return try population.senders.enumerated().map { index, sender in
      try DrawWorkload(
        by: sender, of: others(scenario, population), beginningAt: firstTurn(index), relay: relay(scenario))
    }
  }

  private func registered<Accounts>(_ accounts: Accounts?) throws -> Accounts {
    guard let accounts else { throw BenchmarkFailure("the accounts of a scenario were not registered") }
    return accounts
  }

  private func relay(_ scenario: Scenario) -> String? {
    scenario.isFederated && !scenario.namesNoRelay ? servers.beta.name : nil
  }
  private func others(_ scenario: Scenario, _ population: Population) -> [BenchmarkAccount] {
    scenario.isFederated ? population.betasRecipients : population.alphasRecipients
  }

  /// Alpha copies beta's listing now and then.
  private func waitUntilListed(_ population: Population) async throws {
    guard let asking = population.senders.first, let number = PhoneNumber(asking.number) else { return }
    let client = try RelayClient(url: servers.alpha.url)
      .with(Credentials(Correspondent(number), password: asking.password))
    let tokens = population.betasRecipients.compactMap { PhoneNumber($0.number).map(ContactTokens.token(for:)) }
    let deadline = ContinuousClock.now + Self.listingLimit
    while try await client.lookUpInClear(tokens).count < tokens.count {
      guard ContinuousClock.now < deadline else {
        throw BenchmarkFailure("alpha does not know beta's accounts after \(Self.listingLimit)")
      }
      try await Task.sleep(for: .milliseconds(200))
    }
  }
  private static let listingLimit = Duration.seconds(120)

  private func drive(_ measurement: Measurement, _ workloads: [some Workload]) async throws -> LoadResult {
    try await LoadGenerator(
      warmUp: .seconds(settings.warmUpSeconds), window: .seconds(settings.seconds),
      pacePerSecond: measurement.pacePerSecond
    )
    .run(workloads, port: servers.alpha.ports.client, readUsage: UsageWindow(servers, settings).read)
  }

  /// The connections begin spread over the recipients.
  private func firstTurn(_ connection: Int) -> Int { connection * settings.recipients / settings.connections }

  private func rows(_ scenario: Scenario) async throws -> Int {
    let home = scenario.isFederated ? servers.beta : servers.alpha
    let table = scenario.table
    return try await servers.postgres.with(home.database) { try $0.integer("SELECT count(*) FROM \(table)") }
  }
}
