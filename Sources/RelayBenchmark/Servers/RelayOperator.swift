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
  }

  let name: String
  let ports: Ports
  /// Its database in the PostgreSQL that the operators share.
  var database: String { name }
  var url: String { "http://127.0.0.1:\(ports.client)" }
  /// The folder of its certificates.
  let identity: String

  private let executable: String
  private let workshop: Workshop
  private let environment: [String: String]

  init(
    name: String, ports: Ports, executable: String, workshop: Workshop, postgres: PostgresServer, redis: RedisServer
  ) throws {
    self.name = name
    self.ports = ports
    self.executable = executable
    self.workshop = workshop
    let folder = try workshop.makeFolder(name)
    identity = folder.appending(path: "federation").path
    var environment = ProcessInfo.processInfo.environment.filter { !$0.key.hasPrefix("RELAY_") }
    let own = [
      "RELAY_NAME": name,
      "RELAY_CLIENT_PORT": "\(ports.client)",
      "RELAY_OPERATOR_PORT": "\(ports.administration)",
      "RELAY_FEDERATION_PORT": "\(ports.federation)",
      "RELAY_FEDERATION_URL": "https://127.0.0.1:\(ports.federation)",
      "RELAY_FEDERATION_DIRECTORY": identity,
      "RELAY_STORAGE_URL": postgres.url(name),
      "RELAY_COORDINATION_URL": redis.url,
      "RELAY_ATTACHMENTS_URL": "file:\(folder.appending(path: "attachments").path)",
      "RELAY_DEVELOPMENT_ENABLED": "true",
    ]
    environment.merge(own) { $1 }
    environment.merge(Self.raisedLimits) { $1 }
    self.environment = environment
  }

  /// Every limit is charged as always and never reached.
  private static var raisedLimits: [String: String] {
    var variables: [String: String] = [:]
    variables["RELAY_MESSAGES_MAILBOX_MAX"] = "1000000000"
    variables["RELAY_MESSAGES_MAILBOX_SENDER_MAX"] = "1000000000"
    for limiter in LimiterName.allCases {
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

  /// Makes schema and certificates, starts `relay serve`, and waits until it can serve.
  func start() async throws -> ChildProcess {
    try await relay("migrate", "run")
    try await relay("ca", "init")
    try await relay("ca", "issue")
    let process = try await workshop.serve(name, [executable, "serve"], environment: environment)
    try await waitUntil("\(name): relay serve", while: process) {
      let answer = try await Probe.get("/readyz", port: ports.administration)
      guard answer.status == 200 else { throw BenchmarkFailure("not ready: \(String(buffer: answer.body))") }
    }
    return process
  }
}
