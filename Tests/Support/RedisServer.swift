// A private Redis for tests: real, on a free port and a Unix socket, with nothing on disk that outlives it.

import ChildProcesses
import Foundation
import Glibc
import Synchronization

/// The certificate that a server shows, and the CA that it demands of clients.
package struct ServerTLS: Sendable {
  package let leaf: TestLeaf
  /// The CA of the clients that it serves; nil asks for no certificate.
  package let clients: TestAuthority?

  package init(_ leaf: TestLeaf, clients: TestAuthority? = nil) {
    self.leaf = leaf
    self.clients = clients
  }

  /// Writes the PEM files `tls.pem`, `tls.key` and, for a CA, `clients.pem`.
  func write(to folder: String) throws {
    try leaf.write(chain: folder + "/tls.pem", key: folder + "/tls.key")
    try clients?.pem.write(toFile: folder + "/clients.pem", atomically: true, encoding: .utf8)
  }
}

/// A `redis-server` process of one test.
///
/// It cannot outlive the tests (`ChildProcess`), and ends with this object. Stopping and starting it keeps port and
/// socket and loses all data.
package final class RedisServer: Sendable {
  package let port: Int
  package let socketPath: String
  /// Over TCP.
  package var url: String { "redis://127.0.0.1:\(port)" }
  /// The port on which it speaks TLS too; nil without.
  package let tlsPort: Int?
  package let folder: String
  /// The disk of `folder`, if it was told to have one of its own.
  private let disk: TestDisk?
  private let tls: ServerTLS?
  /// Arguments on top of those of every server.
  private let settings: [String]
  private let password: Mutex<String?>
  private let process: Mutex<ChildProcess?>

  /// Starts a server and returns when it answers.
  package init(
    password: String? = nil, tls: ServerTLS? = nil, hasOwnDisk: Bool = false, settings: [String] = []
  ) async throws {
    var template = Array("/tmp/relay-redis-XXXXXX".utf8CString)
    guard mkdtemp(&template) != nil else { throw TestFailure("mkdtemp: errno \(errno)") }
    folder = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    socketPath = folder + "/redis.sock"
    disk = try hasOwnDisk ? TestDisk(at: folder) : nil
    let ports = try Loopback.freePorts(2)
    port = ports[0]
    tlsPort = tls == nil ? nil : ports[1]
    self.tls = tls
    self.settings = settings
    self.password = Mutex(password)
    process = Mutex(nil)
    try tls?.write(to: folder)
    try await start()
  }

  deinit { end() }

  /// Runs `body` with a server of its own that is gone afterwards.
  package static func with<Value>(
    password: String? = nil, tls: ServerTLS? = nil, hasOwnDisk: Bool = false,
    _ body: (RedisServer) async throws -> Value
  ) async throws -> Value {
    let server = try await RedisServer(password: password, tls: tls, hasOwnDisk: hasOwnDisk)
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
    disk?.remove()
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

  /// Makes it a replica of `other`, without a break for its clients; empty first, and with `other`'s data when it has
  /// them.
  package func follow(_ other: RedisServer) throws {
    try expectOK("REPLICAOF 127.0.0.1 \(other.tlsPort ?? other.port)")
  }

  /// Makes a replica a primary again, with the data that it has.
  package func lead() throws { try expectOK("REPLICAOF NO ONE") }

  /// Whether it is a replica that has its primary's data.
  package var isFollowing: Bool {
    get throws {
      // The first line of INFO's own answer is its length.
      let question = "return string.find(redis.call('INFO', 'replication'), 'master_link_status:up') and 1 or 0"
      return try command("EVAL \"\(question)\" 0") == ":1"
    }
  }

  /// Its disk is full, and it is told to keep what it holds there: it takes no writes. Needs a disk of its own.
  package func fillDisk() async throws {
    guard let disk else { throw TestFailure("the server has no disk of its own") }
    try expectOK("CONFIG SET appendonly yes")
    try await eventually("Redis has begun its file") {
      try command(
        "EVAL \"local i = redis.call('INFO', 'persistence') return (string.find(i, 'aof_rewrite_in_progress:0') and "
          + "string.find(i, 'aof_rewrite_scheduled:0')) and 1 or 0\" 0") == ":1"
    }
    try disk.fill()
    // The last page has some room yet.
    let text = String(repeating: "x", count: 8 << 10)
    try await eventually("Redis takes no writes") { try command("SET filler \(text)").hasPrefix("-MISCONF") }
  }

  /// There is room again, and it keeps nothing any more.
  package func freeDisk() throws {
    try disk?.free()
    try expectOK("CONFIG SET appendonly no")
    try command("DEL filler")
  }

  private func expectOK(_ line: String) throws {
    let answer = try command(line)
    guard answer.hasPrefix("+OK") else { throw TestFailure("\(line): \(answer)") }
  }

  /// Open connections stay; new ones need the new password.
  package func changePassword(to new: String) throws {
    try expectOK("CONFIG SET requirepass \(new)")
    password.withLock { $0 = new }
  }

  /// Sends one inline command. - Returns: as `RedisInline.ask`.
  @discardableResult
  package func ask(_ line: String) throws -> [String] {
    try RedisInline.ask(line, port: port, password: password.withLock(\.self))
  }

  /// Drops all keys and, as a restart would, all scripts.
  package func flush() throws {
    try command("FLUSHALL")
    try command("SCRIPT FLUSH")
  }

  /// How many channels somebody listens to; each process has one of its own.
  package func channelCount() throws -> Int {
    let line = try command("PUBSUB CHANNELS")
    guard line.hasPrefix("*"), let count = Int(line.dropFirst()) else { throw TestFailure("PUBSUB CHANNELS: \(line)") }
    return count
  }

  /// Sends one inline command.
  /// - Returns: the first line of the answer, its type character included.
  @discardableResult
  package func command(_ line: String) throws -> String {
    let descriptor = try Loopback.connect(to: port, patience: 20)
    defer { close(descriptor) }
    let password = password.withLock(\.self)
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
      "--save", "", "--appendonly", "no", "--repl-diskless-sync-delay", "0",
    ] + (password.withLock(\.self).map { ["--requirepass", $0, "--masterauth", $0] } ?? []) + tlsArguments + settings
  }

  private var tlsArguments: [String] {
    guard let tlsPort, let tls else { return [] }
    let clients =
      tls.clients == nil
      ? ["--tls-auth-clients", "no"]
      : [
        "--tls-auth-clients", "yes", "--tls-ca-cert-file", folder + "/clients.pem", "--tls-replication", "yes",
      ]
    return [
      "--tls-port", "\(tlsPort)", "--tls-cert-file", folder + "/tls.pem", "--tls-key-file", folder + "/tls.key",
    ] + clients
  }
}
