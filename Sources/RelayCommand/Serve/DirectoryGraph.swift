import Directory
import Logging
import Operations
import RelayConfiguration
import RelayCore
import RelayHTTP
import ServiceLifecycle

/// The directory's part of the graph: all contact tokens in memory, and what keeps them up to date.
struct DirectoryGraph {
  let view: DirectoryView
  let follower: DirectoryFollower
  /// nil where oblivious look-ups are not offered.
  private let indexer: ObliviousIndexer?
  /// The services that run as long as the process, in the order of starting.
  let services: [any Service]
  private let settings: RelayConfiguration.Directory

  /// How long the feed is kept. It outlasts every restart; a process that was away for longer reads the whole
  /// directory.
  private static let changesDays = 10
  /// Contact tokens of one look-up: more than an address book holds, and as many as the budget of a new account.
  private static let tokensMax = 20_000

  /// The relay is not ready until the directory is loaded. When the store is away later, that is the store's to say.
  init(
    _ settings: RelayConfiguration.Directory, storage: any Storage, coordination: any Coordination,
    readiness: Readiness, logger: Logger
  ) throws {
    do throws(TokenTable.OutOfMemory) {
      view = try DirectoryView()
    } catch {
      throw CommandFailure("There are no \(error.bytes) bytes of memory to begin the directory with.")
    }
    follower = DirectoryFollower(
      store: storage, signals: coordination, view: view, snapshotPath: settings.snapshotPath,
      changesDays: Self.changesDays, logger: logger)
    indexer =
      settings.isOblivious
      ? ObliviousIndexer(store: storage, signals: coordination, clock: .system, logger: logger) : nil
    services = [follower, indexer ?? ObliviousRemoval(store: storage, logger: logger)]
    self.settings = settings
    readiness.add("directory") { [view] in view.isReady ? nil : "the directory is not loaded yet" }
  }

  func controller(
    storage: any Storage, coordination: any Coordination, purse: ContactPurse, finder: (any ContactFinder)?
  ) -> DirectoryController {
    DirectoryController(
      view: view, accounts: storage, limiter: coordination, purse: purse, finder: finder,
      policy: .init(tokensMax: Self.tokensMax, refusesEnumeration: settings.refusesEnumeration),
      oblivious: indexer.map { ObliviousDirectory(indexer: $0, store: storage) })
  }
}
