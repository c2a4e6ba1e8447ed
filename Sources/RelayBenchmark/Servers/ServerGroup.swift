import ChildProcesses
import Glibc

/// Two peered operators, alpha and beta, each with one relay process, over one PostgreSQL and a Redis each.
struct ServerGroup: Sendable {
  let postgres: PostgresServer
  let alpha: RelayOperator
  let beta: RelayOperator
  private let processes: [(ServerClass, ChildProcess)]

  struct Programs: Sendable {
    /// The executable `relay`.
    let relay: String
    /// The folder of PostgreSQL's programs; nil looks for it.
    let postgres: String?
  }

  /// Starts everything. What was started before a failure is the workshop's to end.
  init(_ programs: Programs, in workshop: Workshop) async throws {
    let ports = try await FreePorts.find(9)
    let postgres = try await PostgresServer.start(in: workshop, programs: programs.postgres, port: ports[0])
    var processes: [(ServerClass, ChildProcess)] = [(.postgres, postgres.process)]
    var operators: [RelayOperator] = []
    for (index, name) in ["alpha", "beta"].enumerated() {
      try await postgres.with("postgres") { try $0.execute("CREATE DATABASE \(name)") }
      let redis = try await RedisServer.start("redis-\(name)", in: workshop, port: ports[1 + index])
      let first = 3 + 3 * index
      let one = try RelayOperator(
        name: name,
        ports: RelayOperator.Ports(
          client: ports[first], federation: ports[first + 1], administration: ports[first + 2]),
        executable: programs.relay, workshop: workshop, postgres: postgres, redis: redis)
      processes.append((.redis, redis.process))
      processes.append((index == 0 ? .alpha : .beta, try await one.start()))
      operators.append(one)
    }
    self.postgres = postgres
    self.processes = processes
    alpha = operators[0]
    beta = operators[1]
    let invited = try await alpha.relay("peer", "invite")
    guard let invitation = invited.split(whereSeparator: \.isNewline).last.map(String.init) else {
      throw BenchmarkFailure("alpha: relay peer invite printed no invitation")
    }
    try await beta.relay("peer", "accept", invitation)
  }

  /// CPU time of every server process since its start, and what to compare it with.
  func readUsage() throws -> ServerUsage {
    var usage = ServerUsage(
      ownSeconds: try ProcessUsage.cpuSecondsOfProcess(getpid()),
      machineSeconds: try ProcessUsage.cpuSecondsOfMachine())
    for (serverClass, process) in processes {
      usage.cpuSeconds[serverClass, default: 0] += try ProcessUsage.cpuSecondsOfFamily(process.pid)
    }
    return usage
  }

  /// The most memory that each relay has had resident so far, in bytes.
  func readPeakResident() throws -> [ServerClass: Int] {
    var peaks: [ServerClass: Int] = [:]
    for (serverClass, process) in processes where serverClass == .alpha || serverClass == .beta {
      peaks[serverClass] = try ProcessUsage.peakResidentBytes(process.pid)
    }
    return peaks
  }

  /// What runs under which process id, for a profiler.
  var processList: String {
    processes.map { "\($0.0.rawValue) \($0.1.pid)" }.joined(separator: ", ")
  }
}
