// A real HAProxy in front of an operator's processes, with the file that operators are given.

import ChildProcesses
import Foundation
import Glibc

/// An `haproxy` process of one test. It cannot outlive the tests.
package final class HAProxyServer: Sendable {
  /// The port for clients.
  package let port: Int
  package var url: String { "http://127.0.0.1:\(port)" }
  /// The port for peers.
  package let peersPort: Int
  private let folder: String
  private let process: ChildProcess

  /// Runs `body` with an HAProxy in front of `relays`, which checks each at its operator's port.
  package static func with<Value>(
    before relays: [RelayPorts], isolation: isolated (any Actor)? = #isolation,
    _ body: (HAProxyServer) async throws -> Value
  ) async throws -> Value {
    let server = try await HAProxyServer(relays)
    do {
      let value = try await body(server)
      await server.stop()
      return value
    } catch {
      await server.stop()
      throw error
    }
  }

  private init(_ relays: [RelayPorts]) async throws {
    let folder = FileManager.default.temporaryDirectory.appending(path: "relay-haproxy-\(UUID().uuidString)").path
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    let ports = try Loopback.freePorts(2)
    try Self.configuration(relays, clients: ports[0], peers: ports[1])
      .write(toFile: folder + "/haproxy.cfg", atomically: true, encoding: .utf8)
    let environment = ["PATH": "/usr/local/sbin:/usr/sbin:/usr/local/bin:/usr/bin:/sbin:/bin"]
    process = try await ChildProcess.start(
      .init(
        command: ["haproxy", "-db", "-f", folder + "/haproxy.cfg"], environment: environment, folder: folder,
        standardOutput: folder + "/log", standardError: folder + "/log"))
    (self.folder, port, peersPort) = (folder, ports[0], ports[1])
    do {
      try await eventually("HAProxy listens", within: .seconds(30)) {
        if let exit = process.exit { throw TestFailure("haproxy: \(exit): \(log())") }
        // Refused until it listens.
        return (try? Loopback.connect(to: port, patience: 1)).map { close($0) } != nil
      }
    } catch {
      await stop()
      throw error
    }
  }

  /// All it has logged so far: one line a request, and when a relay goes and comes.
  package func log() -> String {
    // Without a log there is nothing to show.
    (try? String(contentsOfFile: folder + "/log", encoding: .utf8)) ?? ""
  }

  private func stop() async {
    await process.stop(SIGKILL)
    try? FileManager.default.removeItem(atPath: folder)  // A leftover in the temporary folder hurts nobody.
  }

  /// `deploy/haproxy/relay.cfg` for loopback and without TLS for clients, with as many server lines as `relays`
  /// instead of its two of each kind.
  private static func configuration(_ relays: [RelayPorts], clients: Int, peers: Int) throws -> String {
    let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent()
    let file = try String(contentsOf: root.appending(path: "deploy/haproxy/relay.cfg"), encoding: .utf8)
    var lines: [String] = []
    for line in file.components(separatedBy: "\n") {
      if line.hasPrefix("  server two") { continue }
      if line.hasPrefix("  bind :443 ") {
        lines.append("  bind 127.0.0.1:\(clients)")
      } else if line == "  bind :8443" {
        lines.append("  bind 127.0.0.1:\(peers)")
      } else if line.hasPrefix("  server one") {
        for (index, relay) in relays.enumerated() {
          lines.append(
            line.replacing("server one", with: "server number-\(index + 1)")
              .replacing("192.0.2.1:8080", with: "127.0.0.1:\(relay.client)")
              .replacing("192.0.2.1:8443", with: "127.0.0.1:\(relay.peers ?? relay.client)")
              .replacing("port 8081", with: "port \(relay.operations)"))
        }
      } else {
        lines.append(line)
      }
    }
    return lines.joined(separator: "\n")
  }
}

/// Ports that a relay process keeps over restarts.
package struct RelayPorts: Sendable {
  package let client: Int
  package let operations: Int
  /// nil: it does not listen for peers.
  package let peers: Int?

  package static func free(_ count: Int, withPeers: Bool = false) throws -> [RelayPorts] {
    let ports = try Loopback.freePorts(count * 3)
    return (0..<count).map { index in
      RelayPorts(
        client: ports[index * 3], operations: ports[index * 3 + 1], peers: withPeers ? ports[index * 3 + 2] : nil)
    }
  }

  /// As `RelayOperator.serve` takes them.
  package var settings: [String: String] {
    var all = ["RELAY_CLIENT_PORT": "\(client)", "RELAY_OPERATOR_PORT": "\(operations)"]
    if let peers { all["RELAY_FEDERATION_PORT"] = "\(peers)" }
    return all
  }
}
