import RelayCore

/// Look-ups of whole address books over HTTP, each account its own again and again, beside a Redis that is asked for
/// the same contacts.
struct LookUpScenarios: Sendable {
  let servers: ServerGroup
  let workshop: Workshop
  let settings: BenchmarkSettings

  /// - Throws: `BenchmarkFailure` when a request failed, or an answer holds other contacts than those that are known.
  func run(_ scenarios: [Scenario]) async throws -> [ScenarioFigures] {
    let entries = settings.directoryEntries[0]
    note("Making a directory of \(entries) contacts ...")
    let directory = try await LargeDirectory("gamma", at: servers)
    try await directory.fill(to: entries)
    let hash = try await HashBenchmark(in: workshop, entries: entries, of: directory.peer)
    let process = try await directory.serve(as: "gamma", at: directory.home.ports, entries: entries)
    return try await servers.counting(process) {
      let accounts = try await Registrar(keyCount: 1).register(
        settings.connections, firstDigits: 7, at: directory.home.url)
      var figures: [ScenarioFigures] = []
      for scenario in scenarios {
        note("Measuring \(scenario.rawValue) ...")
        figures.append(try await run(scenario, directory, accounts, hash))
      }
      return figures
    }
  }

  private func run(
    _ scenario: Scenario, _ directory: LargeDirectory, _ accounts: [BenchmarkAccount], _ hash: HashBenchmark
  ) async throws -> ScenarioFigures {
    let entries = settings.directoryEntries[0]
    let books = accounts.map { _ in AddressBook(size: scenario.tokensPerRequest, of: entries) }
    let work = zip(books, accounts).map { LookUpWorkload(of: $0, by: $1, peer: directory.peer) }
    try await servers.postgres.settle()
    let result = try await LoadGenerator(
      warmUp: .seconds(settings.warmUpSeconds), window: .seconds(settings.seconds), pacePerSecond: nil
    )
    .run(work, port: directory.home.ports.client, readUsage: UsageWindow(servers, settings).read)
    try result.demandSuccess(of: Measurement(scenario))
    note("Measuring HMGET of the same contacts ...")
    let lookUps = LookUpFigures(
      scenario, result, entries: entries, knownShare: AddressBook.knownShare, hash: try await hash.run(books, settings))
    return ScenarioFigures(
      Measurement(scenario), result, peakResident: try servers.readPeakResident(), lookUps: lookUps)
  }
}
