import ChildProcesses
import Foundation

/// The Redis that one operator's processes share: one server, or a cluster whose nodes divide the keys.
struct SharedRedis: Sendable {
  /// As `coordination.url` names it.
  let url: String
  let processes: [ChildProcess]

  /// How many ports `start` takes. - Parameter nodes: of a cluster; 0 for one server without.
  static func portCount(nodes: Int) -> Int { max(1, 2 * nodes) }

  /// One for each operator: the databases of one Redis would share its channels.
  /// - Parameter ports: one for a server, or two for each node of a cluster, which has three nodes at least.
  static func start(_ name: String, at ports: ArraySlice<Int>, in workshop: Workshop) async throws -> SharedRedis {
    let ports = Array(ports)
    guard ports.count > 1 else {
      let server = try await RedisServer.start(name, in: workshop, port: ports[0])
      return SharedRedis(url: server.url, processes: [server.process])
    }
    let nodes = ports.count / 2
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
