import ArgumentParser
import RelayConfiguration
import RelayCore
import Storage
import Synchronization

struct StorageCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "storage", abstract: "What lies in the store.",
    subcommands: [SealContacts.self, Restored.self, Clock.self, Move.self, Distribute.self])

  struct SealContacts: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "seal-contacts",
      abstract: "Seal the contact tokens of a store that holds them as they are.",
      discussion: """
        Needs storage.encryption-key, and the store for itself: stop every relay process first, and whatever else is \
        connected to its database. What is broken off goes on \
        where it ended when it is run again; until then no relay starts. docs/operating.md says more.
        """)
    @OptionGroup var configuration: ConfigurationOption
    @Flag(help: "Print JSON.") var json = false

    func run() async throws {
      let settings = try configuration.load().configuration
      LogOutput.bootstrap(settings.log)
      let lock = try lockEmbeddedStore(settings)
      try await withStorage(settings, noting: AuditNote("storage seal-contacts")) { storage in
        let before = try await storage.contactSealing()
        let counter = RowCounter()
        do throws(ContactSealingFailure) {
          try await storage.sealContacts { counter.show($0) }
        } catch {
          throw CommandFailure(error.remedy)
        }
        try show(Result(wasSealed: before == .sealed, rows: counter.count))
      }
      withExtendedLifetime(lock) {}
    }

    private func show(_ result: Result) throws {
      if json { return try Output.json(result) }
      if result.wasSealed { return Output.line("Nothing to do: the contact tokens are sealed.") }
      Output.line("Contact tokens are sealed: \(result.rows) rows. Remove directory.snapshot where relays keep it.")
    }

    private struct Result: Encodable {
      /// Before the command.
      let wasSealed: Bool
      /// Sealed by it.
      let rows: Int
    }
  }
}

/// Reports the number of rows done, once for every 100,000 rows, and at the end.
private final class RowCounter: Sendable {
  private let rows = Mutex((count: 0, said: 0))
  private static let step = 100_000

  var count: Int { rows.withLock { $0.count } }

  func show(_ progress: ContactSealingProgress) {
    let isDue = rows.withLock { rows in
      rows.count = progress.done
      guard progress.done - rows.said >= Self.step || progress.done == progress.total else { return false }
      defer { rows.said = progress.done }
      return rows.said != progress.done
    }
    if isDue { Output.note("sealed \(progress.done) of \(progress.total) rows") }
  }
}

extension ContactSealingFailure {
  fileprivate var remedy: String {
    switch self {
    case .noEncryptionKey:
      "There is no key to seal under: set storage.encryption-key (openssl rand -base64 32), and give it to every process."
    case .locked: ContactSealing.lockedRemedy
    case .inUse(let connections):
      "Other clients are connected to this store's database (\(connections) connections; pg_stat_activity tells whose). Any "
        + "may be a relay: stop all of them, psql and monitoring too, and run the command again."
    case .store(let error):
      "It was broken off (\(error)). Run it again: it goes on where it ended, and no relay starts before it has ended."
    }
  }
}

extension ContactSealing {
  static let lockedRemedy =
    "This store's contact tokens are sealed, and storage.encryption-key does not open their key: set the one that the store "
    + "was used with, or keep it as storage.encryption-key-former."
  static let underWayRemedy =
    "The sealing of this store's contact tokens was begun and has not ended: run `relay storage seal-contacts`, which goes "
    + "on where it ended."
}
