import Crypto
import Logging
import RelayCore
import RelayWork
import Synchronization

/// Writes the directory to its file now and then and at the end, and reads it at the start. Never fails its caller:
/// what goes wrong is logged, and the store is read instead.
final class SnapshotKeeper: Sendable {
  private struct State {
    /// `DirectoryView.changeCount` when the file was written or read; nil: not written yet.
    var savedChanges: UInt64?
    var due = ContinuousClock.now
    var isFailing = false
    /// Asked once: at the end the store may be away.
    var origin: Origin?
  }

  /// The facts that a file has of its store.
  private struct Origin {
    /// The file of another store, or of another part, is of no use.
    let fingerprint: [UInt8]
    /// nil where tokens lie in the store as they are: then they may in the file.
    let key: SecretBytes?
  }

  /// The directory as a file has it.
  struct Saved: Sendable {
    let following: Following
    /// How long ago the file was written; nil if that is not known.
    let age: Duration?
  }

  typealias Store = DirectoryFeedStore & ServerSecretStore

  private let path: String
  private let store: any Store
  private let view: DirectoryView
  private let interval: Duration
  private let logger: Logger
  private let state = Mutex(State())

  /// How often it is looked whether the file is due.
  private static let lookMax = Duration.seconds(5)

  /// - Parameter interval: between two writings, where something has changed.
  init(path: String, store: any Store, view: DirectoryView, interval: Duration, logger: Logger) {
    self.path = path
    self.store = store
    self.view = view
    self.interval = interval
    self.logger = logger
  }

  // MARK: At the start

  /// - Returns: what the file holds; nil where there is none, or none that can be used.
  func load() async -> Saved? {
    do throws(SnapshotFailure) {
      let path = path
      guard try await run({ SnapshotFile.exists(path) }) else { return nil }
      let origin = try await origin()
      let contents = try await run { () throws(SnapshotFailure) in
        try SnapshotFile.read(path, under: origin.key)
      }
      guard contents.head.store == origin.fingerprint else {
        throw .unusable("it is another store's, or holds another part of the directory")
      }
      guard view.relays.adopt(contents.names) else { throw .unusable("its relays have other numbers by now") }
      return Saved(following: Following(contents.table, at: contents.head.place), age: contents.age)
    } catch {
      if error != .missing {
        logger.notice(
          "the directory's file is not used, the store is read instead",
          metadata: ["path": "\(path)", "reason": "\(error)"])
      }
      return nil
    }
  }

  /// The directory is loaded. - Parameter isFromFile: then the file is written only when something has changed.
  func loaded(isFromFile: Bool) {
    state.withLock { state in
      state.savedChanges = isFromFile ? view.changeCount : nil
      state.due = isFromFile ? .now + interval : .now
    }
  }

  // MARK: From then on

  /// Writes the file whenever it is due.
  func run() async {
    for await _ in Periodic(every: min(Self.lookMax, interval)) {
      if view.isReady, state.withLock({ $0.due <= .now }) { await save() }
    }
  }

  /// Writes what has changed since the last time, when the process stops.
  func saveAtTheEnd() async { await save() }

  /// One at a time: by `run`, and when that has ended by `saveAtTheEnd`.
  private func save() async {
    // Without the file the next start reads the store, and numbers begin anew, for the relays of that time alone.
    guard !view.relays.hasRefused else { return SnapshotFile.remove(path) }
    // Else it stays due, and what was written before is good.
    guard let mark = view.restMark else { return }
    let changes = view.changeCount
    state.withLock { $0.due = .now + interval }
    // The place first: what changes behind it is in the feed, whether or not the file has it.
    guard let place = view.recent.cursor, state.withLock({ $0.savedChanges != changes }) else { return }
    do throws(SnapshotFailure) {
      let (table, relays) = (view.table, view.relays)
      let origin = try await origin()
      let head = SnapshotHead(store: origin.fingerprint, place: place, secret: table.secret)
      let bytes = try await run { [path, view] () throws(SnapshotFailure) in
        try SnapshotFile.write(table, head, relays, to: path, under: origin.key) { view.restMark == mark }
      }
      let wasFailing = state.withLock { state in
        // One that was read anew meanwhile is still to be written.
        if view.table === table { state.savedChanges = changes }
        defer { state.isFailing = false }
        return state.isFailing
      }
      logger.debug("directory written", metadata: ["path": "\(path)", "bytes": "\(bytes)"])
      if wasFailing { logger.notice("the directory's file can be written again", metadata: ["path": "\(path)"]) }
    } catch .busy {
      // Another process writes the same directory.
    } catch .overtaken {
      state.withLock { $0.due = .now }
    } catch {
      let isFirst = state.withLock { state in
        defer { state.isFailing = true }
        return !state.isFailing
      }
      guard isFirst else { return }
      logger.warning(
        "the directory's file cannot be written, the next start reads the store (directory.snapshot)",
        metadata: ["path": "\(path)", "reason": "\(error)"])
    }
  }

  private func origin() async throws(SnapshotFailure) -> Origin {
    if let known = state.withLock({ $0.origin }) { return known }
    do throws(StoreError) {
      let candidate = (0..<32).map { _ in UInt8.random(in: .min ... .max) }
      let secret = try await store.serverSecret(Self.secretName, orStore: candidate)
      let key = try await store.directoryFileKey()
      // The whole directory has the mark that it had before there were parts.
      let mark = view.part.isWhole ? secret : secret + Array(view.part.text.utf8)
      let origin = Origin(fingerprint: Array(SHA256.hash(data: mark).prefix(16)), key: key)
      state.withLock { $0.origin = origin }
      return origin
    } catch {
      throw .unusable("the store does not say which it is: \(error)")
    }
  }

  private static let secretName = "directory-snapshot"

  private func run<Value: Sendable>(
    _ work: @escaping @Sendable () throws(SnapshotFailure) -> Value
  ) async throws(SnapshotFailure) -> Value {
    guard let value = try await BlockingWork.run(work) else { throw .unusable("the process is ending") }
    return value
  }
}
