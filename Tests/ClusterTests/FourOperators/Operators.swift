import ChildProcesses
import Foundation
import TestSupport

/// One of four peered operators: on servers of its own, on a host of its own.
final class Operator: Sendable {
  let site: RelayOperator
  let host: Network.Host
  private let running = Running()

  init(_ site: RelayOperator, on host: Network.Host) {
    self.site = site
    self.host = host
  }

  var name: String { site.name }
  /// The processes that run. The first of them takes the peers' connections.
  var relays: [RelayProcess] { get async { await running.relays } }

  /// Starts `count` processes. - Parameter clock: what `faketime` calls an offset, as `+200d`; nil for the true time.
  func start(_ count: Int = 1, clock: String? = nil) async throws {
    for index in 0..<count {
      let port = index == 0 ? site.federationPort : try Loopback.freePorts(1)[0]
      var overrides = ["RELAY_FEDERATION_PORT": "\(port)"]
      if let clock {
        overrides["LD_PRELOAD"] = try WrongClock.library()
        overrides["FAKETIME"] = clock
        // Only the date is wrong: time goes by as it does elsewhere.
        overrides["FAKETIME_DONT_FAKE_MONOTONIC"] = "1"
      }
      await running.add(try await site.serve(overrides))
    }
  }

  func kill9() async { for relay in await running.takeAll() { await relay.kill9() } }
  func send(_ signal: Int32) async { for relay in await running.relays { relay.child.send(signal) } }

  private actor Running {
    private(set) var relays: [RelayProcess] = []
    func add(_ relay: RelayProcess) { relays.append(relay) }
    func takeAll() -> [RelayProcess] {
      defer { relays = [] }
      return relays
    }
  }
}

enum Operators {
  /// Runs `body` with alpha, on two processes, beta, gamma and delta, each peered with alpha, which holds messages for
  /// all of them.
  static func with(
    settings: [String: String], _ body: @Sendable ([Operator], Network) async throws -> Void
  ) async throws {
    try await MachineRoom.with {
      try await Network.with(4) { network in
        try await withAll(["alpha", "beta", "gamma", "delta"], [], network, settings: settings) { operators in
          do {
            for one in operators {
              try await one.site.relay("migrate", "run")
              try await one.site.relay("ca", "init")
              try await one.site.relay("ca", "issue")
              try await one.start(one.name == "alpha" ? 2 : 1)
            }
            for peer in operators.dropFirst() { try await befriend(operators[0], peer) }
            try await body(operators, network)
          } catch {
            for one in operators {
              for relay in await one.relays { print("--- \(one.name)\n\(relay.log().suffix(3000))") }
              await one.kill9()
            }
            throw error
          }
          for one in operators {
            for relay in await one.relays {
              let exit = await relay.terminate()
              guard exit == .code(0) else { throw TestFailure("\(one.name): \(exit)") }
            }
          }
        }
      }
    }
  }

  private static func befriend(_ alpha: Operator, _ peer: Operator) async throws {
    let invited = try await alpha.site.relay("peer", "invite").split(separator: "\n")
    try await peer.site.relay("peer", "accept", String(invited.last ?? ""))
    try await alpha.site.relay("peer", "set", peer.name, "--hold", "on")
  }

  private static func withAll(
    _ names: [String], _ made: [Operator], _ network: Network, settings: [String: String],
    _ body: @Sendable ([Operator]) async throws -> Void
  ) async throws {
    guard let name = names.first else { return try await body(made) }
    let host = network.hosts[made.count]
    let postgres = try await Loopback.blocking { try PostgresServer.shared() }
    let database = try await Loopback.blocking { postgres.socketURL(try postgres.createDatabase()) }
    try await RedisServer.with { redis in
      try await RelayOperator.with(
        name, stores: .servers(storage: database, coordination: "redis+unix://\(redis.socketPath)"),
        settings: settings, at: host.place
      ) { site in
        try await withAll(
          Array(names.dropFirst()), made + [Operator(site, on: host)], network, settings: settings, body)
      }
    }
  }
}
