import CampaignModel
import ChildProcesses
import Foundation
import RelayCore
import Synchronization
import TestSupport

/// One of the two operators of a campaign: three processes behind HAProxy, on a PostgreSQL and a Redis of its own, with
/// something that can be cut, slowed or made lossy between all of them.
final class CampaignSite: Sendable {
  let name: String
  let cluster: Cluster
  let postgres: CampaignPostgres
  let team: RelayTeam
  /// Between each process and the stores.
  private let storeLinks: [Link: [LinkProxy]]
  /// To the balancer: from the other operator, and from clients.
  let entrances: (peers: LinkProxy, clients: LinkProxy)
  /// The disk that the operator's processes write to; nil if no disk is to be full.
  let disk: TestDisk?
  /// Days past retention that `maintain` has made.
  private let oldDays = Atomic(0)

  static let processes = 3

  /// The means that the operators of a campaign are given.
  struct Means: Sendable {
    let pushes: CampaignPushes
    /// A fault that their processes have from the begin.
    var planted: String?
    /// Their clocks can be set.
    var hasClocks = false
    /// Their disks can be full.
    var hasOwnDisks = false
  }

  private init(
    _ name: String, _ cluster: Cluster, _ postgres: CampaignPostgres, _ team: RelayTeam,
    _ storeLinks: [Link: [LinkProxy]], _ entrances: (peers: LinkProxy, clients: LinkProxy), _ disk: TestDisk?
  ) {
    self.name = name
    self.cluster = cluster
    self.postgres = postgres
    self.team = team
    self.storeLinks = storeLinks
    self.entrances = entrances
    self.disk = disk
  }

  /// By way of the balancer.
  var url: String { "http://127.0.0.1:\(entrances.clients.port)" }

  /// Limits that devices of a campaign do not run into, but the one that is watched; and times that make it short.
  private static let settings = Cluster.unlimited.merging([
    "RELAY_LIMITS_MESSAGES_PER_MINUTE": "1000000", "RELAY_LIMITS_VERIFY_ADDRESS_SIZE": "1000000",
    "RELAY_LIMITS_CODE_ADDRESS_SIZE": "1000000", "RELAY_LIMITS_CODE_TOTAL_SIZE": "1000000",
    "RELAY_LIMITS_PEER_PREKEYS_SIZE": "1000000", "RELAY_LIMITS_PREKEYS_SIZE": "\(WatchedLimit.size)",
    "RELAY_LIMITS_PREKEYS_PER_MINUTE": "\(WatchedLimit.perMinute)", "RELAY_MESSAGES_POLL_SECONDS": "5",
    "RELAY_CLIENT_WEBSOCKET_IDLE_SECONDS": "30", "RELAY_CLIENT_TRUSTED_PROXIES": "127.0.0.1",
    "RELAY_DRAIN_SECONDS": "5",
  ]) { $1 }

  /// Runs `body` with an operator that serves, with an authority of its own.
  static func with<Result: Sendable>(
    _ name: String, seed: UInt64, _ means: Means, _ body: @Sendable (CampaignSite) async throws -> Result
  ) async throws -> Result {
    let entrances = (peers: try await LinkProxy(to: 1, seed: seed), clients: try await LinkProxy(to: 1, seed: seed))
    var settings = Self.settings.merging(means.pushes.settings) { $1 }
    settings["RELAY_FEDERATION_URL"] = "https://127.0.0.1:\(entrances.peers.port)"
    settings["PLANTED_FAULT"] = means.planted
    return try await Cluster.with(
      name, settings: settings, ownPostgres: true, hasOwnDisks: means.hasOwnDisks
    ) { cluster in
      let disk = try means.hasOwnDisks ? TestDisk(at: cluster.site.folder) : nil
      defer { disk?.remove() }
      var links: [Link: [LinkProxy]] = [:]
      for (link, port) in [(Link.postgres, cluster.postgres.port), (.redis, cluster.redis.port)] {
        for index in 0..<processes {
          links[link, default: []].append(try await LinkProxy(to: port, seed: seed &+ UInt64(index)))
        }
      }
      let postgres = try await CampaignPostgres(cluster.postgres, hasOwnDisks: means.hasOwnDisks)
      try await cluster.site.relay("ca", "init")
      try await cluster.site.relay("ca", "issue")
      var made: [Int: [String: String]] = [:]
      for index in 0..<processes where means.hasClocks {
        try clock(at: cluster.site.folder, of: index, ahead: 0)
        made[index] = [
          "LD_PRELOAD": try WrongClock.library(), "FAKETIME_TIMESTAMP_FILE": "\(cluster.site.folder)/clock-\(index)",
          "FAKETIME_CACHE_DURATION": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        ]
      }
      let (storeLinks, database, clocks) = (links, cluster.database, made)
      let result = try await RelayTeam.with(
        try RelayPorts.free(processes, withPeers: true), of: cluster.site,
        settings: { index in
          var own = clocks[index] ?? [:]
          if let link = storeLinks[.postgres]?[index] {
            own["RELAY_STORAGE_URL"] = database.replacing(":\(cluster.postgres.port)/", with: ":\(link.port)/")
          }
          if let link = storeLinks[.redis]?[index] { own["RELAY_COORDINATION_URL"] = "redis://127.0.0.1:\(link.port)" }
          return own
        }
      ) { team in
        try await HAProxyServer.with(before: team.ports) { balancer in
          entrances.peers.lead(to: balancer.peersPort)
          entrances.clients.lead(to: balancer.port)
          return try await body(CampaignSite(name, cluster, postgres, team, storeLinks, entrances, disk))
        }
      }
      for link in links.values.joined() { try await link.close() }
      for entrance in [entrances.peers, entrances.clients] { try await entrance.close() }
      try await postgres.close()
      return result
    }
  }

