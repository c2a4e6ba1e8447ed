// Real relays: an operator's folder and settings, the processes that serve it, the commands that administer it.

import AsyncHTTPClient
package import ChildProcesses
import Foundation
import Glibc
import NIOCore
import NIOHTTP1

/// One operator: a name, a folder of its own, and the settings that all its processes and commands share.
///
/// Nothing of the caller's `RELAY_` environment reaches them. `withOperator` makes one and removes it.
package struct RelayOperator: Sendable {
  /// The stores of an operator: durable storage, and the state that its processes share.
  package enum Stores: Sendable {
    case embedded
    /// URLs of PostgreSQL and Redis. `serve()` needs a migrated schema.
    case servers(storage: String, coordination: String)
  }

  package let name: String
  package let folder: String
  /// The listener that `federation.url` names; the first process takes it.
  package let federationPort: Int
  /// Further settings, by variable.
  package let settings: [String: String]
  /// The place at which its processes and commands run.
  package let place: Place
  private let stores: Stores

  /// A host, as processes see it.
  package struct Place: Sendable {
    /// The address on which its processes listen.
    package let address: String
    /// The beginning of a command line that runs there.
    package let wrapper: [String]
    package init(address: String, wrapper: [String]) {
      self.address = address
      self.wrapper = wrapper
    }
    /// The test's own.
    package static let here = Place(address: "127.0.0.1", wrapper: [])
  }

  package static func with<Result>(
    _ name: String = "local", stores: Stores = .embedded, settings: [String: String] = [:], at place: Place = .here,
    isolation: isolated (any Actor)? = #isolation, _ body: (RelayOperator) async throws -> Result
  ) async throws -> Result {
    try await MachineRoom.with {
      try await withFolder(name, stores: stores, settings: settings, at: place, body)
    }
  }

  private static func withFolder<Result>(
    _ name: String, stores: Stores, settings: [String: String], at place: Place,
    isolation: isolated (any Actor)? = #isolation, _ body: (RelayOperator) async throws -> Result
  ) async throws -> Result {
    let folder = FileManager.default.temporaryDirectory.appending(path: "relay-test-\(UUID().uuidString)")
    try FileManager.default.createDirectory(
      at: folder, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
    // A leftover in the temporary folder must not hide why the test failed.
    defer { try? FileManager.default.removeItem(at: folder) }
    let port = try Loopback.freePorts(1)[0]
    return try await body(
      RelayOperator(
        name: name, folder: folder.path, federationPort: port, settings: settings, place: place, stores: stores))
  }

  /// The variables that a process or command of this operator runs with.
  package func environment(_ overrides: [String: String] = [:]) -> [String: String] {
    var all = ProcessInfo.processInfo.environment.filter { !$0.key.hasPrefix("RELAY_") }
    all["RELAY_NAME"] = name
    all["RELAY_DEVELOPMENT_ENABLED"] = "true"
    all["RELAY_FEDERATION_URL"] = "https://\(place.address):\(federationPort)"
    for listener in ["CLIENT", "FEDERATION", "OPERATOR"] { all["RELAY_\(listener)_HOST"] = place.address }
    all["RELAY_FEDERATION_DIRECTORY"] = folder + "/federation"
    all["RELAY_ATTACHMENTS_URL"] = "file:\(folder)/attachments"
    // A test of draining sets its own time; no other test waits for it.
    all["RELAY_DRAIN_SECONDS"] = "0"
    switch stores {
    case .embedded: all["RELAY_STORAGE_URL"] = "sqlite:\(folder)/relay.sqlite"
    case .servers(let storage, let coordination):
      all["RELAY_STORAGE_URL"] = storage
      all["RELAY_COORDINATION_URL"] = coordination
    }
    return all.merging(settings) { $1 }.merging(overrides) { $1 }
  }

  /// Runs `relay` with `arguments` to its end; one that takes longer than `limit` is killed. Limits of time are for an
  /// idle machine (`MachineSpeed`).
  /// - Parameter wrapper: a program that runs it.
  package func run(
    _ arguments: [String], overrides: [String: String] = [:], wrapper: [String] = [],
    within limit: Duration = .seconds(60)
  ) async throws -> CommandResult {
    let (output, errors) = (file("output"), file("errors"))
    let child = try await ChildProcess.start(
      ChildProcess.Launch(
        command: place.wrapper + wrapper + [try RelayExecutable.path()] + arguments,
        environment: environment(overrides), folder: folder,
        standardOutput: output, standardError: errors))
    let exit = await child.killed(after: MachineSpeed.allow(limit))
    return CommandResult(exit: exit, output: try Self.text(of: output), errors: try Self.text(of: errors))
  }

  /// Runs `relay` with `arguments`.
  /// - Returns: its standard output.
  /// - Throws: `TestFailure` with the command's own words unless it exits with 0.
  @discardableResult
  package func relay(_ arguments: String..., overrides: [String: String] = [:]) async throws -> String {
    let result = try await run(arguments, overrides: overrides)
    guard result.exit == .code(0) else {
      throw TestFailure("relay \(arguments.prefix(2).joined(separator: " ")) \(result.exit): \(result.errors)")
    }
    return result.output
  }

  /// Starts `relay serve` on free ports and waits until it says that it can serve.
  /// - Parameter binary: another build's executable.
  package func serve(_ overrides: [String: String] = [:], binary: String? = nil) async throws -> RelayProcess {
    for _ in 0..<3 {
      let started = try await startServing(overrides, binary: binary)
      switch try await started.readiness(within: .seconds(60)) {
      case .ready: return started
      case .ended(let exit):
        // A free port may be taken between its choice and its use.
        guard started.log().contains("in use") else {
          throw TestFailure("relay serve \(exit): \(started.log().suffix(2000))")
        }
      }
    }
    throw TestFailure("three times a free port was taken by somebody else")
  }

  /// Starts `relay serve` without waiting for it.
  package func startServing(_ overrides: [String: String] = [:], binary: String? = nil) async throws -> RelayProcess {
    let ports = try Loopback.freePorts(2)
    let ownPorts = ["RELAY_CLIENT_PORT": "\(ports[0])", "RELAY_OPERATOR_PORT": "\(ports[1])"]
    let all = environment(ownPorts.merging(overrides) { $1 })
    let log = file("serve")
    let child = try await ChildProcess.start(
      ChildProcess.Launch(
        command: place.wrapper + [try binary ?? RelayExecutable.path(), "serve"], environment: all, folder: folder,
        standardOutput: log, standardError: log))
    return RelayProcess(
      child: child, address: place.address, clientPort: Int(all["RELAY_CLIENT_PORT"] ?? "") ?? ports[0],
      operatorPort: Int(all["RELAY_OPERATOR_PORT"] ?? "") ?? ports[1], logFile: log)
  }

  private func file(_ kind: String) -> String { "\(folder)/\(kind)-\(UUID().uuidString).txt" }

  private static func text(of file: String) throws -> String {
    String(decoding: try Data(contentsOf: URL(fileURLWithPath: file)), as: UTF8.self)
  }
}

/// A command's output and exit status.
package struct CommandResult: Sendable {
  package let exit: ChildProcess.Exit
  package let output: String
  package let errors: String
}

/// One running `relay serve`.
package final class RelayProcess: Sendable {
  package let clientPort: Int
  package let operatorPort: Int
  package let child: ChildProcess
  private let address: String
  private let logFile: String

  init(child: ChildProcess, address: String, clientPort: Int, operatorPort: Int, logFile: String) {
    self.child = child
    self.address = address
    self.clientPort = clientPort
    self.operatorPort = operatorPort
    self.logFile = logFile
  }

  package var url: String { "http://\(address):\(clientPort)" }
  package var operatorURL: String { "http://\(address):\(operatorPort)" }

  /// All it has logged so far.
  package func log() -> String {
    // Without a log there is nothing to show.
    String(decoding: (try? Data(contentsOf: URL(fileURLWithPath: logFile))) ?? Data(), as: UTF8.self)
  }

  /// SIGTERM. - Returns: how it ended; `.signal(SIGKILL)` when it still ran after `limit`.
  @discardableResult
  package func terminate(within limit: Duration = .seconds(30)) async -> ChildProcess.Exit {
    await child.stop(SIGTERM, grace: MachineSpeed.allow(limit))
  }

  /// Waits until it ends by itself. - Returns: `.signal(SIGKILL)` when it still ran after `limit`.
  package func exit(within limit: Duration = .seconds(30)) async -> ChildProcess.Exit {
    await child.killed(after: MachineSpeed.allow(limit))
  }

  /// SIGKILL, as the out-of-memory killer would. On return it is gone.
  package func kill9() async { await child.stop(SIGKILL) }

  /// Resident memory, in bytes.
  package func residentBytes() throws -> Int {
    let status = try String(contentsOfFile: "/proc/\(child.pid)/status", encoding: .utf8)
    guard let line = status.split(separator: "\n").first(where: { $0.hasPrefix("VmRSS:") }),
      let kibibytes = line.split(whereSeparator: { !$0.isNumber }).first.flatMap({ Int($0) })
    else { throw TestFailure("the process tells no memory size") }
    return kibibytes << 10
  }

  /// The status of `/readyz` and its body, or nil when nobody listens.
  package func readyz() async -> (status: Int, body: String)? {
    do {
      let response = try await TestHTTP.client.execute(
        HTTPClientRequest(url: operatorURL + "/readyz"), timeout: .seconds(10))
      return (Int(response.status.code), String(buffer: try await response.body.collect(upTo: 1 << 16)))
    } catch {
      return nil
    }
  }

  package enum Readiness: Sendable {
    case ready
    case ended(ChildProcess.Exit)
  }

  /// Waits until it can serve or has ended.
  package func readiness(within limit: Duration) async throws -> Readiness {
    do {
      return try await eventually("relay serve is ready", within: limit, every: .milliseconds(20)) {
        if let exit = child.exit { return .ended(exit) }
        return await readyz()?.status == 200 ? .ready : nil
      }
    } catch {
      await kill9()
      throw TestFailure("\(error): \(log().suffix(2000))")
    }
  }
}

/// The executable `relay` of this build: it lies beside the test bundle. `RELAY_TEST_BINARY` names another one.
package enum RelayExecutable {
  package static func path() throws -> String {
    if let other = ProcessInfo.processInfo.environment["RELAY_TEST_BINARY"] { return other }
    let running = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
    let bundles = [running] + CommandLine.arguments.filter { $0.hasSuffix(".xctest") }
    for bundle in bundles {
      let candidate = URL(fileURLWithPath: bundle).deletingLastPathComponent().appending(path: "relay").path
      if FileManager.default.isExecutableFile(atPath: candidate) { return candidate }
    }
    throw TestFailure("no executable `relay` beside the test bundle: build the whole package first")
  }
}
