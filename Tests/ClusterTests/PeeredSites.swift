import ChildProcesses
import Foundation
import TestSupport
import Testing

/// Two operators on embedded stores, serving and peered by their commands.
struct PeeredSites: Sendable {
  let alpha: RelayOperator
  let beta: RelayOperator
  let alphaRelay: RelayProcess
  let betaRelay: RelayProcess

  /// - Parameters:
  ///   - scope: of the peering, as `relay peer invite --scope` takes it.
  ///   - alphaSettings: of the first of them, besides.
  static func with(
    scope: String = "messages,keys,directory,attachments", alphaSettings: [String: String] = [:],
    _ body: @Sendable (PeeredSites) async throws -> Void
  ) async throws {
    try await RelayOperator.with("alpha", settings: Cluster.unlimited.merging(alphaSettings) { $1 }) { alpha in
      try await RelayOperator.with("beta", settings: Cluster.unlimited) { beta in
        let relays = [try await start(alpha), try await start(beta)]
        do {
          let invited = try await alpha.relay("peer", "invite", "--scope", scope).split(separator: "\n")
          try await beta.relay("peer", "accept", String(try #require(invited.last)))
          try await body(PeeredSites(alpha: alpha, beta: beta, alphaRelay: relays[0], betaRelay: relays[1]))
        } catch {
          for relay in relays { await relay.kill9() }
          throw error
        }
        for relay in relays where relay.child.exit == nil { await relay.terminate() }
      }
    }
  }

  static func start(_ site: RelayOperator) async throws -> RelayProcess {
    try await site.relay("ca", "init")
    try await site.relay("ca", "issue")
    return try await site.serve(["RELAY_FEDERATION_PORT": "\(site.federationPort)"])
  }

  /// The settings by which a command finds the listeners of `relay`.
  static func ports(_ site: RelayOperator, _ relay: RelayProcess) -> [String: String] {
    [
      "RELAY_CLIENT_PORT": "\(relay.clientPort)", "RELAY_OPERATOR_PORT": "\(relay.operatorPort)",
      "RELAY_FEDERATION_PORT": "\(site.federationPort)",
    ]
  }
}

extension CommandResult {
  /// Standard output as JSON.
  func json<Value: Decodable>(_ type: Value.Type = Value.self) throws -> Value {
    do {
      return try JSONDecoder().decode(type, from: Data(output.utf8))
    } catch {
      throw TestFailure("no JSON (\(exit)): \(output.prefix(500)) \(errors.suffix(1000))")
    }
  }
}
