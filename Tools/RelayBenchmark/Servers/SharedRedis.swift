import ChildProcesses
import Foundation

/// The Redis that one operator's processes share: one server, or a cluster whose nodes divide the keys.
struct SharedRedis: Sendable {
  /// As `coordination.url` names it.
  let url: String
  let processes: [ChildProcess]

  /// One for each operator: the databases of one Redis would share its channels.
  /// - Parameter nodes: of a cluster, three at least; 0 for one server without.
  static func start(_ name: String, nodes: Int, in workshop: Workshop) async throws -> SharedRedis {
    guard nodes > 0 else {
      let server = try await RedisServer.start(name, in: workshop, port: FreePorts.find(1)[0])
      return SharedRedis(url: server.url, processes: [server.process])
    }
    let ports = try await FreePorts.find(2 * nodes)
    // One password, by which the nodes let redis-cli in.
    let password = randomPassword()
    var servers: [RedisServer] = []
    for node in 0..<nodes {
      let settings = [
        "cluster-enabled yes", "cluster-config-file nodes.conf", "cluster-port \(ports[nodes + node])",
        // Nobody takes the place of a node that is silent on a busy machine.
        "cluster-node-timeout 15000",
      ]
      servers.append(
        try await RedisServer.start(
          "\(name)-\(node)", in: workshop, port: ports[node], password: password, settings: settings))
    }
    let addresses = servers.map { "127.0.0.1:\($0.port)" }
    let client = ["/usr/bin/env", "redis-cli"]
    // The password stands in the environment: a command line is for all to read.
    let environment = ["PATH": "/usr/local/bin:/usr/bin:/bin", "REDISCLI_AUTH": password]
    _ = try await workshop.run(
      "redis-cli --cluster create", client + ["--cluster", "create"] + addresses + ["--cluster-yes"],
      environment: environment)
    for server in servers {
      try await waitUntil("Redis Cluster", while: server.process) {
        let state = try await workshop.run(
          "redis-cli cluster info", client + ["-p", "\(server.port)", "cluster", "info"], environment: environment)
        guard state.contains("cluster_state:ok") else { throw BenchmarkFailure("it does not serve every key") }
      }
    }
    return SharedRedis(
      url: "redis+cluster://:\(password)@\(addresses.joined(separator: ","))", processes: servers.map(\.process))
  }
}
