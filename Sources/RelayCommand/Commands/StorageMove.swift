import ArgumentParser
import Foundation
import Logging
import RelayConfiguration
import RelayCore
import Storage
import Synchronization

extension StorageCommand {
  /// From the embedded store to PostgreSQL.
  struct Move: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "move",
      abstract: "Move an embedded store into PostgreSQL.",
      discussion: """
        Takes two runs. The first copies everything while the relay serves. Then stop the relay, and run the same command \
        again: it copies what has changed, compares every row of both stores, and says what to set. Until that has ended \
        nothing serves the database, and from its last pass on nothing serves the embedded store. Whatever breaks a run \
        off, run it again: it goes on where it ended.

        The database must be new: `createdb relay` is enough. Its URL has a password as a rule: --to-file reads it from a \
        file, so that it stands in no history. Attachments in a folder stay where they are.

        --cancel lets the embedded store serve again, as long as the move has not ended. Where the database is gone, \
        nobody can look whether it had: --gone says that no relay has served it. docs/operating.md says more.
        """)
    @OptionGroup var configuration: ConfigurationOption
    @Option(help: ArgumentHelp("The database: postgres://USER:PASSWORD@HOST/NAME.", valueName: "url")) var to: String?
    @Option(help: ArgumentHelp("A file that holds its URL.", valueName: "file")) var toFile: String?
    @Flag(help: "Take the move back.") var cancel = false
    @Flag(help: "With --cancel: the database is gone, and no relay has served it.") var gone = false
    @Flag(help: "Print JSON.") var json = false

    private struct Result: Encodable {
      struct Table: Encodable {
        let table: String
        let rows: Int
        let digest: String
      }
      let ended: Bool
      /// In this run.
      let changedRows: Int
      /// The result of the comparison, once the move has ended.
      let tables: [Table]
    }

    func validate() throws {
      guard (to == nil) != (toFile == nil) else {
        throw ValidationError("Name the database once: --to URL, or --to-file FILE.")
      }
      guard cancel || !gone else { throw ValidationError("--gone says something of --cancel alone.") }
    }

    func run() async throws {
      let settings = try configuration.load().configuration
      LogOutput.bootstrap(settings.log)
      guard case .sqlite(let path) = settings.storage.location else {
        throw CommandFailure("storage.url names no embedded store: only such a store is moved.")
      }
      // Opening would make one.
      guard FileManager.default.fileExists(atPath: path) else { throw CommandFailure("There is no store \(path).") }
      try await withStorage(settings, .asItIs) { source in
        guard let source = source as? SQLiteStorage else { return }
        try await withTarget { target in
          let name = URL(fileURLWithPath: path).standardizedFileURL.path
          let move = StoreMove(source, named: name, to: target)
          do throws(MoveFailure) {
            if cancel { return try await takeBack(move) }
            try await perform(move, settings, source, target)
          } catch {
            throw CommandFailure(error.text)
          }
        }
      }
    }

    private func withTarget(_ body: (PostgresStorage) async throws -> Void) async throws {
      let url = try url()
      if let fault = StorageLocation.fault(ofPostgresURL: url) {
        throw CommandFailure("The database's URL cannot be used: \(fault).")
      }
      let target: PostgresStorage
      do throws(StoreError) {
        target = try PostgresStorage(url: url, logger: Logger(label: "relay.storage"))
      } catch {
        throw CommandFailure("The database's URL cannot be read: it must be postgres://USER:PASSWORD@HOST/NAME.")
      }
      do {
        try await body(target)
      } catch {
        await target.close()
        throw error
      }
      await target.close()
    }

    private func url() throws -> String {
      if let to { return to }
      do {
        return try String(contentsOfFile: toFile ?? "", encoding: .utf8).trimmingCharacters(in: .whitespacesAndNewlines)
      } catch {
        throw CommandFailure("The file of the database's URL cannot be read.")
      }
    }

    private func takeBack(_ move: StoreMove) async throws(MoveFailure) {
      try await move.cancel(isGone: gone)
      Output.note("The embedded store serves again. Drop the database before the next move, or go on with this one.")
    }

    private func perform(
      _ move: StoreMove, _ settings: RelayConfiguration, _ source: SQLiteStorage, _ target: PostgresStorage
    ) async throws(MoveFailure) {
      try await demandUsable(source)
      try await move.begin()
      let shown = MoveProgress()
      let changed = try await move.copy { shown.show($0) }
      let lock: SQLiteLock?
      do {
        lock = try lockEmbeddedStore(settings)
      } catch {
        return try tell(Result(ended: false, changedRows: changed, tables: []))
      }
      let digests = try await move.end(at: .now) { shown.show($0) }
      withExtendedLifetime(lock) {}
      try await note(in: target)
      try tell(
        Result(
          ended: true, changedRows: changed,
          tables: digests.map { .init(table: $0.table, rows: $0.rows, digest: $0.digest) }))
    }

    /// The steps of this build have run: others it does not know.
    private func demandUsable(_ source: SQLiteStorage) async throws(MoveFailure) {
      do throws(StoreError) {
        switch try await source.compatibility() {
        case .moved: return
        case .usable where try await source.migrations().allSatisfy({ $0.applied != nil }): return
        case .usable, .tooOld:
          throw StoreError.unavailable(reason: "steps of its schema are pending: `relay migrate run`")
        case .tooNew, .movingIn, .distributing:
          throw StoreError.unavailable(reason: "its schema is newer: use a newer relay")
        }
      } catch {
        throw .source(reason: "\(error)")
      }
    }

    /// In the log of the store that is served from now on.
    private func note(in target: PostgresStorage) async throws(MoveFailure) {
      do {
        try await target.noting(AuditNote("storage move")) {}
      } catch {
        throw .target(reason: "it is moved, but the audit log could not be written")
      }
    }

    private func tell(_ result: Result) throws(MoveFailure) {
      if json {
        do { try Output.json(result) } catch { throw .defect(reason: "the result cannot be written") }
        return
      }
      guard result.ended else {
        Output.line(
          "Copied, \(result.changedRows) rows in this run. A relay serves the embedded store: stop it, and run")
        Output.line(
          "the same command again. It copies what has changed since, compares both stores, and ends the move.")
        return
      }
      Output.table(
        [["TABLE", "ROWS", "SHA-256"]]
          + result.tables.filter { $0.rows > 0 }.map { [$0.table, "\($0.rows)", String($0.digest.prefix(16))] })
      Output.line("Moved: both stores have the same rows. Now:")
      Output.line("  1. Set storage.url to the database. With more than one process, set coordination.url too.")
      Output.line("  2. Start the relay, and look: `relay doctor`.")
      Output.line("  3. Back the database up, and keep the embedded store's files until you have.")
    }
  }
}

