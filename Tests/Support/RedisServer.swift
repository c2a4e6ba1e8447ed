// A private Redis for tests: real, on a free port and a Unix socket, with nothing on disk that outlives it.

import Foundation
import Glibc

/// A `redis-server` process of one test.
///
/// It cannot outlive the tests (`TetheredProcess`). Killing and starting it keeps port and socket and loses all data.
package actor RedisServer {
  package nonisolated let port: Int
  package nonisolated let socketPath: String
  private let folder: String
  private let password: String?
  private var process: TetheredProcess

  /// Over TCP.
  package nonisolated var url: String { "redis://127.0.0.1:\(port)" }

  private init(port: Int, folder: String, password: String?, process: TetheredProcess) {
    self.port = port
    self.folder = folder
    self.password = password
    self.process = process
    socketPath = Self.socketPath(folder)
  }

  /// Runs `body` with a server of its own that is gone afterwards.
  package static func with<Value>(
    password: String? = nil, _ body: (RedisServer) async throws -> Value
  ) async throws -> Value {
    let server = try await start(password: password)
    do {
      let value = try await body(server)
      await server.end()
      return value
    } catch {
      await server.end()
      throw error
    }
  }

  /// Starts a server and returns when it answers; `end` is the caller's duty.
  package static func start(password: String? = nil) async throws -> RedisServer {
    var template = Array("/tmp/relay-redis-XXXXXX".utf8CString)
    guard mkdtemp(&template) != nil else { throw TestFailure("mkdtemp: errno \(errno)") }
    let folder = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    let port = try Loopback.freePorts(1)[0]
    let process = try await launch(port: port, folder: folder, password: password)
    let server = RedisServer(port: port, folder: folder, password: password, process: process)
    try await server.waitUntilItAnswers()
    return server
  }

  /// Ends the server and removes its folder.
  package func end() async {
    await stop()
    try? FileManager.default.removeItem(atPath: folder)  // A leftover in the temporary folder hurts nobody.
  }

  /// Kills the server, as a crash would. On return it is gone.
  package func stop() async { await process.kill9() }

  /// Starts a stopped server again, empty; returns when it answers.
  package func start() async throws {
    process = try await Self.launch(port: port, folder: folder, password: password)
    try await waitUntilItAnswers()
  }

  /// Halts the server: it stays connected and is silent until `resume`.
  package func pause() { process.send(SIGSTOP) }
  package func resume() { process.send(SIGCONT) }

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

  private func waitUntilItAnswers() async throws {
    try await eventually("redis-server answers") {
      if let exit = process.exit { throw TestFailure("redis-server \(exit); see \(folder)/log") }
      // Refused until it listens.
      return (try? command("PING")) == "+PONG"
    }
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

  private static func launch(port: Int, folder: String, password: String?) async throws -> TetheredProcess {
    let command =
      [
        "redis-server", "--port", "\(port)", "--bind", "127.0.0.1", "--unixsocket", socketPath(folder), "--dir", folder,
        "--save", "", "--appendonly", "no",
      ] + (password.map { ["--requirepass", $0] } ?? [])
    return try await TetheredProcess.start(
      .init(
        command: command, environment: ProcessInfo.processInfo.environment, folder: folder,
        outputFile: folder + "/log", errorFile: folder + "/log"))
  }

  private static func socketPath(_ folder: String) -> String { folder + "/redis.sock" }
}
