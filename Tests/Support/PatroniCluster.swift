// Two PostgreSQL servers that Patroni rules over, with an etcd: Debian's packages patroni, etcd-server.

import AsyncHTTPClient
import ChildProcesses
import Foundation
import Glibc
import NIOCore
import NIOHTTP1
import Synchronization

/// A primary and its synchronous standby, which Patroni promotes; TLS and a password are asked for.
///
/// However the tests end, nothing is left of it: as with `PostgresServer`.
package final class PatroniCluster: Sendable {
  package struct Node: Sendable {
    package let name: String
    /// Of PostgreSQL, on 127.0.0.1.
    package let port: Int
    fileprivate let controlPort: Int
    fileprivate let data: String
  }

  package static let isInstalled = ["/usr/bin/patroni", "/usr/bin/etcd"].allSatisfy {
    FileManager.default.isExecutableFile(atPath: $0)
  }

  package let nodes: [Node]
  /// Of a database, with both hosts.
  package var url: String {
    "postgres://keeper:hunter2@\(nodes.map { "localhost:\($0.port)" }.joined(separator: ","))/relay"
      + "?sslmode=verify-full&sslrootcert=\(folder)/authority.pem"
  }
  private let folder: String
  private let tools: String
  private let etcdPorts: [Int]
  private let processes = Mutex<[String: ChildProcess]>([:])

  /// Runs `body` with a cluster whose standby is synchronous, and ends it.
  package static func with(_ body: (PatroniCluster) async throws -> Void) async throws {
    let cluster = try await Loopback.blocking { try PatroniCluster() }
    do {
      try await cluster.begin()
      try await body(cluster)
    } catch {
      for name in cluster.processes.withLock({ Array($0.keys) }) {
        print("--- the end of \(name)'s log\n\(cluster.log(name).suffix(3000))")
      }
      await cluster.end()
      throw error
    }
    await cluster.end()
  }

  private init() throws {
    let folder = try PostgresServer.makeFolder()
    tools = try PostgresServer.findTools()
    self.folder = folder
    let ports = try Loopback.freePorts(6)
    etcdPorts = Array(ports[4...])
    // The folders that the janitor knows.
    nodes = [("one", 0, "data"), ("two", 2, "standby")].map { name, index, data in
      Node(name: name, port: ports[index], controlPort: ports[index + 1], data: "\(folder)/\(data)")
    }
    try PostgresServer.startJanitor(folder: folder, tools: tools)
    let authority = try TestAuthority("postgres")
    try authority.pem.write(toFile: folder + "/authority.pem", atomically: true, encoding: .utf8)
    try ServerTLS(try authority.leaf(relay: nil, host: "localhost")).write(to: folder)
    chmod(folder + "/tls.key", 0o600)
    if let user = PostgresServer.user.flatMap({ getpwnam($0)?.pointee }) {
      chown(folder + "/tls.key", user.pw_uid, user.pw_gid)
    }
    for node in nodes {
      try configuration(of: node).write(toFile: "\(folder)/\(node.name).yaml", atomically: true, encoding: .utf8)
    }
  }

  /// The shortest times that Patroni takes: a leader that is gone is noticed after `ttl`.
  private func configuration(of node: Node) -> String {
    """
    scope: relay
    name: \(node.name)
    restapi: {listen: '127.0.0.1:\(node.controlPort)', connect_address: '127.0.0.1:\(node.controlPort)'}
    etcd3: {host: '127.0.0.1:\(etcdPorts[0])'}
    bootstrap:
      dcs:
        ttl: 20
        loop_wait: 1
        retry_timeout: 3
        synchronous_mode: true
        postgresql:
          use_pg_rewind: true
          parameters: {max_connections: 200, wal_log_hints: 'on'}
      initdb: [{encoding: UTF8}]
      pg_hba:
        - local all all trust
        - local replication all trust
        - hostssl all keeper 127.0.0.1/32 scram-sha-256
        - host all postgres 127.0.0.1/32 scram-sha-256
        - host replication replicator 127.0.0.1/32 scram-sha-256
    postgresql:
      listen: 127.0.0.1:\(node.port)
      connect_address: 127.0.0.1:\(node.port)
      data_dir: \(node.data)
      bin_dir: \(tools)
      pgpass: \(folder)/\(node.name).pgpass
      remove_data_directory_on_diverged_timelines: true
      authentication:
        superuser: {username: postgres, password: ruler}
        replication: {username: replicator, password: copier}
      parameters:
        unix_socket_directories: \(folder)
        ssl: 'on'
        ssl_cert_file: \(folder)/tls.pem
        ssl_key_file: \(folder)/tls.key
    """
  }

  private func begin() async throws {
    let (client, peer) = ("http://127.0.0.1:\(etcdPorts[0])", "http://127.0.0.1:\(etcdPorts[1])")
    try await start(
      "etcd",
      [
        "/usr/bin/etcd", "--name", "etcd", "--data-dir", folder + "/etcd", "--listen-client-urls", client,
        "--advertise-client-urls", client, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
        "--initial-cluster", "etcd=\(peer)",
      ])
    try await eventually("etcd answers") { await Self.status(client + "/health") == 200 }
    try await start(nodes[0])
    try await eventually("the first node leads", within: .seconds(120)) { await leads(nodes[0]) }
    try await start(nodes[1])
    try await untilSynchronous()
    try await sql("CREATE ROLE keeper LOGIN PASSWORD 'hunter2'", at: nodes[0])
    try await sql("CREATE DATABASE relay OWNER keeper", at: nodes[0])
  }

  /// Starts the Patroni of a node, which starts its server.
  package func start(_ node: Node) async throws {
    try await start(node.name, ["/usr/bin/patroni", "\(folder)/\(node.name).yaml"])
  }

  private func start(_ name: String, _ command: [String]) async throws {
    let environment = ["PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": folder, "LC_ALL": "C"]
    let log = "\(folder)/\(name).log"
    let process = try await ChildProcess.start(
      ChildProcess.Launch(
        command: command, environment: environment, folder: folder, standardOutput: log, standardError: log,
        user: PostgresServer.user))
    processes.withLock { $0[name] = process }
  }

  private func end() async {
    let all = processes.withLock { $0 }
    // Patroni stops its server, where it can.
    for node in nodes { await all[node.name]?.stop(SIGTERM, grace: .seconds(20)) }
    await all["etcd"]?.stop(SIGKILL)
    for node in nodes {
      // It fails where Patroni has stopped the server.
      _ = try? await shell("\"$1\" --pgdata \"$2\" --mode immediate --wait stop", tools + "/pg_ctl", node.data)
    }
    // A leftover in the temporary folder hurts nobody.
    _ = try? FileManager.default.removeItem(atPath: folder)
  }

  private func log(_ name: String) -> String {
    // Without a log there is nothing to show.
    (try? String(contentsOfFile: "\(folder)/\(name).log", encoding: .utf8)) ?? ""
  }
}

