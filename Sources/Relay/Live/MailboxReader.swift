package import Logging
import NIOCore
package import RelayCore
import RelayHTTP
import RelayWork

/// Reads the mailboxes of sessions that were woken: those that gather during one call to the store are read by the
/// next, in the order in which they came.
///
/// While the store is away sessions wait here, one entry each: their number bounds it.
package final class MailboxReader: Sendable {
  private let sessions: Batcher<DeviceSession>
  private let checks: Batcher<DeviceSession>

  package init(store: any MessageStore, logger: Logger) {
    sessions = Batcher(retryingBatchesOf: Self.readsPerCall, waitingMax: .max) { sessions in
      await Self.read(sessions, store, logger)
    }
    checks = Batcher(batchMax: Self.checksPerCall, waitingMax: Self.checksMax) { sessions in
      await Self.check(sessions, store, logger)
    }
  }

  /// The session waits for no other read: its window sees to it.
  func add(_ session: DeviceSession) { sessions.add(session) }

  /// Finds out which of the messages that the session holds are gone from the store. A check that finds no room, or
  /// fails, comes with the session's next poll.
  func check(_ session: DeviceSession) { checks.add(session) }

  private static func check(_ sessions: [DeviceSession], _ store: any MessageStore, _ logger: Logger) async {
    let distinct = Dictionary(sessions.map { ($0.id, $0) }, uniquingKeysWith: { first, _ in first }).values
    let held = distinct.map { (session: $0, places: $0.doubtful) }
    do throws(StoreError) {
      let queued = try await store.queued(among: held.flatMap(\.places))
      for (session, places) in held {
        session.gone(Set(places.lazy.filter { !queued.contains($0) }.map(\.sequence)))
      }
    } catch {
      logger.debug("held messages could not be compared with the store", metadata: ["error": "\(error)"])
    }
  }

  private typealias Reading = (session: DeviceSession, read: MailboxRead)

  /// A group that fails twice is divided, and goes last: a mailbox that takes too long holds no other back.
  /// - Returns: the sessions that have to wait because others failed.
  private static func read(_ sessions: [DeviceSession], _ store: any MessageStore, _ logger: Logger) async
    -> [DeviceSession]
  {
    var groups = failureGroups(of: sessions, max: readsPerCall, failures: \.readFailures)[...]
    while let group = groups.popFirst() {
      let readings = group.compactMap { session in session.readBegan().map { Reading(session, $0) } }
      guard !readings.isEmpty else { continue }
      guard await isAnswered(readings, store, logger) else { break }
    }
    return groups.flatMap(\.self)
  }

  /// - Returns: false when the store has no answer: after a pause, and with the sessions woken again.
  private static func isAnswered(_ readings: [Reading], _ store: any MessageStore, _ logger: Logger) async -> Bool {
    do throws(StoreError) {
      try await read(readings, store)
    } catch .corrupted where readings.count > 1 {
      // Something in one of the mailboxes: it keeps nobody else's messages back.
      for reading in readings {
        do throws(StoreError) { try await read([reading], store) } catch { failed([reading], error, logger) }
      }
    } catch {
      failed(readings, error, logger)
      guard case .unavailable = error else { return true }
      // Calls that come meanwhile wait.
      await Pause.for(pause)
      for reading in readings { reading.session.woken() }
      return false
    }
    return true
  }

  private static func read(_ readings: [Reading], _ store: any MessageStore) async throws(StoreError) {
    let pages = try await store.waiting(readings.map(\.read))
    guard pages.count == readings.count else {
      throw .corrupted(reason: "\(pages.count) pages for \(readings.count) reads")
    }
    var loops: [ObjectIdentifier: [(DeviceSession, [QueuedEnvelope])]] = [:]
    for (reading, page) in zip(readings, pages) {
      loops[ObjectIdentifier(reading.session.eventLoop), default: []].append((reading.session, page))
    }
    for deliveries in loops.values {
      deliveries[0].0.eventLoop.execute {
        for (session, page) in deliveries { session.deliver(page) }
      }
    }
  }

  /// A damaged mailbox is tried again when the session is woken, or reads by itself.
  private static func failed(_ readings: [Reading], _ error: StoreError, _ logger: Logger) {
    for reading in readings { reading.session.readFailed() }
    let level: Logger.Level = if case .corrupted = error { .error } else { .debug }
    logger.log(level: level, "mailboxes could not be read", metadata: ["error": "\(error)"])
  }

  private static let readsPerCall = 32
  /// Each brings 2,000 places at most.
  private static let checksPerCall = 4
  private static let checksMax = 1000
  private static let pause = Duration.seconds(1)
}
