import ChildProcesses
import Foundation
import Glibc
import NIOCore
import NIOPosix
import Synchronization

/// A temporary folder and the servers that work in it. `discard()` ends them and removes it.
final class Workshop: Sendable {
  /// Everyone may pass through it, so that another user's server reaches its own folder; nobody may list it.
  let folder: URL
  private let servers = Mutex<[Server]>([])

  private struct Server {
    let name: String
    let process: ChildProcess
    let stopSignal: Int32
    let log: URL
  }

  init() throws {
    folder = FileManager.default.temporaryDirectory.appending(path: "relay-bench-\(UUID().uuidString)")
    try FileManager.default.createDirectory(
      at: folder, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o711])
  }

  /// A folder within, for `user` alone. - Parameter user: nil for the present one.
  func makeFolder(_ name: String, for user: String? = nil) throws -> URL {
    let own = folder.appending(path: name)
    try FileManager.default.createDirectory(
      at: own, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
    if let user { try hand(own, to: user) }
    return own
  }

  func hand(_ file: URL, to user: String) throws {
    guard let entry = getpwnam(user), chown(file.path, entry.pointee.pw_uid, entry.pointee.pw_gid) == 0 else {
      throw BenchmarkFailure("a file cannot be given to the user \(user)")
    }
  }

  /// Starts a server that runs until it is stopped. Its output goes to a log of its own.
  func serve(
    _ name: String, _ command: [String], environment: [String: String], user: String? = nil,
    stopSignal: Int32 = SIGTERM, deathSignal: String = "KILL"
  ) async throws -> ChildProcess {
    let log = log(of: name)
    let process = try await ChildProcess.start(
      ChildProcess.Launch(
        command: command, environment: environment, folder: folder.path, standardOutput: log.path,
        standardError: log.path, user: user, deathSignal: deathSignal))
    servers.withLock { $0.append(Server(name: name, process: process, stopSignal: stopSignal, log: log)) }
    return process
  }

  /// The file to which the server of that name writes its output.
  func log(of name: String) -> URL { folder.appending(path: "\(name).log") }

  /// Runs `command` to its end.
  /// - Returns: its standard output.
  /// - Throws: `BenchmarkFailure` with its last words when it does not exit with 0 within a minute.
  func run(
    _ title: String, _ command: [String], environment: [String: String], user: String? = nil
  ) async throws -> String {
    let output = folder.appending(path: UUID().uuidString)
    let errors = folder.appending(path: UUID().uuidString)
    let process = try await ChildProcess.start(
      ChildProcess.Launch(
        command: command, environment: environment, folder: folder.path, standardOutput: output.path,
        standardError: errors.path, user: user))
    let exit = await process.killed(after: .seconds(60))
    try Task.checkCancellation()
    guard exit == .code(0) else {
      let words = try LogTail.lines(5, of: errors).joined(separator: " ")
      throw BenchmarkFailure("\(title): \(exit)" + (words.isEmpty ? "" : ": \(words)"))
    }
    return try String(contentsOf: output, encoding: .utf8)
  }

  /// Ends the servers, the youngest first, and removes the folder. Also when the task is cancelled.
  func discard() async throws {
    let all = servers.withLock { servers in
      defer { servers = [] }
      return servers
    }
    for server in all.reversed() { await server.process.stop(server.stopSignal) }
    try FileManager.default.removeItem(at: folder)
  }

  /// The last lines of each server's log, for whoever looks for the reason of a failure.
  func logTails(lines: Int) -> [(server: String, lines: [Substring])] {
    servers.withLock { $0 }.map { server in
      // A server that never wrote has no log.
      (server.name, (try? LogTail.lines(lines, of: server.log)) ?? [])
    }
  }
}

/// Tries `attempt` until it succeeds.
/// - Parameter process: whose end makes waiting pointless.
/// - Throws: `BenchmarkFailure` with the last reason when `limit` is over or the process has ended.
func waitUntil(
  _ title: String, while process: ChildProcess, within limit: Duration = .seconds(30),
  _ attempt: () async throws -> Void
) async throws {
  let deadline = ContinuousClock.now + limit
  while true {
    do {
      return try await attempt()
    } catch {
      if let exit = process.exit { throw BenchmarkFailure("\(title): \(exit)") }
      guard ContinuousClock.now < deadline else { throw BenchmarkFailure("\(title): not within \(limit): \(error)") }
    }
    try await Task.sleep(for: .milliseconds(20))
  }
}
