// A cluster of Redis of one test: three nodes that take writes and a replica of each, real processes on free ports.

import ChildProcesses
import Foundation

/// Six nodes, put together by `redis-cli --cluster create`.
package final class RedisNodes: Sendable {
  package let all: [RedisServer]

  /// Starts all and returns when the cluster serves every key and every replica follows.
  private init(password: String?, tls: ServerTLS?) async throws {
    var all: [RedisServer] = []
    for _ in 0..<6 {
      // By default its own port and 10,000, which the system may have given away.
      let bus = try Loopback.freePorts(1)[0]
      let settings = [
        "--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-node-timeout", "1000",
        "--cluster-port", "\(bus)", "--cluster-replica-validity-factor", "0",
      ]
      all.append(
        try await RedisServer(
          password: password, tls: tls, settings: settings + (tls == nil ? [] : ["--tls-cluster", "yes"])))
    }
    self.all = all
    let folder = all[0].folder
    let secure =
      tls == nil
      ? []
      : [
        "--tls", "--cacert", folder + "/clients.pem", "--cert", folder + "/tls.pem", "--key", folder + "/tls.key",
      ]
    let login = password.map { ["-a", $0, "--no-auth-warning"] } ?? []
    let addresses = all.map { "127.0.0.1:\($0.tlsPort ?? $0.port)" }
    let creation = try await ChildProcess.start(
      .init(
        command: ["redis-cli"] + secure + login + ["--cluster", "create"] + addresses
          + ["--cluster-replicas", "1", "--cluster-yes"],
        environment: ProcessInfo.processInfo.environment, folder: folder, standardOutput: folder + "/create.log",
        standardError: folder + "/create.log"))
    try await eventually("redis-cli has made the cluster") {
      guard let exit = creation.exit else { return false }
      guard exit == .code(0) else { throw TestFailure("redis-cli \(exit); see \(folder)/create.log") }
      return true
    }
    try await eventually("all keys are served, and the replicas follow") {
      try all.allSatisfy { node in
        let role = try node.ask("ROLE")
        return try node.ask("CLUSTER INFO").joined().contains("cluster_state:ok")
          && (role.first == "master" || role.contains("connected"))
      } && all.count { try $0.ask("ROLE").first == "slave" } == 3
    }
  }

  /// Runs `body` with a cluster of its own that is gone afterwards.
  /// - Parameter tls: of all nodes, with the CA of both sides: they are each other's clients.
  package static func with(
    password: String? = nil, tls: ServerTLS? = nil, _ body: (RedisNodes) async throws -> Void
  ) async throws {
    try await body(RedisNodes(password: password, tls: tls))
  }

  /// The nodes that take writes, of those that run.
  package var writable: [RedisServer] {
    // One that was killed does not answer.
    all.filter { (try? $0.ask("ROLE").first) == "master" }
  }

  /// The node that has `slot`, of those that run.
  package func owner(of slot: Int) throws -> RedisServer {
    guard let asked = writable.first else { throw TestFailure("no node answers") }
    for line in try asked.ask("CLUSTER NODES").joined().split(separator: "\n") where line.contains("master") {
      let words = line.split(separator: " ")
      for range in words.dropFirst(8) where !range.hasPrefix("[") {
        let ends = range.split(separator: "-").compactMap { Int($0) }
        guard let first = ends.first, let last = ends.last, (first...last).contains(slot) else { continue }
        if let node = try writable.first(where: { try $0.identity == words[0] }) { return node }
      }
    }
    throw TestFailure("nobody has slot \(slot)")
  }

  /// Begins to move `slot`, with its keys: they are at `target`, and the slot is at `source` until `endMove`.
  package func beginMove(of slot: Int, from source: RedisServer, to target: RedisServer) throws {
    try target.ask("CLUSTER SETSLOT \(slot) IMPORTING \(source.identity)")
    try source.ask("CLUSTER SETSLOT \(slot) MIGRATING \(target.identity)")
    while true {
      let keys = try source.ask("CLUSTER GETKEYSINSLOT \(slot) 100")
      guard !keys.isEmpty else { return }
      for key in keys { try source.ask("MIGRATE 127.0.0.1 \(target.port) \(key) 0 1000") }
    }
  }

  package func endMove(of slot: Int, from source: RedisServer, to target: RedisServer) throws {
    for node in [target, source] + writable { try node.ask("CLUSTER SETSLOT \(slot) NODE \(target.identity)") }
  }
}

extension RedisServer {
  /// The name of a cluster's node in the cluster.
  fileprivate var identity: String {
    get throws { try ask("CLUSTER MYID").joined() }
  }
}
