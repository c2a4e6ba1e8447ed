import Storage

/// The findings on the servers that a distributed store lies at.
enum PlacementFindings {
  static func all(_ found: PostgresPlacement) -> [Finding] {
    guard !found.isWorker else {
      return [.failed("it is a worker of a cluster", remedy: "Let storage.url name the coordinator.")]
    }
    guard found.isBegun else { return [.skipped("one server holds the store")] }
    let faults = tables(found) + nodes(found) + skew(found)
    return faults.isEmpty ? [.ok(summary(found))] : faults + [.ok(summary(found)).named("servers")]
  }

  private static func summary(_ found: PostgresPlacement) -> String {
    let tables = found.tables.count { $0.spread != nil }
    let nodes = found.workers.map { "\($0.address) has \($0.shards), \($0.bytes >> 20) MiB" }
    let skew = found.skew.map { "; the largest has \(rounded($0)) times the mean" } ?? ""
    return "\(tables) tables in \(found.shards) shards: \(nodes.joined(separator: "; "))\(skew)"
  }

  private static func tables(_ found: PostgresPlacement) -> [Finding] {
    let alone = found.tables.filter { $0.spread == nil }.map(\.name)
    let kept = found.tables.filter { $0.spread != nil && $0.localBytes > 0 }.map(\.name)
    let remedy = "Stop all relays, and run `relay storage distribute`: it goes on where it ended."
    return [
      alone.isEmpty ? nil : .warned("not distributed: \(alone.joined(separator: ", "))", remedy: remedy),
      kept.isEmpty
        ? nil : .warned("the coordinator keeps former rows of \(kept.joined(separator: ", "))", remedy: remedy),
    ].compactMap(\.self)
  }

  private static func nodes(_ found: PostgresPlacement) -> [Finding] {
    found.nodes.compactMap { node in
      if !node.isActive {
        return .warned(
          "\(node.address) is not active in the cluster",
          remedy: "Start it, and run citus_activate_node (docs/scale.md).")
      }
      if !node.answers {
        return .failed(
          "\(node.address) does not answer the coordinator",
          remedy: "Start it: requests for the accounts that lie there are refused until then.")
      }
      if !node.preparesTransactions {
        return .failed(
          "max_prepared_transactions is 0 at \(node.address)",
          remedy: "Set it to twice max_connections, and restart that server: writes to several servers fail.")
      }
      guard !node.unsafeSettings.isEmpty else { return nil }
      return .failed(
        "off at \(node.address): \(node.unsafeSettings.joined(separator: ", "))",
        remedy: "Switch it on in postgresql.conf there: accepted messages can be lost without it.")
    }
  }

  private static func skew(_ found: PostgresPlacement) -> [Finding] {
    guard let skew = found.skew, skew > skewMax else { return [] }
    return [
      .warned(
        "the largest server has \(rounded(skew)) times the bytes of the mean",
        remedy: "Move shards: SELECT citus_rebalance_start(); as a superuser (docs/scale.md).")
    ]
  }

  private static func rounded(_ value: Double) -> Double { (value * 100).rounded() / 100 }

  private static let skewMax = 1.5
}
