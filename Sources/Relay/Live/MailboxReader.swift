package import Logging
import NIOCore
package import RelayCore
import RelayHTTP

/// Reads the mailboxes of sessions that were woken: those that gather during one call to the store are read by the next,
/// in the order in which they came.
///
/// While the store is away sessions wait here, one entry each: their number bounds it.
package final class MailboxReader: Sendable {
  private let sessions: Gathering<DeviceSession>

  package init(store: any MessageStore, logger: Logger) {
    sessions = Gathering(retryingBatchesOf: Self.readsPerCall, waitingMax: .max) { sessions in
      await Self.read(sessions, store, logger)
    }
  }

  /// The session waits for no other read: its window sees to it.
  func add(_ session: DeviceSession) { sessions.add(session) }

  private typealias Reading = (session: DeviceSession, read: MailboxRead)

  /// What fails together twice is divided, and goes last: one mailbox that takes too long keeps nobody else's back.
  /// - Returns: those that have to wait since others failed.
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
      // Nobody cancels this task. What comes meanwhile waits.
      try? await Task.sleep(for: pause)
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

  /// What is damaged is tried again when the session is woken, or reads by itself.
  private static func failed(_ readings: [Reading], _ error: StoreError, _ logger: Logger) {
    for reading in readings { reading.session.readFailed() }
    let level: Logger.Level = if case .corrupted = error { .error } else { .debug }
    logger.log(level: level, "mailboxes could not be read", metadata: ["error": "\(error)"])
  }

  private static let readsPerCall = 32
  private static let pause = Duration.seconds(1)
}
