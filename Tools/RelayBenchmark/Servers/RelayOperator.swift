import ChildProcesses
import Foundation
import NIOCore
import RelayCore

/// One operator: its relay, driven as its administrator would, by the commands of the executable `relay`.
struct RelayOperator: Sendable {
  struct Ports: Sendable {
    let client: Int
    let federation: Int
    let administration: Int

    /// Ports that nobody listened on just now.
    static func free() async throws -> Ports {
      let ports = try await FreePorts.find(3)
      return Ports(client: ports[0], federation: ports[1], administration: ports[2])
    }

    fileprivate var settings: [String: String] {
      [
        "RELAY_CLIENT_PORT": "\(client)", "RELAY_OPERATOR_PORT": "\(administration)",
        "RELAY_FEDERATION_PORT": "\(federation)",
      ]
    }
  }

  let name: String
  /// The ports of its first process.
  let ports: Ports
  /// Its database in the PostgreSQL that the operators share.
  var database: String { name }
  var url: String { "http://127.0.0.1:\(ports.client)" }
  /// The folder of its certificates.
  let identity: String
  /// The file in which its processes keep the directory between two starts.
  let snapshot: String

  /// Whether its tables of messages and keys are to lie at workers.
  private let isDistributed: Bool
  private let executable: String
  private let workshop: Workshop
  private let environment: [String: String]

  /// - Parameter settings: variables on top of those of every operator.
  init(
    name: String, ports: Ports, executable: String, workshop: Workshop, stores: StoreServers, redis: SharedRedis,
    settings: [String: String] = [:]
  ) throws {
    let urls = ["RELAY_STORAGE_URL": stores.postgres.url(name), "RELAY_COORDINATION_URL": redis.url]
    try self.init(
      name: name, ports: ports, executable: executable, workshop: workshop, isDistributed: !stores.workers.isEmpty,
      settings: urls.merging(settings) { $1 })
  }

  /// An operator over embedded stores, unless `settings` name others.
  init(
    name: String, ports: Ports, executable: String, workshop: Workshop, isDistributed: Bool = false,
    settings: [String: String] = [:]
  ) throws {
    self.name = name
    self.ports = ports
    self.isDistributed = isDistributed
    self.executable = executable
    self.workshop = workshop
    let folder = try workshop.makeFolder(name)
    identity = folder.appending(path: "federation").path
    snapshot = folder.appending(path: "directory.snapshot").path
    var environment = ProcessInfo.processInfo.environment.filter { !$0.key.hasPrefix("RELAY_") }
    let own = [
      "RELAY_NAME": name,
      "RELAY_FEDERATION_URL": "https://127.0.0.1:\(ports.federation)",
      "RELAY_FEDERATION_DIRECTORY": identity,
      "RELAY_STORAGE_URL": "sqlite:\(folder.appending(path: "relay.sqlite").path)",
      "RELAY_ATTACHMENTS_URL": "file:\(folder.appending(path: "attachments").path)",
      "RELAY_DIRECTORY_SNAPSHOT": snapshot,
      // Outputs for millions of contacts would be computed beside what is measured; one operator alone offers them.
      "RELAY_DIRECTORY_OBLIVIOUS": "false",
      "RELAY_DEVELOPMENT_ENABLED": "true",
      // No client is to come back elsewhere.
      "RELAY_DRAIN_SECONDS": "0",
    ]
    environment.merge(own) { $1 }
    environment.merge(ports.settings) { $1 }
    environment.merge(Self.raisedLimits) { $1 }
    environment.merge(settings) { $1 }
    self.environment = environment
  }

  /// Every limit is charged as always and never reached.
  private static var raisedLimits: [String: String] {
    var variables: [String: String] = [:]
    variables["RELAY_MESSAGES_MAILBOX_MAX"] = "1000000000"
    variables["RELAY_MESSAGES_MAILBOX_SENDER_MAX"] = "1000000000"
    variables["RELAY_DIRECTORY_BUDGET_FIRST"] = "1000000000"
    for limiter in LimiterName.allCases where limiter.meaning != nil {
      let variable = "RELAY_LIMITS_" + limiter.rawValue.uppercased().replacing("-", with: "_")
      variables["\(variable)_SIZE"] = "100000000"
      variables["\(variable)_PER_MINUTE"] = "100000000"
    }
    return variables
  }

  /// Runs `relay` with `arguments` to its end. - Returns: its standard output.
  @discardableResult
  func relay(_ arguments: String...) async throws -> String {
    // The last argument may be an invitation: it is not repeated.
    let title = "\(name): relay " + arguments.prefix(2).joined(separator: " ")
    return try await workshop.run(title, [executable] + arguments, environment: environment)
  }

  /// Makes schema and certificates.
  func prepare() async throws {
    try await relay("migrate", "run")
    if isDistributed { try await relay("storage", "distribute") }
    try await relay("ca", "init")
    try await relay("ca", "issue")
  }

  /// Does so, starts `relay serve`, and waits until it can serve.
  func start() async throws -> ChildProcess {
    try await prepare()
    return try await serve(as: name, at: ports)
  }

  /// Starts a process of the operator and waits until it can serve.
  /// - Parameters:
  ///   - title: names its log; other processes that run at the same time have other ones.
  ///   - settings: variables on top of those of the first process.
  ///   - limit: after it, waiting fails.
  func serve(
    as title: String, at ports: Ports, settings: [String: String] = [:], within limit: Duration = .seconds(30)
  ) async throws -> ChildProcess {
    let environment = environment.merging(ports.settings) { $1 }.merging(settings) { $1 }
    let process = try await workshop.serve(title, [executable, "serve"], environment: environment)
    try await waitUntil("\(title): relay serve", while: process, within: limit) {
      let answer = try await Probe.get("/readyz", port: ports.administration)
      guard answer.status == 200 else { throw BenchmarkFailure("not ready: \(String(buffer: answer.body))") }
    }
    return process
  }
}
