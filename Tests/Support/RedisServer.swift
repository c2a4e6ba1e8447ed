// A private Redis for tests: real, on a free port and a Unix socket, with nothing on disk that outlives it.

import ChildProcesses
import Foundation
import Glibc
import Synchronization

/// A `redis-server` process of one test.
///
/// It cannot outlive the tests (`ChildProcess`), and ends with this object. Stopping and starting it keeps port and
/// socket and loses all data.
package final class RedisServer: Sendable {
  package let port: Int
  package let socketPath: String
  /// Over TCP.
  package var url: String { "redis://127.0.0.1:\(port)" }
  private let folder: String
  private let password: String?
  private let process: Mutex<ChildProcess?>

  /// Starts a server and returns when it answers.
  package init(password: String? = nil) async throws {
    var template = Array("/tmp/relay-redis-XXXXXX".utf8CString)
    guard mkdtemp(&template) != nil else { throw TestFailure("mkdtemp: errno \(errno)") }
    folder = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    socketPath = folder + "/redis.sock"
    port = try Loopback.freePorts(1)[0]
    self.password = password
    process = Mutex(nil)
    try await start()
  }

  deinit { end() }

  /// Runs `body` with a server of its own that is gone afterwards.
  package static func with<Value>(
    password: String? = nil, _ body: (RedisServer) async throws -> Value
  ) async throws -> Value {
    let server = try await RedisServer(password: password)
    defer { server.end() }
    return try await body(server)
  }

  /// Kills the server, as a crash would. On return it is gone; does nothing when it is.
  package func stop() {
    guard let process = process.withLock({ $0.take() }) else { return }
    process.send(SIGKILL)
    while process.exit == nil { usleep(1000) }
  }

  private func end() {
    stop()
    try? FileManager.default.removeItem(atPath: folder)  // A leftover in the temporary folder hurts nobody.
  }

  /// Starts a stopped server, empty; returns when it answers.
  package func start() async throws {
    let started = try await ChildProcess.start(
      .init(
        command: arguments, environment: ProcessInfo.processInfo.environment, folder: folder,
        standardOutput: folder + "/log", standardError: folder + "/log"))
    process.withLock { $0 = started }
    try await eventually("redis-server answers") {
      if let exit = started.exit { throw TestFailure("redis-server \(exit); see \(folder)/log") }
      // Refused until it listens.
      return (try? command("PING")) == "+PONG"
    }
  }

  /// Halts the server: it stays connected and is silent until `resume`.
  package func pause() { process.withLock { $0?.send(SIGSTOP) } }
  package func resume() { process.withLock { $0?.send(SIGCONT) } }

  /// Drops all keys and, as a restart would, all scripts.
  package func flush() throws {
    try command("FLUSHALL")
    try command("SCRIPT FLUSH")
  }

  /// Sends one inline command.
  /// - Returns: the first line of the answer, its type character included.
  @discardableResult
  package func command(_ line: String) throws -> String {
    let descriptor = try Loopback.connect(to: port, patience: 2)
    defer { close(descriptor) }
    let authentication = password.map { "AUTH \($0)\r\n" } ?? ""
    let request = Array("\(authentication)\(line)\r\n".utf8)
    guard send(descriptor, request, request.count, Int32(MSG_NOSIGNAL)) == request.count else {
      throw TestFailure("send: errno \(errno)")
    }
    return try Self.line(password == nil ? 0 : 1, from: descriptor)
  }

  private static func line(_ index: Int, from descriptor: Int32) throws -> String {
    var received: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 4096)
    while true {
      let lines = String(decoding: received, as: UTF8.self).components(separatedBy: "\r\n")
      // The last part is not a whole line yet.
      if lines.count > index + 1 { return lines[index] }
      let count = recv(descriptor, &buffer, buffer.count, 0)
      guard count > 0 else { throw TestFailure("Redis gave no answer") }
      received += buffer.prefix(count)
    }
  }

  private var arguments: [String] {
    [
      "redis-server", "--port", "\(port)", "--bind", "127.0.0.1", "--unixsocket", socketPath, "--dir", folder,
      "--save", "", "--appendonly", "no",
    ] + (password.map { ["--requirepass", $0] } ?? [])
  }
}
