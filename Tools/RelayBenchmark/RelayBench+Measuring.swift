import Foundation

// The measurements, in their order.

extension RelayBench {
  /// - Throws: `BenchmarkFailure` and `CancellationError`, with everything ended and removed.
  func measure() async throws -> BenchmarkReport {
    let programs = try needsServers ? ServerGroup.Programs(relay: relayExecutable(), postgres: postgresPrograms) : nil
    if !Machine.isOptimised { note("This is a debug build: its figures mean nothing.") }
    // Before anything else runs.
    let tables = isWhole || isMeasuringTable ? try await TableBenchmark(settings: settings).run() : []
    // Without servers that it does not need.
    let push = isWhole || isMeasuringPush ? try await measurePush() : nil
    guard let programs else {
      var report = BenchmarkReport(machine: try Machine(postgres: nil), settings: settings, tables: tables, push: push)
      report.goals = GoalFigures.all(of: report)
      return report
    }
    var report = try await inWorkshop { try await measure(programs, in: $0) }
    report.tables = tables
    report.push = push
    report.goals = GoalFigures.all(of: report)
    return report
  }

  private func measurePush() async throws -> PushFigures {
    try PushBenchmark.prepare()
    let (executable, settings) = (try relayExecutable(), settings)
    return try await inWorkshop { workshop in
      let site = try await PushSite(in: workshop, relay: executable)
      return try await PushBenchmark(site: site, settings: settings).run()
    }
  }

  /// Lets `measure` start servers, and ends them whatever comes of it.
  private func inWorkshop<Value>(_ measure: (Workshop) async throws -> Value) async throws -> Value {
    let workshop = try Workshop()
    do {
      let value = try await measure(workshop)
      try await workshop.discard()
      return value
    } catch {
      if !(error is CancellationError) {
        for (server, lines) in workshop.logTails(lines: 10) where !lines.isEmpty {
          note("The end of \(server)'s log:\n" + lines.map { "  | \($0)" }.joined(separator: "\n"))
        }
      }
      // The first failure is the one that counts.
      do { try await workshop.discard() } catch { note("\(workshop.folder.path) could not be removed: \(error)") }
      throw error
    }
  }

  private func measure(_ programs: ServerGroup.Programs, in workshop: Workshop) async throws -> BenchmarkReport {
    let settings = settings
    if isIdlePart || isMeasuringStorm { try IdleConnections.prepare(settings) }
    guard EjabberdServer.isInstalled || !isMeasuringEjabberd else {
      throw BenchmarkFailure("ejabberd is not installed: install Debian's ejabberd and erlang-p1-pgsql")
    }
    if isWhole || isMeasuringOverload { try Overload.prepare() }
    note("Starting PostgreSQL, Redis and two relays ...")
    let servers = try await ServerGroup(
      programs, workers: settings.citusWorkers, redisNodes: settings.redisNodes, in: workshop)
    note("Running: \(servers.processList).")
    var report = BenchmarkReport(
      machine: try Machine(postgres: servers.postgres.version), settings: settings,
      postgresSettings: PostgresServer.settings)
    report.scenarios = try await scenarios(servers, settings)
    if isIdlePart || isMeasuringStorm {
      let devices = try await IdleDevices(settings.idleConnections, at: servers)
      if isIdlePart {
        report.idleConnections = try await IdleConnections(servers: servers, workshop: workshop, settings: settings)
          .run(devices, note)
      }
      if isMeasuringStorm {
        report.storms = try await ReconnectStorm(servers: servers, workshop: workshop, settings: settings)
          .run(devices, note)
      }
    }
    if isWhole || isMeasuringHandshakes {
      note("Measuring handshakes ...")
      report.handshakes = try await Handshakes(servers: servers, workshop: workshop, settings: settings).run()
      note("Measuring a known peer's handshakes during a flood ...")
      report.handshakeFlood = try await HandshakeFlood(servers: servers, settings: settings).run()
    }
    if isWhole {
      note("Measuring bare inserts ...")
      report.bareInsert = try await BareInsert(
        servers: servers, settings: settings, rowsPerStatement: settings.rowsPerStatement
      ).run()
    }
    if isWhole || isMeasuringSingleRows {
      note("Measuring single durable inserts ...")
      report.singleInsert = try await BareInsert(servers: servers, settings: settings, rowsPerStatement: 1).run()
    }
    if isWhole || isMeasuringOverload {
      note("Registering accounts for the overload ...")
      report.overload = try await Overload(
        servers: servers, population: try await ExtraPopulation(servers, settings: settings, place: 0),
        settings: settings
      ).run()
    }
    if isMeasuringEjabberd || isWhole && EjabberdServer.isInstalled {
      report.ejabberd = try await EjabberdBenchmark(servers: servers, workshop: workshop, settings: settings).run()
    }
    if isMeasuringGrowth { report.growth = try await Growth(servers: servers, settings: settings).run() }
    let lookUps = chosen.filter { $0.subject == .lookUps }
    if !lookUps.isEmpty {
      report.scenarios += try await LookUpScenarios(servers: servers, workshop: workshop, settings: settings)
        .run(lookUps)
    }
    if isWhole || isMeasuringStart {
      (report.directoryStarts, report.freshness) = try await DirectoryStart(
        servers: servers, workshop: workshop, settings: settings
      ).run()
    }
    if isWhole || isMeasuringOblivious { report.oblivious = try await ObliviousBenchmark(servers: servers).run() }
    if let directoryParts {
      report.parts = try await PartsBenchmark(servers: servers, settings: settings, count: directoryParts).run()
    }
    report.ratios = Ratios(report.scenarios, report.bareInsert, single: report.singleInsert)
    report.hops = Hop.all(report.scenarios, from: .messagesLocalPaced, to: .messagesFederatedPaced)
    report.hopsAcross = Hop.all(report.scenarios, from: .deliveriesPaced, to: .deliveriesAcrossPaced)
    return report
  }

