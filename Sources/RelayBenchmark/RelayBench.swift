import ArgumentParser
import Foundation

/// `relay-bench`: starts its own servers, measures them, and leaves nothing behind.
@main struct RelayBench: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "relay-bench",
    abstract: "Measure two peered relays on a private PostgreSQL and Redis.",
    discussion: """
      Starts PostgreSQL (every commit waits for the disk), Redis and the operators alpha and beta in a temporary \
      folder on free ports, drives alpha by keep-alive connections, counts what the database holds afterwards, and \
      removes everything. docs/performance.md says what each figure means.

      Exit codes: 0 measured, 1 a request failed or the database holds other than what was answered, 64 wrong usage, \
      130 and 143 interrupted.
      """)

  @Option(help: ArgumentHelp("The executable `relay`; by default the one beside this program.", valueName: "path"))
  var relay: String?

  @Option(
    help: ArgumentHelp("The folder of PostgreSQL's programs; by default the newest of Debian's.", valueName: "path"))
  var postgresPrograms: String?

  @Option(help: ArgumentHelp("Write the figures to this file as JSON too.", valueName: "file"))
  var json: String?

  @Flag(help: "A smoke test: two seconds a scenario, few prekeys. Its figures mean little.")
  var quick = false

  @Option(parsing: .upToNextOption, help: "Only these scenarios, without the bare insert.")
  var only: [Scenario] = []

  @Flag(name: .customLong("handshakes"), help: "Only the scenarios of --only, if any, and TLS handshakes.")
  var isMeasuringHandshakes = false

  @Option(help: "Requests a second of the scenarios in an open loop.")
  var pace: Int?

  @Option(help: "Seconds that each scenario is measured.")
  var seconds: Double?

  @Option(help: "Connections, each with one request under way.")
  var connections: Int?

  @Option(help: "A message's body, in bytes before base64.")
  var bodyBytes: Int?

  func validate() throws {
    guard (seconds ?? 1) > 0, (seconds ?? 1) <= 3600 else { throw ValidationError("--seconds goes from 0 to 3600.") }
    guard (1...1000).contains(connections ?? 1) else { throw ValidationError("--connections goes from 1 to 1000.") }
    guard (1...100_000).contains(pace ?? 1) else { throw ValidationError("--pace goes from 1 to 100000.") }
    guard (1...65_536).contains(bodyBytes ?? 1) else { throw ValidationError("--body-bytes goes from 1 to 65536.") }
  }

  func run() async throws {
    let interruption = Interruption()
    let measuring = Task { try await measure() }
    let listeners = interruption.listen { measuring.cancel() }
    defer { for listener in listeners { listener.cancel() } }
    do {
      let report = try await measuring.value
      print("\n" + report.text)
      if let json { try write(report, to: json) }
    } catch {
      if let signal = interruption.signal { throw ExitCode(128 + signal) }
      note("relay-bench: \(error)")
      throw ExitCode.failure
    }
  }

  /// Starts the servers, measures, and ends them whatever comes of it.
  private func measure() async throws -> BenchmarkReport {
    let programs = ServerGroup.Programs(relay: try relayExecutable(), postgres: postgresPrograms)
    if !Machine.isOptimised { note("This is a debug build: its figures mean nothing.") }
    let workshop = try Workshop()
    do {
      let report = try await measure(programs, in: workshop)
      try await workshop.discard()
      return report
    } catch {
      if !(error is CancellationError) {
        for (server, lines) in workshop.logTails(lines: 10) where !lines.isEmpty {
          note("The end of \(server)'s log:\n" + lines.map { "  | \($0)" }.joined(separator: "\n"))
        }
      }
      // What went wrong first is what counts.
      do { try await workshop.discard() } catch { note("\(workshop.folder.path) could not be removed: \(error)") }
      throw error
    }
  }

  private func measure(_ programs: ServerGroup.Programs, in workshop: Workshop) async throws -> BenchmarkReport {
    let settings = settings
    note("Starting PostgreSQL, Redis and two relays ...")
    let servers = try await ServerGroup(programs, in: workshop)
    note("Running: \(servers.processList). Registering \(settings.connections + 2 * settings.recipients) accounts ...")
    let runner = ScenarioRunner(
      servers: servers, population: try await Population(servers, settings: settings), settings: settings)
    var figures: [ScenarioFigures] = []
    for scenario in only.isEmpty && !isMeasuringHandshakes ? Scenario.allCases : only {
      note("Measuring \(scenario.rawValue) ...")
      figures.append(try await runner.run(scenario))
    }
    var bare: BareInsertFigures?
    var handshakes: HandshakeFigures?
    if only.isEmpty || isMeasuringHandshakes {
      note("Measuring handshakes ...")
      handshakes = try await Handshakes(servers: servers, workshop: workshop, settings: settings).run()
    }
    if only.isEmpty, !isMeasuringHandshakes {
      note("Measuring a bare insert ...")
      bare = try await BareInsert(servers: servers, settings: settings).run()
    }
    return BenchmarkReport(
      machine: try Machine(postgres: servers.postgres.version), settings: settings,
      postgresSettings: PostgresServer.settings, scenarios: figures, bareInsert: bare, handshakes: handshakes,
      ratios: Ratios(figures, bare), hop: Hop(figures))
  }

  private var settings: BenchmarkSettings {
    var settings = BenchmarkSettings()
    if quick {
      settings.seconds = 2
      settings.warmUpSeconds = 0.5
      settings.keysEach = 50
    }
    if let seconds { settings.seconds = seconds }
    if let pace { settings.pacePerSecond = pace }
    if let connections { settings.connections = connections }
    if let bodyBytes { settings.bodyBytes = bodyBytes }
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

  private func write(_ report: BenchmarkReport, to file: String) throws {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.prettyPrinted, .sortedKeys]
    try (encoder.encode(report) + Data("\n".utf8)).write(to: URL(filePath: file))
  }
}

/// Tells the person who waits how far it is. Nobody is left to tell of a closed output.
private func note(_ line: String) { try? FileHandle.standardError.write(contentsOf: Data((line + "\n").utf8)) }
