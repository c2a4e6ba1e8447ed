import Foundation
import RelayConfiguration
import RelayCore
import RelayWork
import Storage

/// The store: whether it answers, how it keeps what it is given, and whether this build can work on it.
struct StorageChecks {
  private let site: DoctorSite

  init(_ site: DoctorSite) { self.site = site }

  var all: [DoctorCheck] {
    [
      DoctorCheck(group: .storage, name: "reachable") { [await reachable()] },
      DoctorCheck(group: .storage, name: "writable") { [await writable()] },
      DoctorCheck(group: .storage, name: "durability") { await durability() },
      DoctorCheck(group: .storage, name: "placement") { await placement() },
      DoctorCheck(group: .storage, name: "contacts") { [await contacts()] },
      DoctorCheck(group: .schema, name: "version") { [await version()] },
      DoctorCheck(group: .schema, name: "pending") { [await pending()] },
      DoctorCheck(group: .schema, name: "parts") { [await parts()] },
    ]
  }

  private func reachable() async -> Finding {
    switch site.store {
    case .absent(let path):
      return .warned("there is no database \(path) yet", remedy: "`relay serve`, or `relay migrate run`, makes it.")
    case .failed(let reason): return .failed(reason, remedy: "Check storage.url, and the owner of file and folder.")
    case .open(let storage):
      do {
        // Connecting is not answering: it happens once.
        try await storage.ping()
        let start = ContinuousClock.now
        try await storage.ping()
        try await storage.ping()
        let millis = (ContinuousClock.now - start) / .milliseconds(2)
        guard millis < Self.slowMillis else {
          return .warned(
            "answers in \(Int(millis)) ms", remedy: "Every message waits for it: put the store closer, or give it more."
          )
        }
        return .ok("answers in \((millis * 10).rounded() / 10) ms")
      } catch {
        guard let fault = await connectFault(of: storage) else {
          return .failed("\(error)", remedy: Self.startRemedy)
        }
        return .failed("\(error): \(fault)", remedy: Self.remedy(for: fault))
      }
    }
  }

  /// Waits for the attempt that is under way: where packets are dropped it says why only when it is over.
  private func connectFault(of storage: any Storage) async -> String? {
    guard let postgres = storage as? PostgresStorage else { return nil }
    await Pause.poll(every: .milliseconds(50), until: .now + Self.attemptMax) { postgres.connectFault != nil }
    return postgres.connectFault
  }

  /// - Parameter fault: as libpq, or the server, says it.
  private static func remedy(for fault: String) -> String {
    switch true {
    case fault.contains("password"): "Correct user and password in storage.url."
    case fault.contains("session is read-only"), fault.contains("server is in hot standby mode"):
      "Promote a standby, or let storage.url name the primary too: none of its hosts takes writes."
    case fault.contains("translate host name"), fault.contains("Name or service not known"):
      "Correct the host in storage.url, or the name service."
    case fault.contains("pg_hba.conf"): "Let the server's pg_hba.conf admit this host, user and database."
    // A new session may have to write a file of the server's own.
    case fault.contains("could not write"), fault.contains("No space left"): roomRemedy
    case fault.contains("does not exist"): "Create it on the server, or correct storage.url."
    case fault.contains("within"), fault.contains("timeout"):
      "Check the address in storage.url, and firewalls on the way: nothing comes back from there."
    case fault.contains("certificate"), fault.contains("SSL"): encryptionRemedy
    default: startRemedy
    }
  }

  /// A store with a full disk refuses writes with 503 and goes on with reads, so `reachable` does not see it.
  private func writable() async -> Finding {
    guard let storage = site.storage else { return DoctorSite.withoutStore }
    do {
      try await storage.tryWriting()
      return .ok("takes writes")
    } catch .corrupted(let reason) {
      return .warned("it cannot be tried: \(reason)", remedy: Self.tryingRemedy)
    } catch {
      guard let reason = storage.refusals.reason else { return DoctorSite.withoutStore }
      return .failed(reason, remedy: Self.roomRemedy)
    }
  }

