import ChildProcesses
import Foundation

/// Measures the accepting side's cost of a full mutual TLS 1.3 handshake, the answer to one request included. It
/// measures alpha's listener for peers, and beside it OpenSSL's own server with the same certificates. Both are
/// called in beta's name.
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
    let peer = try PeerHandshakes(port: port, trusting: servers.alpha.identity, presenting: servers.beta.identity)
    let end = ContinuousClock.now + .seconds(max(1, settings.seconds / 2))
    let before = try cpuSeconds()
    var count = 0
    while ContinuousClock.now < end {
      _ = try await peer.shakeHands()
      count += 1
    }
    return HandshakeFigures.Side(handshakes: count, cpuSeconds: try cpuSeconds() - before)
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
    /// CPU seconds of the server, taking the connection and closing it included.
    let cpuSeconds: Double
    var perCPUSecond: Double { Double(handshakes) / cpuSeconds }
  }
  let relay: Side
  let openssl: Side
}
