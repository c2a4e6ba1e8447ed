import Foundation
import Synchronization
import TestSupport

/// Faults of an operator's processes, its servers and the connections to it, at random moments until it is told to
/// end.
final class Chaos: Sendable {
  private enum ServerMishap: String, CaseIterable {
    case redisFlushed, redisRestarted, postgresRestarted, postgresCrashed
  }
  private static let processKilled = "process killed"
  private static let twoKilled = "two processes killed together"
  private static let allCut = "all connections of a process cut"

  private let cluster: Cluster
  private let team: RelayTeam
  private let proxies: [CuttingProxy]
  private let isEnding = Atomic(false)
  private let happened = Mutex<[String: Int]>([:])

  /// - Parameter proxies: the ways to the processes of `team`.
  init(_ cluster: Cluster, _ team: RelayTeam, _ proxies: [CuttingProxy]) {
    self.cluster = cluster
    self.team = team
    self.proxies = proxies
  }

  /// Returns when `end` has been called and everything is whole again.
  func run(_ random: SeededGenerator) async throws {
    var random = random
    let (processes, servers, cuts) = (random.split(), random.split(), random.split())
    // A delivery takes some hundred bytes: connections break within the upgrade, early and late.
    for proxy in proxies { proxy.cut(after: 100...40_000) }
    try await withThrowingTaskGroup(of: Void.self) { group in
      group.addTask { try await self.troubleProcesses(processes) }
      group.addTask { try await self.troubleServers(servers) }
      group.addTask { try await self.cutConnections(cuts) }
      try await group.waitForAll()
    }
    // A connection that is silent now would stay so. A message that a device has refused comes on its next
    // connection.
    for proxy in proxies {
      proxy.cut(after: nil)
      proxy.cutAll()
    }
  }

  func end() { isEnding.store(true, ordering: .releasing) }

  /// Whether every kind of mishap has happened, and connections broke in every way, some of them more than once.
  var isComplete: Bool {
    let counts = happened.withLock { $0 }
    let kinds = ServerMishap.allCases.map(\.rawValue) + [Self.processKilled, Self.twoKilled, Self.allCut]
    return kinds.allSatisfy { counts[$0] != nil } && counts[Self.processKilled, default: 0] >= team.ports.count
      && CuttingProxy.Cut.allCases.allSatisfy { cuts(by: $0) >= Self.cutsMin }
  }

  private static let cutsMin = 3

  private func cuts(by cut: CuttingProxy.Cut) -> Int { proxies.reduce(0) { $0 + ($1.cuts[cut] ?? 0) } }

  /// How often what happened.
  var summary: String {
    var counts = happened.withLock { $0 }
    for cut in CuttingProxy.Cut.allCases { counts["connections cut by \(cut)"] = cuts(by: cut) }
    return "  happened: " + counts.sorted { $0.key < $1.key }.map { "\($0.value) × \($0.key)" }.joined(separator: ", ")
  }

  private var goesOn: Bool { !isEnding.load(ordering: .acquiring) }

  private func troubleProcesses(_ random: SeededGenerator) async throws {
    var random = random
    var order: [[Int]] = []
    while goesOn {
      try await pause(.milliseconds(500)...(.seconds(4)), &random)
      if order.isEmpty {
        // Each alone, and two together.
        order = team.ports.indices.map { [$0] } + [Array(team.ports.indices.shuffled(using: &random).prefix(2))]
        order.shuffle(using: &random)
      }
      let victims = order.removeLast()
      try await team.kill9(victims, pause: .milliseconds(Int.random(in: 0...1500, using: &random)))
      count(victims.count == 1 ? Self.processKilled : Self.twoKilled)
    }
  }

  private func troubleServers(_ random: SeededGenerator) async throws {
    var random = random
    var order = ServerMishap.allCases.shuffled(using: &random)
    while goesOn {
      try await pause(.milliseconds(500)...(.seconds(4)), &random)
      guard let mishap = order.popLast() ?? ServerMishap.allCases.randomElement(using: &random) else { return }
      let away = Duration.milliseconds(Int.random(in: 0...1500, using: &random))
      let (redis, postgres) = (cluster.redis, cluster.postgres)
      switch mishap {
      case .redisFlushed: try redis.flush()
      case .redisRestarted:
        redis.stop()
        try await Task.sleep(for: away)
        try await redis.start()
      case .postgresRestarted:
        try await Loopback.blocking { try postgres.stop() }
        try await Task.sleep(for: away)
        try await Loopback.blocking { try postgres.start() }
      case .postgresCrashed:
        try await Loopback.blocking { try postgres.kill9() }
        try await Task.sleep(for: away)
        try await Loopback.blocking { try postgres.start() }
      }
      // When it is over: so all of it happened while messages were sent.
      count(mishap.rawValue)
    }
  }

  private func cutConnections(_ random: SeededGenerator) async throws {
    var random = random
    while goesOn {
      try await pause(.seconds(1)...(.seconds(6)), &random)
      count(Self.allCut)
      proxies.randomElement(using: &random)?.cutAll()
    }
  }

  private func pause(_ bounds: ClosedRange<Duration>, _ random: inout SeededGenerator) async throws {
    let share = Double.random(in: 0...1, using: &random)
    try await Task.sleep(for: bounds.lowerBound + (bounds.upperBound - bounds.lowerBound) * share)
  }

  private func count(_ what: String) { happened.withLock { $0[what, default: 0] += 1 } }
}
