import ChildProcesses
import Foundation
import Glibc
import Synchronization

/// Two peered operators, alpha and beta, each with one relay process, over one PostgreSQL and a Redis each. In place of
/// the one PostgreSQL there may be a coordinator of Citus with workers, and in place of each Redis a cluster.
final class ServerGroup: Sendable {
  private let stores: StoreServers
  /// The server that relays connect to.
  var postgres: PostgresServer { stores.postgres }
  let alpha: RelayOperator
  let beta: RelayOperator
  private let processes: Mutex<[(ServerClass, ChildProcess)]>
  private let programs: Programs
  private let redisNodes: Int
  private let workshop: Workshop
  /// Where all of it works.
  var folder: URL { workshop.folder }

  struct Programs: Sendable {
    /// The executable `relay`.
    let relay: String
    /// The folder of PostgreSQL's programs; nil looks for it.
    let postgres: String?
  }

  /// Starts everything. After a failure, the workshop ends the processes that were started.
  /// - Parameters:
  ///   - workers: of Citus; 0 for one PostgreSQL without.
  ///   - redisNodes: of each operator's Redis Cluster; 0 for one Redis without.
  init(_ programs: Programs, workers: Int = 0, redisNodes: Int = 0, in workshop: Workshop) async throws {
    let redisPorts = SharedRedis.portCount(nodes: redisNodes)
    let ports = try await FreePorts.find(7 + workers + 2 * redisPorts)
    let stores = try await StoreServers.start(
      in: workshop, programs: programs.postgres, ports: [ports[0]] + ports[7..<(7 + workers)])
    var processes: [(ServerClass, ChildProcess)] = [(.postgres, stores.postgres.process)]
    processes += stores.workers.map { (.worker, $0.process) }
    var operators: [RelayOperator] = []
    for (index, name) in ["alpha", "beta"].enumerated() {
      let first = 1 + 3 * index
      let (one, redis) = try await Self.makeOperator(
        name,
        at: RelayOperator.Ports(
          client: ports[first], federation: ports[first + 1], administration: ports[first + 2]),
        redis: ports.suffix((2 - index) * redisPorts).prefix(redisPorts), stores, programs, workshop)
      processes += redis.processes.map { (.redis, $0) }
      processes.append((index == 0 ? .alpha : .beta, try await one.start()))
      operators.append(one)
    }
    self.stores = stores
    self.processes = Mutex(processes)
    self.programs = programs
    self.redisNodes = redisNodes
    self.workshop = workshop
    alpha = operators[0]
    beta = operators[1]
    try await peer(alpha, with: beta)
  }

  /// One more operator, with a database and a Redis of its own. Its relay does not run yet.
  /// - Parameter settings: variables on top of those of every operator.
  func addOperator(_ name: String, settings: [String: String]) async throws -> RelayOperator {
    let ports = try await FreePorts.find(3 + SharedRedis.portCount(nodes: redisNodes))
    let (one, redis) = try await Self.makeOperator(
      name, at: RelayOperator.Ports(client: ports[0], federation: ports[1], administration: ports[2]),
      redis: ports[3...], stores, programs, workshop, settings: settings)
    processes.withLock { $0 += redis.processes.map { (.redis, $0) } }
    return one
  }

  /// A peer of alpha over embedded stores, which runs from now on. Its CPU time counts as beta's.
  func addGuest(_ name: String) async throws -> RelayOperator {
    let guest = try RelayOperator(
      name: name, ports: try await RelayOperator.Ports.free(), executable: programs.relay, workshop: workshop)
    let process = try await guest.start()
    processes.withLock { $0.append((.beta, process)) }
    try await peer(alpha, with: guest)
    return guest
  }

  private static func makeOperator(
    _ name: String, at ports: RelayOperator.Ports, redis redisPorts: ArraySlice<Int>, _ stores: StoreServers,
    _ programs: Programs, _ workshop: Workshop, settings: [String: String] = [:]
  ) async throws -> (RelayOperator, SharedRedis) {
    try await stores.createDatabase(name)
    let redis = try await SharedRedis.start("redis-\(name)", at: redisPorts, in: workshop)
    let one = try RelayOperator(
      name: name, ports: ports, executable: programs.relay, workshop: workshop, stores: stores, redis: redis,
      settings: settings)
    return (one, redis)
  }

  /// Has `inviter`, which runs, and `guest` know each other from now on.
  func peer(_ inviter: RelayOperator, with guest: RelayOperator) async throws {
    let invited = try await inviter.relay("peer", "invite")
    guard let invitation = invited.split(whereSeparator: \.isNewline).last.map(String.init) else {
      throw BenchmarkFailure("\(inviter.name): relay peer invite printed no invitation")
    }
    try await guest.relay("peer", "accept", invitation)
  }

  /// Runs `body` with one more process of alpha beside the first; its CPU time counts as alpha's.
  func withAnotherAlpha<Value: Sendable>(_ body: (RelayOperator.Ports) async throws -> Value) async throws -> Value {
    let ports = try await RelayOperator.Ports.free()
    return try await counting(alpha.serve(as: "alpha-2", at: ports)) { try await body(ports) }
  }

  /// Runs `body` while the CPU time of `process`, which runs already, counts as alpha's, and ends it.
  func counting<Value: Sendable>(_ process: ChildProcess, _ body: () async throws -> Value) async throws -> Value {
    processes.withLock { $0.append((.alpha, process)) }
    do {
      let value = try await body()
      await end(process)
      return value
    } catch {
      await end(process)
      throw error
    }
  }

  private func end(_ process: ChildProcess) async {
    processes.withLock { $0.removeAll { $0.1 === process } }
    await process.stop()
  }

  /// CPU time of every server process since its start, and what to compare it with.
  func readUsage() throws -> ServerUsage {
    var usage = ServerUsage(
      ownSeconds: try ProcessUsage.cpuSecondsOfProcess(getpid()),
      machineSeconds: try ProcessUsage.cpuSecondsOfMachine())
    for (serverClass, process) in processes.withLock({ $0 }) {
      usage.cpuSeconds[serverClass, default: 0] += try ProcessUsage.cpuSecondsOfFamily(process.pid)
      if serverClass.isRelay { usage.switches += try ProcessUsage.switches(process.pid) }
    }
    return usage
  }

  /// The relays that run.
  var relayPIDs: [pid_t] { processes.withLock { $0 }.filter(\.0.isRelay).map(\.1.pid) }

  /// The most memory that each relay has had resident so far, in bytes; of several processes, the largest.
  func readPeakResident() throws -> [ServerClass: Int] {
    var peaks: [ServerClass: Int] = [:]
    for (serverClass, process) in processes.withLock({ $0 }) where serverClass.isRelay {
      peaks[serverClass] = max(peaks[serverClass] ?? 0, try ProcessUsage.peakResidentBytes(process.pid))
    }
    return peaks
  }

  /// The servers with their process ids, for a profiler.
  var processList: String {
    processes.withLock { $0 }.map { "\($0.0.rawValue) \($0.1.pid)" }.joined(separator: ", ")
  }
}
