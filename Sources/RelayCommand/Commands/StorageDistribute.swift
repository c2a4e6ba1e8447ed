import ArgumentParser
import RelayConfiguration
import RelayCore
import Storage

extension StorageCommand {
  /// From one PostgreSQL to a coordinator with workers.
  struct Distribute: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "distribute",
      abstract: "Divide a PostgreSQL store among several servers, with Citus.",
      discussion: """
        storage.url names the coordinator, which knows its workers already. Mailboxes, prekeys and wake-ups then lie at \
        the workers, all of an account at one; everything else stays with the coordinator, and relays connect to it \
        alone. Stop every relay first: they wait outside until it has ended. Whatever breaks it off, run it again: it \
        goes on where it ended. A store that is distributed stays as it is. docs/scale.md says more.

        --plan shows what is there and what would be done, also while relays run.
        """)
    @OptionGroup var configuration: ConfigurationOption
    @Option(
      help: """
        Shards of a store that has none yet: 2 for each worker, unless said. Each can go to a worker of its own later; \
        messages that are stored together cost more the more shards they are for.
        """)
    var shards: Int?
    @Flag(help: "Show what would be done, and change nothing.") var plan = false
    @Flag(help: "Print JSON.") var json = false

    private static let shardsMax = 1024

    func validate() throws {
      guard 1...Self.shardsMax ~= shards ?? 1 else { throw ValidationError("--shards takes 1 to \(Self.shardsMax).") }
    }

    func run() async throws {
      let settings = try configuration.load().configuration
      LogOutput.bootstrap(settings.log)
      guard case .postgres = settings.storage.location else {
        throw CommandFailure(
          "This store is embedded: only PostgreSQL is distributed. `relay storage move` moves it there first.")
      }
      try await withStorage(settings, .asItIs) { storage in
        guard let storage = storage as? PostgresStorage else { return }
        let before = try await Self.placement(of: storage)
        let shards = shards ?? before.usualShards
        if plan { return try show(before, steps: before.steps(shards: shards)) }
        // A worker has neither schema nor audit log.
        if let obstacle = before.obstacle { throw CommandFailure(obstacle.remedy) }
        try await Self.demandUsable(storage)
        try show(try await distribute(storage, shards), steps: [])
      }
    }

    private func distribute(_ storage: PostgresStorage, _ shards: Int) async throws -> PostgresPlacement {
      try await storage.noting(AuditNote("storage distribute")) {
        do throws(DistributionFailure) {
          return try await storage.distribute(shards: shards) { Output.note($0.words) }
        } catch {
          throw CommandFailure(error.remedy)
        }
      }
    }

    private static func placement(of storage: PostgresStorage) async throws -> PostgresPlacement {
      do throws(StoreError) {
        return try await storage.placement()
      } catch {
        throw CommandFailure("The store does not answer: \(storage.connectFault ?? "\(error)").")
      }
    }

    private static func demandUsable(_ storage: PostgresStorage) async throws {
      switch try await storage.compatibility() {
      case .usable, .distributing: return
      case .tooOld: throw CommandFailure("Steps of the schema are pending: run `relay migrate run` first.")
      case .tooNew: throw CommandFailure("The schema is newer than this relay knows: run a newer relay.")
      case .movingIn: throw CommandFailure(SchemaCompatibility.movingInRemedy)
      case .moved: throw CommandFailure(SchemaCompatibility.movedRemedy)
      }
    }

    // MARK: What it says

    private struct Result: Encodable {
      struct Node: Encodable {
        let address: String
        let isCoordinator: Bool
        let isActive: Bool
        let answers: Bool
        let shards: Int
        let bytes: Int64
      }
      struct Table: Encodable {
        let table: String
        let isDistributed: Bool
        let shards: Int
      }
      /// The extension's version; nil if it is not created.
      let citus: String?
      let nodes: [Node]
      let tables: [Table]
      /// The largest server's bytes by the mean of all.
      let skew: Double?
      /// The steps that are left.
      let steps: [String]
      /// Why nothing of it can be done; nil where it can.
      let obstacle: String?

      init(_ placement: PostgresPlacement, _ steps: [DistributionStep]) {
        citus = if case .created(let version) = placement.citus { version } else { nil }
        nodes = placement.nodes.map {
          Node(
            address: $0.address, isCoordinator: $0.isCoordinator, isActive: $0.isActive, answers: $0.answers,
            shards: $0.shards, bytes: $0.bytes)
        }
        tables = placement.tables.map {
          Table(table: $0.name, isDistributed: $0.spread != nil, shards: $0.spread?.shards ?? 0)
        }
        skew = placement.skew.map { ($0 * 100).rounded() / 100 }
        self.steps = steps.map(\.words)
        obstacle = placement.obstacle?.remedy
      }
    }

    private func show(_ placement: PostgresPlacement, steps: [DistributionStep]) throws {
      if json { return try Output.json(Result(placement, steps)) }
      if !placement.nodes.isEmpty {
        Output.table(
          [["SERVER", "SHARDS", "SIZE", ""]]
            + placement.nodes.map {
              [$0.address, "\($0.shards)", "\($0.bytes >> 20) MiB", $0.isCoordinator ? "coordinator" : ""]
            })
      }
      if plan, let obstacle = placement.obstacle { Output.line(obstacle.remedy) }
      for step in steps { Output.line("To do: \(step.words)") }
      guard steps.isEmpty else { return }
      let count = placement.nodes.count { $0.shards > 0 }
      Output.line(
        "Distributed: \(placement.tables.count) tables in \(placement.shards) shards at \(count) "
          + (count == 1 ? "server." : "servers."))
    }
  }
}

