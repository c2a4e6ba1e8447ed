import ChildProcesses
import Foundation
import Glibc

/// A real nginx in front of an operator's processes, with the file that operators are given. It cannot outlive the
/// tests.
package final class NginxServer: Sendable {
  /// The URL for clients, over TLS.
  package let url: String
  private let folder: String
  private let process: ChildProcess

  /// Runs `body` with an nginx in front of `relays`, whose certificate `authority` issues for 127.0.0.1.
  package static func with<Value>(
    before relays: [RelayPorts], authority: TestAuthority, isolation: isolated (any Actor)? = #isolation,
    _ body: (NginxServer) async throws -> Value
  ) async throws -> Value {
    let server = try await NginxServer(relays, authority)
    do {
      let value = try await body(server)
      await server.stop()
      return value
    } catch {
      let log = server.log()
      await server.stop()
      throw TestFailure("\(error) nginx: \(log.suffix(2000))")
    }
  }

  private init(_ relays: [RelayPorts], _ authority: TestAuthority) async throws {
    let folder = FileManager.default.temporaryDirectory.appending(path: "relay-nginx-\(UUID().uuidString)").path
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    try authority.leaf(relay: nil).write(chain: folder + "/chain.pem", key: folder + "/key.pem")
    let port = try Loopback.freePorts(1)[0]
    let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent()
    let file = try String(contentsOf: root.appending(path: "deploy/nginx/relay.conf"), encoding: .utf8)
    var lines: [String] = []
    for line in file.components(separatedBy: "\n") {
      if line.hasPrefix("  server 192.0.2.2") { continue }
      guard line.hasPrefix("  server 192.0.2.1") else {
        lines.append(line)
        continue
      }
      lines += relays.map { line.replacing("192.0.2.1:8080", with: "127.0.0.1:\($0.client)") }
    }
    let site = lines.joined(separator: "\n").replacing("listen 443 ssl", with: "listen 127.0.0.1:\(port) ssl")
      .replacing("/etc/nginx/relay-chain.pem", with: folder + "/chain.pem")
      .replacing("/etc/nginx/relay-key.pem", with: folder + "/key.pem")
    try site.write(toFile: folder + "/relay.conf", atomically: true, encoding: .utf8)
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map { "\($0)_temp_path \(folder)/\($0);" }
    try """
    worker_processes 1;
    pid \(folder)/pid;
    error_log \(folder)/log notice;
    daemon off;
    events { worker_connections 4096; }
    http {
      access_log off;
      \(temporary.joined(separator: "\n  "))
      include \(folder)/relay.conf;
    }

    """.write(toFile: folder + "/nginx.conf", atomically: true, encoding: .utf8)
    process = try await ChildProcess.start(
      .init(
        command: ["/usr/sbin/nginx", "-c", folder + "/nginx.conf", "-e", folder + "/log"], environment: [:],
        folder: folder, standardOutput: folder + "/output", standardError: folder + "/output", deathSignal: "TERM"))
    (self.folder, url) = (folder, "https://127.0.0.1:\(port)")
    do {
      try await eventually("nginx listens", within: .seconds(30)) {
        if let exit = process.exit { throw TestFailure("nginx: \(exit): \(log())") }
        // Refused until it listens.
        return (try? Loopback.connect(to: port, patience: 1)).map { close($0) } != nil
      }
    } catch {
      await stop()
      throw error
    }
  }

  package func log() -> String {
    // Without a log there is nothing to show.
    ["/output", "/log"].map { (try? String(contentsOfFile: folder + $0, encoding: .utf8)) ?? "" }.joined()
  }

  private func stop() async {
    // Its workers end with it.
    await process.stop(SIGTERM)
    try? FileManager.default.removeItem(atPath: folder)  // A leftover in the temporary folder hurts nobody.
  }
}