  /// All but look-ups, for which there is an operator of its own.
  private func scenarios(_ servers: ServerGroup, _ settings: BenchmarkSettings) async throws -> [ScenarioFigures] {
    let chosen = chosen.filter { $0.subject != .lookUps }
    guard !chosen.isEmpty else { return [] }
    note("Registering accounts ...")
    let isAnyoneAway = chosen.contains { $0.subject != .deliveries }
    let isAnyoneThere = chosen.contains { $0.subject == .deliveries }
    let runner = ScenarioRunner(
      servers: servers, population: isAnyoneAway ? try await Population(servers, settings: settings) : nil,
      live: isAnyoneThere ? try await LivePopulation(servers, settings: settings) : nil, settings: settings)
    var figures: [ScenarioFigures] = []
    for measurement in Measurement.all(of: chosen, at: settings.pacesPerSecond) {
      note("Measuring \(measurement.name) ...")
      figures.append(try await runner.run(measurement))
    }
    return figures
  }

  private var chosen: [Scenario] { isWhole ? Scenario.allCases : only.flatMap(\.elements) }

  /// Nothing was asked for in particular.
  private var isWhole: Bool {
    only.isEmpty && !isMeasuringHandshakes && !isMeasuringIdle && !isMeasuringTable && !isMeasuringStart
      && !isMeasuringOblivious && directoryParts == nil && !isMeasuringPush && !isMeasuringSingleRows
      && !isMeasuringOverload && !isMeasuringGrowth && !isMeasuringEjabberd && !isMeasuringStorm
  }
  private var isIdlePart: Bool {
    settings.idleConnections > 0 && (isWhole || isMeasuringIdle || connectionsIdle != nil && !isMeasuringStorm)
  }
  /// All but the table in process and the push gateway.
  private var needsServers: Bool {
    isWhole || !only.isEmpty || isMeasuringHandshakes || isIdlePart || isMeasuringStart
      || isMeasuringOblivious || directoryParts != nil || isMeasuringSingleRows || isMeasuringOverload
      || isMeasuringGrowth || isMeasuringEjabberd || isMeasuringStorm
  }

  private var settings: BenchmarkSettings {
    var settings = BenchmarkSettings()
    if quick {
      settings.seconds = 2
      settings.warmUpSeconds = 0.5
      settings.pacesPerSecond = [1000]
      settings.growthAccounts = [1000, 10_000]
      settings.growthPeers = [1, 2]
      settings.keysEach = 50
      settings.idleConnections = 500
      settings.stormSeconds = 2
      settings.tableEntries = [100_000]
      settings.tableRounds = 3
      settings.directoryEntries = [100_000]
      settings.directoryStarts = 1
      settings.registrations = 3
    }
    if let seconds { settings.seconds = seconds }
    let paces = pace.flatMap(\.elements)
    if !paces.isEmpty { settings.pacesPerSecond = paces }
    settings.countsSystemCalls = countsSystemCalls
    if let citusWorkers { settings.citusWorkers = citusWorkers }
    if let redisNodes { settings.redisNodes = redisNodes }
    if let connections { settings.connections = connections }
    if let bodyBytes { settings.bodyBytes = bodyBytes }
    if let connectionsIdle { settings.idleConnections = connectionsIdle }
    if let stormSeconds { settings.stormSeconds = stormSeconds }
    let entries = Set(entries.flatMap(\.elements)).sorted()
    if !entries.isEmpty {
      settings.tableEntries = entries
      settings.directoryEntries = entries
    }
    return settings
  }

  private func relayExecutable() throws -> String {
    let own = URL(filePath: try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe"))
    let path = relay.map { URL(filePath: $0).path } ?? own.deletingLastPathComponent().appending(path: "relay").path
    guard FileManager.default.isExecutableFile(atPath: path) else {
      throw BenchmarkFailure("there is no executable \(path): build the product relay, or name it with --relay")
    }
    return path
  }
}