extension DistributionStep {
  fileprivate var words: String {
    switch self {
    case .createExtension: "create the extension citus"
    case .distribute(let table, let bytes, .shards(let count)):
      "divide \(table), \(bytes >> 20) MiB, into \(count) shards"
    case .distribute(let table, let bytes, .beside(let other)):
      "divide \(table), \(bytes >> 20) MiB, as \(other) is"
    case .empty(let table): "remove what the coordinator keeps of \(table)"
    }
  }
}

extension DistributionProgress {
  fileprivate var words: String {
    switch self {
    case .began(let step): step.words
    case .copied(let table, let bytes, let total): "\(table): about \(bytes >> 20) of \(total >> 20) MiB"
    }
  }
}

extension DistributionFailure {
  fileprivate var remedy: String {
    switch self {
    case .notInstalled:
      "The server does not offer Citus: install it at every server, set shared_preload_libraries = 'citus' in "
        + "postgresql.conf, and restart (docs/scale.md)."
    case .notLoaded:
      "The server has not loaded Citus: set shared_preload_libraries = 'citus' in postgresql.conf, here and at every "
        + "worker, and restart."
    case .mayNotCreate:
      "Our role may not create the extension. In this database, as a superuser: CREATE EXTENSION citus;"
    case .isWorker(let coordinator):
      "This server is a worker: let storage.url name its coordinator\(coordinator.map { ", \($0)" } ?? "")."
    case .noSchema: "The database holds no store: run `relay migrate run` first."
    case .noWorkers: Self.addingWorkers
    case .inactive(let node):
      "\(node) is switched off in the cluster. As a superuser: SELECT citus_activate_node(\(Self.arguments(node)));"
    case .silent(let node):
      "The coordinator gets no answer from \(node): start it, let its pg_hba.conf admit the coordinator as our role, and "
        + "see the coordinator's log."
    case .noPreparedTransactions(let node):
      "max_prepared_transactions is 0 at \(node): set it to twice max_connections, and restart that server."
    case .otherwise(let table):
      "The table \(table) is distributed otherwise than relays need it: by the column account, and with the others. Take "
        + "that back (SELECT undistribute_table('\(table)');), and run the command again."
    case .inUse(let connections):
      "Other clients are connected to this store's database (\(connections) connections; pg_stat_activity tells whose). "
        + "Any may be a relay: stop all of them, psql and monitoring too, and run the command again."
    case .forbidden:
      "Our role may not do that: it must own the tables of the store, and be known at every worker. The server's log "
        + "names what it lacks."
    case .tooFewLocks:
      "A server has no room for so many locks: set max_locks_per_transaction = 1024 in postgresql.conf of every server, "
        + "restart them, and run the command again."
    case .unreachable:
      "The coordinator lost a worker, or was not let in: the coordinator's log says which. Run the command again: it goes "
        + "on where it ended."
    case .store(let error):
      "It was broken off (\(error)). Run it again: it goes on where it ended. If it was begun, no relay starts before it "
        + "has ended."
    }
  }

  private static let addingWorkers = """
    The coordinator knows no workers. As a superuser, in a database of the same name at each worker:
      CREATE EXTENSION citus;
    Then in this database, once for each worker, by the names and ports at which the servers reach each other:
      SELECT citus_set_coordinator_host('COORDINATOR', 5432);
      SELECT citus_add_node('WORKER', 5432);
    """

  /// The host and the port of an address, as a function takes them.
  private static func arguments(_ address: String) -> String {
    guard let colon = address.lastIndex(of: ":") else { return "'\(address)'" }
    return "'\(address[..<colon])', \(address[address.index(after: colon)...])"
  }
}
