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
  /// - Parameter directory: processes that look-ups go to instead, by the lines of `docs/deploy.md`.
  package static func with<Value>(
    before relays: [RelayPorts], directory: [RelayPorts] = [], isolation: isolated (any Actor)? = #isolation,
    _ body: (HAProxyServer) async throws -> Value
  ) async throws -> Value {
    let server = try await HAProxyServer(relays, directory)
    do {
      let value = try await body(server)
      await server.stop()
      return value
    } catch {
      await server.stop()
      throw error
    }
  }

  private init(_ relays: [RelayPorts], _ directory: [RelayPorts]) async throws {
    let folder = FileManager.default.temporaryDirectory.appending(path: "relay-haproxy-\(UUID().uuidString)").path
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    let ports = try Loopback.freePorts(2)
    try Self.configuration(relays, directory, clients: ports[0], peers: ports[1])
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
  private static func configuration(
    _ relays: [RelayPorts], _ directory: [RelayPorts], clients: Int, peers: Int
  ) throws -> String {
    var lines: [String] = []
    for line in try text(of: "deploy/haproxy/relay.cfg").components(separatedBy: "\n") {
      if line.hasPrefix("  server two") { continue }
      if line.hasPrefix("  bind :443 ") {
        lines.append("  bind 127.0.0.1:\(clients)")
      } else if line == "  bind :8443" {
        lines.append("  bind 127.0.0.1:\(peers)")
      } else if line.hasPrefix("  server one") {
        lines += servers(relays, like: line, "one", at: "192.0.2.1")
      } else {
        lines.append(line)
      }
      if line == "frontend clients", !directory.isEmpty { lines += try directoryLines(directory).frontend }
    }
    if !directory.isEmpty { lines += try directoryLines(directory).backend }
    return lines.joined(separator: "\n") + "\n"
  }

  /// What `docs/deploy.md` adds for processes with the role `directory`.
  private static func directoryLines(_ directory: [RelayPorts]) throws -> (frontend: [String], backend: [String]) {
    let page = try text(of: "docs/deploy.md").components(separatedBy: "\n")
    guard let start = page.firstIndex(of: "frontend clients"),
      let end = page[start...].firstIndex(of: "```"), let middle = page[start..<end].firstIndex(of: "")
    else { throw TestFailure("docs/deploy.md has no lines for HAProxy") }
    var backend: [String] = []
    for line in page[middle..<end] where !line.hasPrefix("  server directory-two") {
      backend +=
        line.hasPrefix("  server directory-one")
        ? servers(directory, like: line, "directory-one", at: "192.0.2.3") : [line]
    }
    return (Array(page[page.index(after: start)..<middle]), backend)
  }

  private static func servers(
    _ relays: [RelayPorts], like line: String, _ name: String, at host: String
  ) -> [String] {
    relays.enumerated().map { index, relay in
      line.replacing("server \(name)", with: "server number-\(index + 1)")
        .replacing("\(host):8080", with: "127.0.0.1:\(relay.client)")
        .replacing("\(host):8443", with: "127.0.0.1:\(relay.peers ?? relay.client)")
        .replacing("port 8081", with: "port \(relay.operations)")
    }
  }

  private static func text(of file: String) throws -> String {
    let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent()
    return try String(contentsOf: root.appending(path: file), encoding: .utf8)
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