  /// Two operators, peered, each of which holds messages for the other.
  static func withTwo<Result: Sendable>(
    seed: UInt64, _ means: Means, _ body: @escaping @Sendable ([CampaignSite]) async throws -> Result
  ) async throws -> Result {
    try await with("alpha", seed: seed, means) { alpha in
      try await with("beta", seed: seed &+ 100, means) { beta in
        let invited = try await alpha.cluster.site.relay("peer", "invite").split(separator: "\n")
        try await beta.cluster.site.relay("peer", "accept", String(invited.last ?? ""))
        try await alpha.cluster.site.relay("peer", "set", "beta", "--hold", "on")
        try await beta.cluster.site.relay("peer", "set", "alpha", "--hold", "on")
        return try await body([alpha, beta])
      }
    }
  }

  /// Between the process and a store, or the way that the link is of the operator.
  func link(_ link: Link, of process: Int) throws -> LinkProxy {
    if link == .standby { return postgres.link }
    if link == .clients { return entrances.clients }
    guard let proxies = storeLinks[link], proxies.indices.contains(process) else {
      throw TestFailure("no such link: \(link) of process \(process)")
    }
    return proxies[process]
  }

  /// The setting by which commands find the primary, wherever it is by now.
  private var storage: [String: String] {
    let (from, to) = (":\(cluster.postgres.port)/", ":\(postgres.primary.port)/")
    return ["RELAY_STORAGE_URL": cluster.database.replacing(from, with: to)]
  }

  /// Runs a step of a later build; again where it could not have its locks, as an operator would.
  func migrate() async throws {
    guard let url = storage["RELAY_STORAGE_URL"] else { throw TestFailure("the operator has no database") }
    try await eventually("the later build's step is run", within: .seconds(60), every: .seconds(1)) {
      do {
        try await LaterBuild.migrate(url)
        return true
      } catch is StoreError {
        return false
      }
    }
  }

  /// Adds a day past retention, and has a further process begin, which drops it, while a backup reads.
  func maintain() async throws {
    let age = 45 + oldDays.add(1, ordering: .relaxed).newValue
    let (primary, database) = (postgres.primary, cluster.database)
    try await Loopback.blocking {
      _ = try primary.sql(
        """
        DO $$
        DECLARE
          first date := (now() AT TIME ZONE 'UTC')::date - \(age);
          name text := 'messages' || to_char(first, '_YYYYMMDD');
        BEGIN
          EXECUTE format('CREATE TABLE %I (LIKE messages INCLUDING DEFAULTS INCLUDING INDEXES INCLUDING STORAGE)', name);
          EXECUTE format('ALTER TABLE messages ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', name, first, first + 1);
        END $$
        """, in: database)
    }
    async let backup = Loopback.blocking {
      try primary.sql("BEGIN; LOCK TABLE messages IN ACCESS SHARE MODE; SELECT pg_sleep(2); COMMIT", in: database)
    }
    guard let ports = try RelayPorts.free(1, withPeers: true).first else { return }
    let process = try await cluster.site.serve(ports.settings.merging(storage) { $1 })
    _ = try await backup
    let exit = await process.terminate(within: .seconds(60))
    guard exit == .code(0) else { throw TestFailure("relay serve \(exit): \(process.log().suffix(1000))") }
  }

  /// From now on the processes find the promoted server.
  func lead(to postgres: PostgresServer) {
    for link in storeLinks[.postgres] ?? [] {
      link.lead(to: postgres.port)
      link.endAll()
    }
  }

  /// Gives a process another date; time goes by as it does elsewhere.
  func setClock(of process: Int, ahead seconds: Int) throws {
    try Self.clock(at: cluster.site.folder, of: process, ahead: seconds)
  }

  private static func clock(at folder: String, of process: Int, ahead seconds: Int) throws {
    let text = seconds < 0 ? "\(seconds)" : "+\(seconds)"
    try text.write(toFile: "\(folder)/clock-\(process)", atomically: true, encoding: .utf8)
  }

  /// The path of another build's executable, if there is one.
  static func olderBuild() throws -> String {
    guard let path = ProcessInfo.processInfo.environment["RELAY_OLD_BINARY"] else {
      throw TestFailure("RELAY_OLD_BINARY names no older build")
    }
    return path
  }

  /// Resident memory, and open descriptors without those of WebSockets: devices come back to any of the processes.
  func resources(of process: Int) async throws -> (bytes: Int, descriptors: Int) {
    let running = try team.process(process)
    let sockets = try await running.sum(of: "relay_connections")
    let descriptors = try FileManager.default.contentsOfDirectory(atPath: "/proc/\(running.child.pid)/fd").count
    return (try running.residentBytes(), descriptors - sockets)
  }
}

/// The limiter that a campaign floods: keys that one account draws of one other.
enum WatchedLimit {
  static let bucket = "prekeys"
  static let size = 20
  static let perMinute = 30.0
}

extension RelayProcess {
  /// The number of receipts that it has dropped, by its own word.
  func receiptsDropped() async throws -> Int { try await sum(of: "relay_receipts_dropped_total") }

  /// Over all labels of a metric.
  fileprivate func sum(of metric: String) async throws -> Int {
    try await ask("/metrics").text.split(separator: "\n").filter { $0.hasPrefix(metric + "{") }
      .reduce(0) { $0 + Int(Double($1.split(separator: " ").last ?? "") ?? 0) }
  }
}
