import Directory
import Logging
import Operations
import RelayConfiguration
import RelayCore
import RelayHTTP
import ServiceLifecycle

/// The directory's part of the graph: contact tokens in memory, all or a part, and what keeps them up to date.
struct DirectoryGraph {
  let view: DirectoryView
  let follower: DirectoryFollower
  /// From all tokens; of no use to clients where only a part is held.
  let lookUps: ContactLookUps
  /// The services that run as long as the process, in the order of starting.
  let services: [any Service]

  /// How long the feed is kept. It outlasts every restart; a process that was away for longer reads the whole
  /// directory.
  private static let changesDays = 10

  /// The relay is not ready until the directory is loaded. When the store is away later, that is the store's to say.
  init(
    _ settings: RelayConfiguration.Directory, storage: any Storage, coordination: any Coordination,
    readiness: Readiness, logger: Logger
  ) throws {
    do throws(TokenTable.OutOfMemory) {
      view = try DirectoryView(part: settings.partition ?? .whole)
    } catch {
      throw CommandFailure("There are no \(error.bytes) bytes of memory to begin the directory with.")
    }
    follower = DirectoryFollower(
      store: storage, signals: coordination, view: view, snapshotPath: settings.partSnapshotPath,
      changesDays: Self.changesDays, logger: logger)
    let indexer =
      settings.isOblivious
      ? ObliviousIndexer(store: storage, signals: coordination, clock: .system, logger: logger) : nil
    services = [follower, indexer ?? ObliviousRemoval(store: storage, logger: logger)]
    lookUps = ContactLookUps(
      source: LocalContacts(view), oblivious: indexer.map { ObliviousDirectory(indexer: $0, store: storage) },
      settings: settings)
    readiness.add("directory") { [view] in view.isReady ? nil : "the directory is not loaded yet" }
  }
}

extension RelayConfiguration.Directory {
  /// Processes with different parts may share a folder: each part has a file of its own.
  fileprivate var partSnapshotPath: String {
    guard let partition, !partition.isWhole else { return snapshotPath }
    return "\(snapshotPath).\(partition.number)-of-\(partition.count)"
  }
}
