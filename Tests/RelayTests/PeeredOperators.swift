// Two operators on embedded stores who trust each other.

import ChildProcesses
import TestSupport

/// One of two operators, and its only process. A process that was ended can be started again with `serve`.
final class PeeredOperator {
  let site: RelayOperator
  private(set) var relay: RelayProcess

  private init(_ site: RelayOperator) async throws {
    self.site = site
    try await site.relay("ca", "init")
    try await site.relay("ca", "issue")
    relay = try await site.serve(["RELAY_FEDERATION_PORT": "\(site.federationPort)"])
  }

  func serve() async throws {
    relay = try await site.serve(["RELAY_FEDERATION_PORT": "\(site.federationPort)"])
  }

  /// Ends the process as an operator would.
  func stop() async throws {
    let exit = await relay.terminate()
    guard exit == .code(0) else { throw TestFailure("relay serve \(exit): \(relay.log().suffix(2000))") }
  }

  /// Waits until a request of one of our clients reaches `peer`: processes read who their peers are by themselves.
  private func expectReaching(_ peer: PeeredOperator) async throws {
    let client = try await relay.register()
    try await eventually("\(peer.site.name) is reached") {
      let path = "/v1/keys/\(TestDevice.freshNumber())?relay=\(peer.site.name)"
      return try await relay.send("GET", path, as: client).status == 404
    }
  }

  /// Runs `body` with the operators `alpha` and `beta`, and ends what runs of them then.
  static func withTwo(
    settings: [String: String] = RelayUnderTest.unlimited,
    _ body: (_ alpha: PeeredOperator, _ beta: PeeredOperator) async throws -> Void
  ) async throws {
    try await RelayOperator.with("alpha", settings: settings) { first in
      try await RelayOperator.with("beta", settings: settings) { second in
        let alpha = try await PeeredOperator(first)
        let beta = try await PeeredOperator(second)
        do {
          let invited = try await first.relay("peer", "invite").split(separator: "\n")
          guard let word = invited.last else { throw TestFailure("no invitation") }
          try await second.relay("peer", "accept", String(word))
          for (one, other) in [(alpha, beta), (beta, alpha)] { try await one.expectReaching(other) }
          try await body(alpha, beta)
          for one in [alpha, beta] where one.relay.child.exit == nil { try await one.stop() }
        } catch {
          for one in [alpha, beta] { await one.relay.kill9() }
          throw error
        }
      }
    }
  }
}
