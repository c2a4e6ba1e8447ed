import ChildProcesses
import RelayCore

/// Look-ups of 1,000 contacts in one process with the whole directory, and then over parts that processes of their
/// own hold, by the same clients.
struct PartsBenchmark: Sendable {
  let servers: ServerGroup
  let settings: BenchmarkSettings
  /// How many parts.
  let count: Int

  private static let scenario = Scenario.directory1000

  /// - Throws: `BenchmarkFailure` when a request failed, or an answer holds other contacts than those that are known.
  func run() async throws -> PartsFigures {
    let entries = settings.directoryEntries[0]
    note("Making a directory of \(entries) contacts ...")
    let directory = try await LargeDirectory("zeta", at: servers)
    try await directory.fill(to: entries)
    note("Measuring look-ups in one process ...")
    let home = directory.home
    let process = try await directory.serve(as: "zeta", at: home.ports, entries: entries)
    let (work, whole) = try await servers.counting(process) {
      let accounts = try await Registrar(keyCount: 1).register(settings.connections, firstDigits: 6, at: home.url)
      let work = accounts.map { account in
        LookUpWorkload(
          of: AddressBook(size: Self.scenario.tokensPerRequest, of: entries), by: account, peer: directory.peer)
      }
      return (work, try await measure(work, home.ports.client))
    }
    note("Measuring look-ups over \(count) parts ...")
    let inParts = try await withParts(of: directory, entries) { port in try await measure(work, port) }
    return PartsFigures(
      entries: entries, tokensPerRequest: Self.scenario.tokensPerRequest, parts: count,
      connections: settings.connections, whole: whole, inParts: inParts)
  }

  private func measure(_ work: [LookUpWorkload], _ port: Int) async throws -> PartsFigures.Way {
    try await servers.postgres.settle()
    let result = try await LoadGenerator(
      warmUp: .seconds(settings.warmUpSeconds), window: .seconds(settings.seconds), pacePerSecond: nil
    )
    .run(work, port: port, readUsage: UsageWindow(servers, settings).read)
    try result.demandSuccess(of: Measurement(Self.scenario))
    return PartsFigures.Way(result)
  }

  /// Runs `body` with the client's port of a process that asks `count` others, each with a part.
  private func withParts<Value: Sendable>(
    of directory: LargeDirectory, _ entries: Int, _ body: (Int) async throws -> Value
  ) async throws -> Value {
    let home = directory.home
    let ports = try await FreePorts.find(count)
    let list = ports.enumerated().map { "\($0 + 1)/\(count)=http://127.0.0.1:\($1)" }.joined(separator: ",")
    var processes: [ChildProcess] = []
    for (index, port) in ports.enumerated() {
      processes.append(
        try await home.serve(
          as: "zeta-part-\(index + 1)", at: try await .free(),
          settings: [
            "RELAY_ROLES": "directory", "RELAY_DIRECTORY_PARTITION": "\(index + 1)/\(count)",
            "RELAY_DIRECTORY_PORT": "\(port)", "RELAY_DIRECTORY_PARTS": list,
          ], within: .seconds(30) + .microseconds(50) * entries))
    }
    processes.append(
      try await home.serve(
        as: "zeta-clients", at: home.ports, settings: ["RELAY_ROLES": "clients", "RELAY_DIRECTORY_PARTS": list]))
    return try await servers.counting(processes[...]) { try await body(home.ports.client) }
  }
}

extension ServerGroup {
  /// As `counting`, for several processes. After a failure to start one, the workshop ends the others.
  fileprivate func counting<Value: Sendable>(
    _ processes: ArraySlice<ChildProcess>, _ body: () async throws -> Value
  ) async throws -> Value {
    guard let first = processes.first else { return try await body() }
    return try await counting(first) { try await counting(processes.dropFirst(), body) }
  }
}
