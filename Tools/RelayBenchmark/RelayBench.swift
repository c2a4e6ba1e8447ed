import ArgumentParser
import Foundation
import RelayCore

/// `relay-bench`: starts its own servers, measures them, and leaves nothing behind.
@main struct RelayBench: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "relay-bench",
    abstract: "Measure two peered relays on a private PostgreSQL and Redis.",
    discussion: """
      Starts PostgreSQL (every commit waits for the disk), Redis and the operators alpha and beta in a temporary \
      folder on free ports, drives alpha by keep-alive connections and WebSockets, counts what the database holds \
      afterwards, and removes everything. The table of the directory (--table) is measured in this program alone. \
      docs/performance.md says what each figure means.

      With --push alone neither is started: the push gateway needs only itself and stand-ins for the providers.

      Exit codes: 0 measured, 1 a request or a delivery failed or the database holds other than what was answered, 64 \
      wrong usage, 130 and 143 interrupted.
      """,
    subcommands: [PushStandIn.self])

  @Option(help: ArgumentHelp("The executable `relay`; by default the one beside this program.", valueName: "path"))
  var relay: String?

  @Option(
    help: ArgumentHelp("The folder of PostgreSQL's programs; by default the newest of Debian's.", valueName: "path"))
  var postgresPrograms: String?

  @Option(help: ArgumentHelp("Write the figures to this file as JSON too.", valueName: "file"))
  var json: String?

  @Flag(help: "A smoke test: two seconds a scenario, few prekeys. Its figures mean little.")
  var quick = false

  @Option(
    parsing: .upToNextOption,
    help: "Only these scenarios, with commas between them, and nothing else that is not asked for.")
  var only: [CommaList<Scenario>] = []

  @Flag(name: .customLong("handshakes"), help: "Only the scenarios of --only, if any, and TLS handshakes.")
  var isMeasuringHandshakes = false

  @Flag(name: .customLong("idle"), help: "Only the scenarios of --only, if any, and idle connections.")
  var isMeasuringIdle = false

  @Flag(
    name: .customLong("reconnect-storm"),
    help: """
      Only the scenarios of --only, if any, and the devices of --connections-idle over TLS, which all lose their \
      connections within a drain's window and come back. Never else.
      """)
  var isMeasuringStorm = false

  @Option(
    help: ArgumentHelp(
      "The drain's window of --reconnect-storm, in seconds: 10, with --quick 2.", valueName: "count"))
  var stormSeconds: Int?

  @Flag(name: .customLong("table"), help: "Only the scenarios of --only, if any, and the directory's table.")
  var isMeasuringTable = false

  @Flag(
    name: .customLong("directory-start"),
    help: "Only the scenarios of --only, if any, starts over a large directory, and when a registration is seen.")
  var isMeasuringStart = false

  @Flag(name: .customLong("oblivious"), help: "Only the scenarios of --only, if any, and oblivious look-ups.")
  var isMeasuringOblivious = false

  @Option(
    help: ArgumentHelp(
      "Only the scenarios of --only, if any, and look-ups over a directory in so many parts, beside one process.",
      valueName: "count"))
  var directoryParts: Int?

  @Flag(name: .customLong("push"), help: "Only the scenarios of --only, if any, and the push gateway.")
  var isMeasuringPush = false

  @Flag(
    name: .customLong("overload"),
    help: "Only the scenarios of --only, if any, and several times the load that can be answered.")
  var isMeasuringOverload = false

  @Flag(
    name: .customLong("ejabberd"),
    help: "Only the scenarios of --only, if any, and ejabberd. Without options it is measured where it is installed.")
  var isMeasuringEjabberd = false

  @Flag(
    name: .customLong("growth"),
    help: "Only the scenarios of --only, if any, and messages at up to a million accounts and 64 peers. Never else.")
  var isMeasuringGrowth = false

  @Option(
    parsing: .upToNextOption,
    help: ArgumentHelp(
      """
      Entries of the directory, with commas between them: --table and --directory-start measure each, look-ups the \
      least. By default 1000000, and of the table 10000000 and 100000000 too, where memory allows; with --quick 100000.
      """, valueName: "count"))
  var entries: [CommaList<Int>] = []

  @Option(help: "Devices that connect and do nothing, plain and over TLS; 0 leaves that out. 10000, with --quick 500.")
  var connectionsIdle: Int?

  @Option(
    parsing: .upToNextOption,
    help: ArgumentHelp(
      "Requests a second of the scenarios in an open loop, with commas between them. 100, 1000 and 3000.",
      valueName: "count"))
  var pace: [CommaList<Int>] = []

  @Flag(
    name: .customLong("system-calls"),
    help: "Count the relays' system calls by perf. That slows every system call down: compare no other figures then.")
  var countsSystemCalls = false

  @Flag(name: .customLong("single-rows"), help: "Only the scenarios of --only, if any, and single durable inserts.")
  var isMeasuringSingleRows = false

  @Option(
    help: ArgumentHelp(
      "Distribute the operators' stores over so many workers of Citus, all on this machine. 0: one PostgreSQL.",
      valueName: "count"))
  var citusWorkers: Int?

  @Option(
    help: ArgumentHelp(
      "Nodes of each operator's Redis Cluster, 3 to 8, all on this machine. 0: one Redis each.", valueName: "count"))
  var redisNodes: Int?

  @Option(help: "Seconds that each scenario is measured.")
  var seconds: Double?

  @Option(help: "Connections, each with one request under way.")
  var connections: Int?

  @Option(help: "A message's body, in bytes before base64.")
  var bodyBytes: Int?

  func validate() throws {
    guard (seconds ?? 1) > 0, (seconds ?? 1) <= 3600 else { throw ValidationError("--seconds goes from 0 to 3600.") }
    guard (1...1000).contains(connections ?? 1) else { throw ValidationError("--connections goes from 1 to 1000.") }
    guard pace.flatMap(\.elements).allSatisfy({ (1...100_000).contains($0) }) else {
      throw ValidationError("--pace goes from 1 to 100000.")
    }
    guard (0...200_000).contains(connectionsIdle ?? 0) else {
      throw ValidationError("--connections-idle goes from 0 to 200000.")
    }
    guard entries.flatMap(\.elements).allSatisfy({ (10_000...1_000_000_000).contains($0) }) else {
      throw ValidationError("--entries go from 10000 to 1000000000.")
    }
    guard (1...DirectoryPartition.countMax).contains(directoryParts ?? 1) else {
      throw ValidationError("--directory-parts goes from 1 to \(DirectoryPartition.countMax).")
    }
    if isMeasuringIdle || isMeasuringStorm, connectionsIdle == 0 {
      throw ValidationError("--idle and --reconnect-storm need connections.")
    }
    guard (1...3600).contains(stormSeconds ?? 1) else { throw ValidationError("--storm-seconds goes from 1 to 3600.") }
    guard (0...8).contains(citusWorkers ?? 0) else { throw ValidationError("--citus-workers goes from 0 to 8.") }
    // redis-cli makes no smaller cluster.
    guard redisNodes ?? 0 == 0 || (3...8).contains(redisNodes ?? 0) else {
      throw ValidationError("--redis-nodes is 0, or goes from 3 to 8.")
    }
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

  private func write(_ report: BenchmarkReport, to file: String) throws {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.prettyPrinted, .sortedKeys]
    try (encoder.encode(report) + Data("\n".utf8)).write(to: URL(filePath: file))
  }
}