/// One line when a table is done, and every two seconds while a large one is under way.
private final class MoveProgress: Sendable {
  private let last = Mutex(ContinuousClock.now)

  func show(_ progress: StoreMove.Progress) {
    let isDue = last.withLock { last in
      guard progress.isDone || ContinuousClock.now - last >= .seconds(2) else { return false }
      last = .now
      return progress.changed > 0
    }
    guard isDue else { return }
    let state = progress.isDone ? "" : " so far"
    Output.note("\(progress.table): \(progress.changed) of \(progress.rows) rows copied\(state)")
  }
}

extension MoveFailure {
  fileprivate var text: String {
    switch self {
    case .targetInUse:
      "The database is in use: a store is moved into a new one only (createdb NAME)."
    case .targetDistributed:
      "The database's tables are distributed among servers: move the store into a database that is not, and distribute "
        + "it then (`relay storage distribute`)."
    case .otherSource(let name):
      "A move from another store was begun into this database (\(name)): go on with that, or use a new database."
    case .ended:
      "The move has ended: set storage.url to the database. There is no way back, since relays may have served it."
    case .otherTarget:
      "The embedded store was moved, and this database holds no store: name the one that it was moved to. If that one is "
        + "gone, and no relay has served it, --cancel --gone lets the embedded store serve again."
    case .source(let reason): "The embedded store cannot be moved: \(reason)."
    case .target(let reason):
      "The database does not take it: \(reason). Run the command again: it goes on where it ended."
    case .defect(let reason):
      "It was not moved: \(reason). Run the command again; if it says so again, report it. --cancel takes the move back."
    }
  }
}