  private func durability() async -> [Finding] {
    guard let storage = site.storage else { return [DoctorSite.withoutStore] }
    guard let postgres = storage as? PostgresStorage else {
      return [.ok("SQLite, which syncs each commit; one process serves it")]
    }
    do {
      return Self.findings(try await postgres.diagnose())
    } catch {
      // Told once, by `reachable`.
      return [DoctorSite.withoutStore]
    }
  }

  private func placement() async -> [Finding] {
    guard let storage = site.storage else { return [DoctorSite.withoutStore] }
    guard let postgres = storage as? PostgresStorage else { return [.skipped("of PostgreSQL alone")] }
    do {
      return PlacementFindings.all(try await postgres.placement())
    } catch {
      return [DoctorSite.withoutStore]
    }
  }

  private static func findings(_ server: PostgresDiagnosis) -> [Finding] {
    let off = [
      server.syncsFiles ? nil : "fsync", server.writesFullPages ? nil : "full_page_writes",
      server.commitsSynchronously ? nil : "synchronous_commit",
    ].compactMap(\.self)
    let durability =
      off.isEmpty
      ? Finding.ok("commits outlive a crash of the server")
      : .failed(
        "off: \(off.joined(separator: ", "))",
        remedy: "Switch it on in postgresql.conf: accepted messages can be lost without it.")
    let version =
      server.major >= versionMin
      ? Finding.ok("PostgreSQL \(server.version)")
      : .warned(
        "PostgreSQL \(server.version)", remedy: "Update to \(versionMin) or newer: older ones are not tested here.")
    let standby = Finding.failed("it is a standby and takes no writes", remedy: "Let storage.url lead to the primary.")
    let connections =
      server.connections * 5 < server.connectionsMax * 4
      ? Finding.ok("\(server.connections) of \(server.connectionsMax) in use")
      : .warned(
        "\(server.connections) of \(server.connectionsMax) in use",
        remedy: "Raise max_connections: each relay process takes up to \(connectionsPerProcess).")
    return [
      durability.named("durability"), version.named("server"), connections.named("connections"),
      encryption(server.way).named("encryption"), log(server.log).named("server-log"),
      locks(server.locks).named("locks"),
    ] + (server.isStandby ? [standby.named("standby")] : []) + ReplicationFindings.all(server.replication)
  }

  /// Statements on messages lock every partition, each session for itself.
  private static func locks(_ locks: PostgresDiagnosis.Locks) -> Finding {
    let text =
      "\(locks.partitions) partitions of messages; statements of relays may take \(locks.needed) locks, there is room for "
      + "\(locks.room)"
    guard locks.areScarce else { return .ok(text) }
    let remedy =
      "Set max_locks_per_transaction = \(locks.perTransactionNeeded) or more in postgresql.conf, and restart PostgreSQL."
    return locks.needed > locks.room ? .failed(text, remedy: remedy) : .warned(text, remedy: remedy)
  }

  private static func encryption(_ way: PostgresDiagnosis.Way) -> Finding {
    let session = way.encryption.map { "\($0), sslmode=\(way.sslMode)" } ?? "in clear, sslmode=\(way.sslMode)"
    if way.isVerified { return .ok("\(session): the server's name is verified") }
    if way.isLocal { return .ok("\(session), on this host") }
    return .warned(
      way.encryption == nil
        ? "\(session): the network on the way reads and changes all of it"
        : "\(session): whoever stands on the way can play the server",
      remedy: "Set sslmode=verify-full and sslrootcert=FILE in storage.url.")
  }

  private static func log(_ log: PostgresDiagnosis.Log) -> Finding {
    guard log.hasParameters || log.hasParametersOfErrors || log.hasRowsOfErrors else {
      return .ok("the server's log gets no values of ours")
    }
    let found =
      log.hasParameters && log.hasStatements
      ? "the server logs statements with their values, phone numbers among them"
      : "the server's log may get values of ours, phone numbers among them, with "
        + (log.hasRowsOfErrors || log.hasParametersOfErrors ? "an error" : "statements, as soon as it logs them")
    return .warned(
      found,
      remedy: "As a superuser: GRANT SET ON PARAMETER log_parameter_max_length, log_error_verbosity TO our role (from "
        + "PostgreSQL 15 on), or ALTER ROLE our role SET log_parameter_max_length = 0, and SET log_error_verbosity = terse."
    )
  }

