// A primary, a replica and three sentinels of one test: real processes on free ports.

import ChildProcesses
import Foundation
import Glibc
import Synchronization

/// A `redis-server --sentinel` process, with the settings and the state that it keeps in its file.
package final class RedisSentinel: Sendable {
  package let port: Int
  /// The port on which it speaks TLS too, and which it tells the others; nil without.
  package let tlsPort: Int?
  private let folder: String
  private let password: String?
  private let process = Mutex<ChildProcess?>(nil)

  /// - Parameter lines: of its configuration, behind those of its ports.
  init(password: String?, tls: ServerTLS?, lines: [String]) throws {
    var template = Array("/tmp/relay-sentinel-XXXXXX".utf8CString)
    guard mkdtemp(&template) != nil else { throw TestFailure("mkdtemp: errno \(errno)") }
    folder = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    let ports = try Loopback.freePorts(2)
    port = ports[0]
    tlsPort = tls == nil ? nil : ports[1]
    self.password = password
    var all = ["bind 127.0.0.1", "port \(port)", "dir \(folder)"]
    if let tls {
      try tls.write(to: folder)
      all += [
        "tls-port \(ports[1])", "tls-cert-file \(folder)/tls.pem", "tls-key-file \(folder)/tls.key",
        "tls-ca-cert-file \(folder)/clients.pem", "tls-replication yes",
      ]
    }
    if let password { all += ["requirepass \(password)", "sentinel sentinel-pass \(password)"] }
    let text = (all + lines).joined(separator: "\n") + "\n"
    try text.write(toFile: folder + "/sentinel.conf", atomically: true, encoding: .utf8)
  }

  deinit { end() }

  /// Times with which it works, in milliseconds, in place of its own. It asks servers often, so that a former primary is
  /// told in seconds. And it does not take a machine that stands still, or a clock that jumps, for a fault of its own:
  /// it would then watch and do nothing for 30 s (TILT).
  private static let times = "INFO-PERIOD 1000 PUBLISH-PERIOD 500 TILT-TRIGGER 3600000"

  /// Starts it and returns when it listens.
  package func start() async throws {
    let started = try await ChildProcess.start(
      .init(
        command: ["redis-server", folder + "/sentinel.conf", "--sentinel"],
        environment: ProcessInfo.processInfo.environment, folder: folder, standardOutput: folder + "/log",
        standardError: folder + "/log"))
    process.withLock { $0 = started }
    try await eventually("the sentinel takes its times") {
      // Refused until it listens.
      (try? ask("SENTINEL DEBUG \(Self.times)")) == ["OK"]
    }
  }

  /// Kills it, as a crash would. On return it is gone; does nothing when it is.
  package func stop() {
    guard let process = process.withLock({ $0.take() }) else { return }
    process.send(SIGKILL)
    while process.exit == nil { usleep(1000) }
  }

  /// Halts it: it stays connected and is silent until `resume`.
  package func pause() { process.withLock { $0?.send(SIGSTOP) } }
  package func resume() { process.withLock { $0?.send(SIGCONT) } }

  /// Sends one inline command, in clear. - Returns: as `RedisInline.ask`.
  @discardableResult
  package func ask(_ line: String) throws -> [String] {
    try RedisInline.ask(line, port: port, password: password)
  }

  fileprivate func end() {
    stop()
    try? FileManager.default.removeItem(atPath: folder)  // A leftover in the temporary folder hurts nobody.
  }
}

/// Two servers, the first of which begins as the primary, and three sentinels, two of which replace a primary.
package final class SentinelGroup: Sendable {
  package static let name = "relay"
  package let servers: [RedisServer]
  package let sentinels: [RedisSentinel]

  /// Starts all and returns when every sentinel knows the others and the replica.
  private init(password: String?, sentinelPassword: String?, tls: ServerTLS?) async throws {
    var servers: [RedisServer] = []
    for _ in 0..<2 { servers.append(try await RedisServer(password: password, tls: tls)) }
    self.servers = servers
    let (primary, replica) = (servers[0], servers[1])
    try replica.follow(primary)
    try await eventually("the replica has followed") { try replica.isFollowing }
    let port = primary.tlsPort ?? primary.port
    let lines =
      [
        "sentinel monitor \(Self.name) 127.0.0.1 \(port) 2", "sentinel down-after-milliseconds \(Self.name) 1000",
        "sentinel failover-timeout \(Self.name) 5000",
      ] + (password.map { ["sentinel auth-pass \(Self.name) \($0)"] } ?? [])
    sentinels = try (0..<3).map { _ in try RedisSentinel(password: sentinelPassword, tls: tls, lines: lines) }
    for sentinel in sentinels { try await sentinel.start() }
    for sentinel in sentinels {
      try await eventually("the sentinels know each other and the replica") {
        // Refused until it listens.
        guard let state = try? sentinel.ask("SENTINEL MASTER \(Self.name)") else { return false }
        return Self.value("num-other-sentinels", in: state) == "2" && Self.value("num-slaves", in: state) == "1"
      }
    }
  }

  /// Runs `body` with a group of its own that is gone afterwards.
  /// - Parameter tls: of servers and sentinels, with the CA of both sides: they are each other's clients.
  package static func with(
    password: String? = nil, sentinelPassword: String? = nil, tls: ServerTLS? = nil,
    _ body: (SentinelGroup) async throws -> Void
  ) async throws {
    let group = try await SentinelGroup(password: password, sentinelPassword: sentinelPassword, tls: tls)
    defer { for sentinel in group.sentinels { sentinel.end() } }
    try await body(group)
  }

  /// Has `some` sentinels forget the group and watch `server` as its primary, with nothing said to the servers.
  package func point(_ some: [RedisSentinel], to server: RedisServer) throws {
    for sentinel in some {
      try sentinel.ask("SENTINEL REMOVE \(Self.name)")
      try sentinel.ask("SENTINEL MONITOR \(Self.name) 127.0.0.1 \(server.port) 2")
    }
  }

  /// Returns when `sentinel` names `server` as the primary.
  package func untilNamed(_ server: RedisServer, by sentinel: RedisSentinel) async throws {
    try await eventually("a sentinel names the new primary") {
      try sentinel.ask("SENTINEL GET-MASTER-ADDR-BY-NAME \(Self.name)").last == "\(server.tlsPort ?? server.port)"
    }
  }

  private static func value(_ name: String, in state: [String]) -> String? {
    state.firstIndex(of: name).flatMap { $0 + 1 < state.count ? state[$0 + 1] : nil }
  }
}