// MARK: - Who leads

extension PatroniCluster {
  /// The node whose server takes writes, by Patroni's word.
  package func leader() async throws -> Node {
    try await eventually("a node leads") {
      for node in nodes where await leads(node) { return node }
      return nil
    }
  }

  package func other(than node: Node) -> Node { nodes.first { $0.name != node.name } ?? node }

  /// Patroni says so from the moment on when it promotes the server; writes are taken a moment later.
  package func leads(_ node: Node) async -> Bool {
    guard await Self.status(control(node) + "/primary") == 200 else { return false }
    // Refused while the server starts.
    return (try? await sql("SELECT pg_is_in_recovery()", at: node)) == "f"
  }

  /// Waits until a commit waits for the standby.
  package func untilSynchronous() async throws {
    try await eventually("the standby is synchronous", within: .seconds(120), every: .milliseconds(200)) {
      for node in nodes where await Self.status(control(node) + "/synchronous") == 200 { return true }
      return false
    }
  }

  /// Asks Patroni to let the standby lead; returns when it does.
  package func switchOver() async throws {
    let former = try await leader()
    let next = other(than: former)
    var request = HTTPClientRequest(url: control(former) + "/switchover")
    request.method = .POST
    request.headers.add(name: "Content-Type", value: "application/json")
    request.body = .bytes(ByteBuffer(string: #"{"leader":"\#(former.name)","candidate":"\#(next.name)"}"#))
    async let answer = TestHTTP.client.execute(request, timeout: .seconds(60))
    // The answer comes a while after the promotion.
    try await eventually("the candidate leads", every: .milliseconds(20)) { await leads(next) }
    let status = try await answer.status.code
    guard status == 200 else { throw TestFailure("Patroni refuses to switch over: \(status)") }
  }

  /// Kills the leader: Patroni, the server and its sessions. Returns when the other node leads.
  package func killLeader() async throws -> Node {
    let former = try await leader()
    await processes.withLock { $0[former.name] }?.stop(SIGKILL)
    try await shell(
      #"p=$(head -n 1 "$1/postmaster.pid"); c=$(pgrep --parent "$p"); kill -9 "$p"; kill -9 $c 2>/dev/null; true"#,
      former.data)
    let next = other(than: former)
    try await eventually("the standby leads", within: .seconds(120), every: .milliseconds(20)) { await leads(next) }
    return former
  }

  /// The sessions of relays at a node's server.
  package func relaySessions(at node: Node) async throws -> Int {
    let text = try await sql("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'relay'", at: node)
    guard let count = Int(text) else { throw TestFailure("no number of sessions: \(text)") }
    return count
  }

  @discardableResult
  private func sql(_ text: String, at node: Node) async throws -> String {
    try await shell(
      #""$1" --no-psqlrc --quiet --tuples-only --no-align --set ON_ERROR_STOP=1 --host "$2" --port "$3" "#
        + #"--username postgres --dbname postgres --command "$4""#,
      tools + "/psql", folder, "\(node.port)", text)
  }

  /// Runs a shell with arguments, as the servers' user. - Returns: its output.
  @discardableResult
  private func shell(_ script: String, _ arguments: String...) async throws -> String {
    let (folder, output) = (folder, "\(folder)/output-\(UUID().uuidString)")
    return try await Loopback.blocking {
      let exit = try ChildProcess.run(
        ChildProcess.Launch(
          command: ["sh", "-c", script, "sh"] + arguments,
          environment: ["PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"], folder: folder,
          standardOutput: output, standardError: output, user: PostgresServer.user))
      let text = try String(contentsOfFile: output, encoding: .utf8)
      unlink(output)
      guard exit == .code(0) else { throw TestFailure("\(script) \(exit): \(text)") }
      return text.trimmingCharacters(in: .whitespacesAndNewlines)
    }
  }

  private func control(_ node: Node) -> String { "http://127.0.0.1:\(node.controlPort)" }

  /// nil when nobody answers.
  private static func status(_ url: String) async -> UInt? {
    let request = HTTPClientRequest(url: url)
    // Refused while nothing listens there.
    guard let response = try? await TestHTTP.client.execute(request, timeout: .seconds(5)) else { return nil }
    _ = try? await response.body.collect(upTo: 1 << 20)  // So that the connection serves again.
    return response.status.code
  }
}
