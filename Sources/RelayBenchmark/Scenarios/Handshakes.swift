import ChildProcesses
import Foundation

/// What a full mutual TLS 1.3 handshake costs the accepting side: alpha's listener for peers, and beside it OpenSSL's own
/// server with the same certificates, both called by `openssl s_time` in beta's name.
struct Handshakes: Sendable {
  let servers: ServerGroup
  let workshop: Workshop
  let settings: BenchmarkSettings

  func run() async throws -> HandshakeFigures {
    let relay = try await measure(port: servers.alpha.ports.federation) {
      try servers.readUsage().cpuSeconds[.alpha] ?? 0
    }
    let port = try await FreePorts.find(1)[0]
    let server = try await workshop.serve(
      "openssl", Self.server(port: port, identity: servers.alpha.identity, peer: servers.beta.identity),
      environment: Self.environment)
    try await waitUntil("openssl s_server", while: server) { try await Probe.connect(port: port) }
    let openssl = try await measure(port: port) { try ProcessUsage.cpuSecondsOfFamily(server.pid) }
    await server.stop()
    return HandshakeFigures(relay: relay, openssl: openssl)
  }

  private func measure(port: Int, _ cpuSeconds: () throws -> Double) async throws -> HandshakeFigures.Side {
    let seconds = max(1, Int(settings.seconds / 2))
    let before = try cpuSeconds()
    let printed = try await workshop.run(
      "openssl s_time",
      [
        "/usr/bin/env", "openssl", "s_time", "-connect", "127.0.0.1:\(port)", "-new", "-tls1_3", "-time", "\(seconds)",
        "-cert", servers.beta.identity + "/leaf.pem", "-key", servers.beta.identity + "/leaf.key", "-CAfile",
        servers.alpha.identity + "/ca.pem", "-verify", "2",
      ], environment: Self.environment)
    let used = try cpuSeconds() - before
    // "1234 connections in 5 real seconds, 0 bytes read per connection"
    let line = printed.split(separator: "\n").last { $0.contains("real seconds") }
    guard let count = line?.split(separator: " ").first.flatMap({ Int($0) }), count > 0, used > 0 else {
      throw BenchmarkFailure("openssl s_time made no connection")
    }
    return HandshakeFigures.Side(handshakes: count, cpuSeconds: used)
  }

  private static func server(port: Int, identity: String, peer: String) -> [String] {
    [
      "/usr/bin/env", "openssl", "s_server", "-accept", "127.0.0.1:\(port)", "-cert", identity + "/leaf.pem", "-key",
      identity + "/leaf.key", "-CAfile", peer + "/ca.pem", "-Verify", "2", "-verify_return_error", "-tls1_3", "-quiet",
      "-www",
    ]
  }

  private static let environment = ["PATH": "/usr/local/bin:/usr/bin:/bin"]
}

struct HandshakeFigures: Sendable, Encodable {
  struct Side: Sendable, Encodable {
    let handshakes: Int
    /// Of the server, taking the connection and closing it included.
    let cpuSeconds: Double
    var perCPUSecond: Double { Double(handshakes) / cpuSeconds }
  }
  let relay: Side
  let openssl: Side
}
