import ChildProcesses
import Foundation

/// A private Redis that keeps nothing on disk.
struct RedisServer: Sendable {
  let process: ChildProcess
  let port: Int
  let password: String
  var url: String { "redis://:\(password)@127.0.0.1:\(port)" }

  /// - Parameters:
  ///   - password: nil for one of its own.
  ///   - settings: lines of its configuration, on top of those of every server.
  static func start(
    _ name: String, in workshop: Workshop, port: Int, password: String? = nil, settings: [String] = []
  ) async throws -> RedisServer {
    let folder = try workshop.makeFolder(name)
    let password = password ?? randomPassword()
    // The password stands in a file: a command line is for all to read.
    let configuration = folder.appending(path: "redis.conf")
    let lines = """
      bind 127.0.0.1
      port \(port)
      requirepass \(password)
      save ""
      appendonly no
      dir "\(folder.path)"
      daemonize no
      \(settings.joined(separator: "\n"))

      """
    guard
      FileManager.default.createFile(
        atPath: configuration.path, contents: Data(lines.utf8), attributes: [.posixPermissions: 0o600])
    else { throw BenchmarkFailure("Redis's configuration cannot be written") }
    let process = try await workshop.serve(
      name, ["/usr/bin/env", "redis-server", configuration.path], environment: ["PATH": "/usr/local/bin:/usr/bin:/bin"])
    try await waitUntil("Redis", while: process) { try await Probe.connect(port: port) }
    return RedisServer(process: process, port: port, password: password)
  }
}
