import AsyncHTTPClient
import ChildProcesses
import Foundation
import Glibc
import NIOCore
import NIOHTTP1
import NIOPosix
import RelayWork

/// One operator of the demo: a relay on embedded stores in a folder of its own, driven as its administrator would,
/// by the commands of this very executable.
actor DemoOperator {
  struct Ports: Sendable {
    let client: Int
    let federation: Int
    let administration: Int
  }

  nonisolated let name: String
  nonisolated let ports: Ports
  nonisolated var url: String { "http://127.0.0.1:\(ports.client)" }
  nonisolated var operatorURL: String { "http://127.0.0.1:\(ports.administration)" }

  private let folder: URL
  private let executable: String
  private let environment: [String: String]
  private var server: ChildProcess?

  /// - Parameters:
  ///   - folder: exists and is empty.
  ///   - environment: what the children inherit, except for the variables that configure a relay.
  init(name: String, folder: URL, ports: Ports, executable: String, environment: [String: String]) {
    self.name = name
    self.folder = folder
    self.ports = ports
    self.executable = executable
    var environment = environment.filter { !$0.key.hasPrefix("RELAY_") }
    environment.merge(
      [
        "RELAY_NAME": name,
        "RELAY_CLIENT_PORT": "\(ports.client)",
        "RELAY_OPERATOR_PORT": "\(ports.administration)",
        "RELAY_FEDERATION_PORT": "\(ports.federation)",
        "RELAY_FEDERATION_URL": "https://127.0.0.1:\(ports.federation)",
        "RELAY_FEDERATION_DIRECTORY_INTERVAL": "0.5",
        "RELAY_FEDERATION_DIRECTORY": folder.appending(path: "federation").path,
        "RELAY_STORAGE_URL": "sqlite:\(folder.appending(path: "relay.sqlite").path)",
        "RELAY_ATTACHMENTS_URL": "file:\(folder.appending(path: "attachments").path)",
        "RELAY_DEVELOPMENT_ENABLED": "true",
        "RELAY_DRAIN_SECONDS": "0",
      ], uniquingKeysWith: { $1 })
    self.environment = environment
  }

  /// Runs `relay` with `arguments` to its end.
  /// - Returns: its standard output.
  /// - Throws: `DemoFailure` with its last words when it does not exit with 0 within 30 s.
  func relay(_ arguments: String...) async throws -> String {
    let output = folder.appending(path: "output-\(UUID().uuidString)")
    let errors = folder.appending(path: "errors-\(UUID().uuidString)")
    defer { for file in [output, errors] { try? FileManager.default.removeItem(at: file) } }  // The folder goes anyway.
    let child = try await launch(arguments, output: output, errors: errors)
    let exit = await withTaskCancellationHandler {
      await child.killed(after: .seconds(30))
    } onCancel: {
      child.send(SIGKILL)
    }
    guard exit == .code(0) else {
      let words = try LogTail.lines(3, of: errors).joined(separator: " ")
      let outcome = exit == .signal(SIGKILL) ? "it did not end within 30 s" : "\(exit)"
      throw DemoFailure(outcome + (words.isEmpty ? "" : ": \(words)"))
    }
    return try String(contentsOf: output, encoding: .utf8)
  }

  /// Starts `relay serve` and waits until it says that it can serve.
  /// - Throws: `DemoFailure` when it ends or is not ready within 30 s.
  func serve() async throws {
    let child = try await launch(["serve"], output: log, errors: log)
    server = child
    var configuration = HTTPClient.Configuration(redirectConfiguration: .disallow)
    // It refuses connections until it listens: we ask again ourselves.
    configuration.connectionPool.retryConnectionEstablishment = false
    try await HTTPClient.withHTTPClient(configuration: configuration) { http in
      let isReady = try await Pause.poll(every: .milliseconds(20), until: .now + .seconds(30)) {
        if let exit = child.exit { throw DemoFailure("\(exit)") }
        return await self.isReady(http)
      }
      try Task.checkCancellation()
      guard isReady else { throw DemoFailure("it was not ready within 30 s") }
    }
  }

  /// Waits for ever. - Throws: `DemoFailure` when the relay ends by itself.
  func untilItEnds() async throws {
    for await _ in Periodic(every: .milliseconds(200)) {
      if let exit = server?.exit { throw DemoFailure("\(name)'s relay is gone: \(exit)", relay: name) }
    }
    throw CancellationError()
  }

  /// Lets the relay finish what it holds. On return its process is gone.
  func stop() async {
    await server?.stop(grace: .seconds(10))
    server = nil
  }

  /// The last lines that the relay logged.
  func logTail(lines: Int) -> [Substring] {
    // Without a log there is nothing to show.
    (try? LogTail.lines(lines, of: log)) ?? []
  }

  private nonisolated var log: URL { folder.appending(path: "serve.log") }

  private func launch(_ arguments: [String], output: URL, errors: URL) async throws -> ChildProcess {
    try await ChildProcess.start(
      ChildProcess.Launch(
        command: [executable] + arguments, environment: environment, folder: folder.path,
        standardOutput: output.path, standardError: errors.path))
  }

  private func isReady(_ http: HTTPClient) async -> Bool {
    let request = HTTPClientRequest(url: operatorURL + "/readyz")
    // A relay that cannot be asked is not ready, whatever the reason.
    let response = try? await http.execute(request, timeout: .seconds(5))
    return response?.status.code == 200
  }
}
