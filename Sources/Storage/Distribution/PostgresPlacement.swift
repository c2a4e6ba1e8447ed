package import RelayCore

/// How a PostgreSQL store lies among servers, or could lie: what the coordinator tells of itself.
package struct PostgresPlacement: Sendable, Equatable {
  package let citus: Citus
  /// Whether our role may create the extension.
  package let mayCreate: Bool
  /// Whether this server is a worker: it knows another one as its coordinator.
  package let isWorker: Bool
  /// The workers, and the coordinator where it is told its own address. Empty without the extension.
  package let nodes: [Node]
  /// The tables of `DistributedTables`, in its order. Empty without the schema.
  package let tables: [Table]

  /// The extension, as this server has it.
  package enum Citus: Sendable, Equatable {
    /// Its files are not installed.
    case absent
    /// Its files are installed, and the server did not load it at its start.
    case notLoaded
    case loaded
    /// It is created in this database.
    case created(version: String)
  }

  /// A server of the cluster.
  package struct Node: Sendable, Equatable {
    /// As the coordinator reaches it: `10.0.0.11:5432`.
    package let address: String
    package let isCoordinator: Bool
    /// It was not switched off (`citus_disable_node`).
    package let isActive: Bool
    /// Whether the coordinator got an answer from it.
    package let answers: Bool
    /// Whether it keeps transactions for the second phase of a commit (`max_prepared_transactions`).
    package let preparesTransactions: Bool
    /// Settings that a commit needs to outlive a crash of it, and that are off there: `fsync`.
    package let unsafeSettings: [String]
    /// Shards may be placed there.
    package let takesShards: Bool
    /// The shards of one table: those of others lie beside them.
    package let shards: Int
    /// The bytes of all distributed tables there, indexes included.
    package let bytes: Int64
  }

  /// A table that should be distributed.
  package struct Table: Sendable, Equatable {
    package let name: String
    /// nil while it is a table of the coordinator alone.
    package let spread: Spread?
    /// The bytes that the coordinator's own copy has: all of it, or the remains that a distribution leaves behind.
    package let localBytes: Int64

    /// How it is distributed.
    package struct Spread: Sendable, Equatable {
      /// The column that tells where a row lies; nil for none.
      package let column: String?
      /// Tables of one number have the shards of an account at one server.
      package let group: Int
      package let shards: Int
    }
  }
}

// MARK: What it comes to

extension PostgresPlacement {
  /// The servers that hold shards, or may.
  package var workers: [Node] { nodes.filter { $0.takesShards || $0.shards > 0 } }

  /// Whether any table is distributed.
  package var isBegun: Bool { tables.contains { $0.spread != nil } }

  /// Whether all are, and nothing is left to do.
  package var isDone: Bool { !tables.isEmpty && steps(shards: 1).isEmpty }

  package var shards: Int { tables.compactMap(\.spread).first?.shards ?? 0 }

  /// The shards of a store that has none yet, where nobody says how many: the workers may become twice as many before
  /// one has nothing to do. A batch takes a statement for each of its shards, so more of them cost more.
  package var usualShards: Int { 2 * max(1, workers.count) }

  /// The largest server's bytes by the mean of all: 1 where all have as much; nil where there is nothing to compare.
  package var skew: Double? {
    let holders = workers
    let total = holders.reduce(0) { $0 + Double($1.bytes) }
    guard holders.count > 1, total > 0, let largest = holders.map(\.bytes).max() else { return nil }
    return Double(largest) * Double(holders.count) / total
  }

  /// The steps that are left, in order.
  /// - Parameter shards: of a store that has none yet.
  package func steps(shards: Int) -> [DistributionStep] {
    var steps: [DistributionStep] = []
    if case .created = citus {} else { steps.append(.createExtension) }
    var first = tables.first { $0.spread != nil }?.name
    for table in tables where table.spread == nil {
      steps.append(.distribute(table.name, bytes: table.localBytes, first.map { .beside($0) } ?? .shards(shards)))
      first = first ?? table.name
    }
    // A table that is distributed now leaves its remains, too, if it has rows.
    steps += tables.filter { $0.localBytes > 0 }.map { .empty($0.name) }
    return steps
  }

  /// Why nothing can be done here; nil if something can, or all is done.
  package var obstacle: DistributionFailure? {
    switch citus {
    case .absent: return .notInstalled
    case .notLoaded: return .notLoaded
    // The workers are told behind it.
    case .loaded: return mayCreate ? nil : .mayNotCreate
    case .created: break
    }
    guard !isWorker else { return .isWorker(coordinator: nodes.first(where: \.isCoordinator)?.address) }
    guard !tables.isEmpty else { return .noSchema }
    guard nodes.contains(where: { !$0.isCoordinator && $0.takesShards }) else { return .noWorkers }
    if let node = nodes.first(where: { !$0.isActive }) { return .inactive(node: node.address) }
    if let node = nodes.first(where: { !$0.answers }) { return .silent(node: node.address) }
    if let node = nodes.first(where: { !$0.preparesTransactions }) {
      return .noPreparedTransactions(node: node.address)
    }
    let spread = tables.compactMap { table in table.spread.map { (table.name, $0) } }
    if let odd = spread.first(where: { $1.column != DistributedTables.column || $1.group != spread[0].1.group }) {
      return .otherwise(table: odd.0)
    }
    return nil
  }
}

/// A step of `relay storage distribute`. Each is one transaction, and is not done twice.
package enum DistributionStep: Sendable, Equatable {
  case createExtension
  /// Divides a table's rows among the servers.
  case distribute(String, bytes: Int64, Place)
  /// Removes the rows that the coordinator keeps of a table that was distributed: nothing reads them.
  case empty(String)

  package enum Place: Sendable, Equatable {
    case shards(Int)
    /// In the shards of another table.
    case beside(String)
  }
}

/// Why a store was not distributed.
package enum DistributionFailure: Error, Sendable {
  case notInstalled
  case notLoaded
  /// Our role may not create the extension.
  case mayNotCreate
  case isWorker(coordinator: String?)
  case noSchema
  case noWorkers
  case inactive(node: String)
  /// The coordinator gets no answer from a server.
  case silent(node: String)
  /// A table is distributed by another column, or apart from the others.
  case otherwise(table: String)
  /// A server keeps no transaction for the second phase of a commit.
  case noPreparedTransactions(node: String)
  /// Other clients are connected to the database.
  case inUse(connections: Int)
  /// Our role lacks a right, here or at a worker.
  case forbidden
  /// A server has no room for the locks of a statement.
  case tooFewLocks
  /// A server could not be reached from the coordinator during a step, or did not let it in.
  case unreachable
  case store(StoreError)
}