  private func contacts() async -> Finding {
    guard let storage = await site.usableStorage() else { return DoctorSite.withoutStore }
    do {
      switch try await storage.contactSealing() {
      case .sealed: return .ok("contact tokens are sealed")
      case .underWay: return .failed("contact tokens are sealed in part", remedy: ContactSealing.underWayRemedy)
      case .locked: return .failed("contact tokens cannot be opened", remedy: ContactSealing.lockedRemedy)
      case .plain:
        return .warned(
          "contact tokens are stored as they are",
          remedy: "Set storage.encryption-key, stop all relays, and run `relay storage seal-contacts`.")
      }
    } catch {
      return DoctorSite.withoutStore
    }
  }

  private func version() async -> Finding {
    guard let storage = site.storage else { return DoctorSite.withoutStore }
    do {
      switch try await storage.compatibility() {
      case .usable(let version): return .ok("version \(version)")
      case .tooOld(let version, let needed):
        return .failed(
          "version \(version), this relay needs \(needed)", remedy: "Run `relay migrate run`: relays may run meanwhile."
        )
      case .tooNew(let version, let newest):
        return .failed("version \(version), this relay knows \(newest) at most", remedy: "Run a newer relay.")
      case .movingIn: return .failed("a store is being moved into it", remedy: SchemaCompatibility.movingInRemedy)
      case .moved: return .failed("it was moved to another store", remedy: SchemaCompatibility.movedRemedy)
      case .distributing: return .failed("it is distributed in part", remedy: SchemaCompatibility.distributingRemedy)
      }
    } catch {
      return DoctorSite.withoutStore
    }
  }

  private func parts() async -> Finding {
    guard let storage = await site.usableStorage() else { return DoctorSite.withoutStore }
    guard let postgres = storage as? PostgresStorage else { return .skipped("of PostgreSQL alone") }
    do {
      let missing = try await postgres.missingParts()
      guard !missing.isEmpty else { return .ok("triggers and functions are there") }
      return .failed(
        "missing, or switched off: \(missing.joined(separator: ", "))",
        remedy:
          "Put the whole dump back, or switch them on (ALTER TABLE ... ENABLE TRIGGER): look-ups miss what they note.")
    } catch {
      return DoctorSite.withoutStore
    }
  }

  private func pending() async -> Finding {
    guard let storage = site.storage else { return DoctorSite.withoutStore }
    do {
      let pending = try await storage.migrations().filter { $0.applied == nil }
      guard !pending.isEmpty else { return .ok("no step is pending") }
      return .warned(
        "\(pending.count) steps have not run: \(pending.map { "\($0.version) \($0.name)" }.joined(separator: ", "))",
        remedy: "Run `relay migrate run`.")
    } catch {
      return DoctorSite.withoutStore
    }
  }

  private static let encryptionRemedy =
    "Check sslmode, sslrootcert, sslcert and sslkey in storage.url, when the server's certificate ends, and that it names "
    + "the host that the URL names."
  private static let tryingRemedy =
    "As the database's owner: GRANT TEMPORARY ON DATABASE our database TO our role. Relays find a full disk sooner then."
  private static let roomRemedy =
    "Give the store's disk room, or mend it: nothing is accepted meanwhile, and nothing of what was accepted is lost."
  static let startRemedy = "Start the database, and check storage.url and the network on the way."
  private static let slowMillis = 50.0
  /// Longer than an attempt to connect takes, shorter than a check may.
  private static let attemptMax = Duration.seconds(7)
  private static let versionMin = 15
  /// Four, and one for maintenance.
  private static let connectionsPerProcess = 6
}
