// One connection to PostgreSQL and its life: connecting, serving, lost, connecting again.

import CLibPQ
import DequeModule
import Logging
import RelayCore
import Synchronization

/// A connection that many callers share, each waiting for its own answer only.
///
/// Lives on its reactor's thread until `close`. While it connects, calls wait a moment; while it waits to try again
/// they fail at once. It never sends a transaction twice that may have been done: after a loss the caller decides.
final class PostgresConnection: @unchecked Sendable {  // All mutable state but `inbox` belongs to the reactor's thread.
  /// The bounds, each far above what a healthy server lets gather.
  private enum Bounds {
    static let requestsMax = 10_000
    static let bytesMax = 128 << 20
    /// How long a call waits for a round of attempts under way.
    static let holdMax: Duration = .seconds(2)
    static let backOffFirst: Duration = .milliseconds(50)
    static let backOffMax: Duration = .seconds(2)
    /// With several hosts: one of them becomes the primary any moment.
    static let backOffMaxOfSeveral: Duration = .seconds(1)
    static let sweepInterval: Duration = .milliseconds(250)
  }

  private enum State {
    /// Before the first round of attempts, or until the next one.
    case waiting
    case connecting(PostgresRound)
    case established(PostgresPipeline, at: PostgresHost.Place, since: ContinuousClock.Instant)
    case closed
  }

  private struct Inbox {
    var requests: [PostgresRequest] = []
    /// Submitted and not answered yet, here or further on.
    var outstanding = 0
    var outstandingBytes = 0
    var isClosed = false
  }

  private let target: PostgresTarget
  private let settings: Settings
  private let reactor: Reactor
  private let logger: Logger
  private let inbox = Mutex(Inbox())
  private let fault = Mutex<String?>(nil)
  /// The note that the server has no room on its disk.
  private let refusals: WriteRefusals
  private let primary: PostgresPrimary
  /// Called when a server is connected to, before it answers anything.
  private let connected: @Sendable () -> Void

  private var state = State.waiting
  private var watched: Int32?
  /// Failed rounds in a row, and connections that did not last.
  private var failures = 0
  private var nextRound: Reactor.TimerID?
  private var search = PostgresHost.Search.known
  /// The number of the host that the next round begins with, where nothing better is known.
  private var turn = 0
  /// Whether the URL names several hosts.
  private var hasChoice = false
  private var held = Deque<PostgresRequest>()
  private var isFlushScheduled = false
  private var isSweepScheduled = false

  /// Begins to connect at once.
  /// - Parameter primary: what the connections of one store share.
  init(
    target: PostgresTarget, settings: Settings, reactor: Reactor, logger: Logger,
    refusals: WriteRefusals = WriteRefusals(), primary: PostgresPrimary = PostgresPrimary(),
    connected: @escaping @Sendable () -> Void = {}
  ) {
    self.refusals = refusals
    self.primary = primary
    self.connected = connected
    self.target = target
    self.settings = settings
    self.reactor = reactor
    var logger = logger
    logger[metadataKey: "connection"] = "\(settings.purpose)"
    self.logger = logger
    if !reactor.submit({ self.begin() }) { inbox.withLock { $0.isClosed = true } }
  }

  /// Why the last attempt to connect failed, as libpq says it; nil once one has succeeded.
  var connectFault: String? { fault.withLock { $0 } }

  /// Ends the connection; what is in flight fails. Returns when that is done; may be called again.
  func close() async {
    inbox.withLock { $0.isClosed = true }
    await withCheckedContinuation { continuation in
      let isAccepted = reactor.submit {
        self.end(with: .closed, reason: "closed")
        continuation.resume()
      }
      if !isAccepted { continuation.resume() }
    }
  }
}

// MARK: - Taking requests

extension PostgresConnection {
  func submit(_ steps: [PostgresStep], sharing: PostgresSharing) async -> PostgresRequest.Outcome {
    await withCheckedContinuation { continuation in
      let request = PostgresRequest(steps: steps, sharing: sharing) { [self] outcome in
        release(steps)
        refusals.note(outcome)
        continuation.resume(returning: outcome)
      }
      // A request that was not admitted is dropped unfinished.
      if let refusal = admit(request) { continuation.resume(returning: .failure(.notServed(reason: refusal))) }
    }
  }

  /// - Returns: why not, or nil.
  private func admit(_ request: PostgresRequest) -> String? {
    inbox.withLock { inbox in
      guard !inbox.isClosed else { return "closed" }
      guard inbox.outstanding < Bounds.requestsMax, inbox.outstandingBytes + request.byteCount <= Bounds.bytesMax
      else { return "too many statements wait for PostgreSQL" }
      // The first of a burst wakes the thread for all of it.
      guard !inbox.requests.isEmpty || reactor.submit({ self.drainInbox() }) else { return "closed" }
      inbox.outstanding += 1
      inbox.outstandingBytes += request.byteCount
      inbox.requests.append(request)
      return nil
    }
  }

  private func release(_ steps: [PostgresStep]) {
    inbox.withLock { inbox in
      inbox.outstanding -= 1
      inbox.outstandingBytes -= steps.byteCount
    }
  }
}

// MARK: - Requests on the thread

extension PostgresConnection {
  private func drainInbox() {
    let requests = inbox.withLock { inbox in
      defer { inbox.requests.removeAll() }
      return inbox.requests
    }
    for request in requests { accept(request) }
  }

  private func accept(_ request: PostgresRequest) {
    switch state {
    case .established(let pipeline, _, _):
      do throws(PostgresPipeline.Lost) {
        try pipeline.accept(request)
        scheduleFlush()
      } catch {
        // Part of it may be among what is abandoned: finishing twice does nothing.
        fail(request, "the connection was lost")
        lost("the connection was lost")
      }
    case .connecting:
      held.append(request)
    case .waiting, .closed:
      fail(request, "not connected to PostgreSQL")
    }
    scheduleSweep()
  }

  private func fail(_ request: PostgresRequest, _ reason: String) {
    request.finish(.failure(.notServed(reason: reason)))
  }

  private func scheduleFlush() {
    guard !isFlushScheduled else { return }
    isFlushScheduled = true
    reactor.afterRound { [self] in
      isFlushScheduled = false
      flush()
    }
  }

  private func flush() {
    guard case .established(let pipeline, _, _) = state, let watched else { return }
    do throws(PostgresPipeline.Lost) {
      reactor.update(watched, for: try pipeline.flush() ? [.read, .write] : .read)
    } catch {
      lost("the connection was lost")
    }
  }

  private func ready(_ ready: Reactor.Interest) {
    guard case .established(let pipeline, _, _) = state else { return }
    if ready.contains(.read) {
      do throws(PostgresPipeline.Lost) {
        try pipeline.receive()
      } catch {
        return lost(error.cause)
      }
      if pipeline.hasUnsent { scheduleFlush() }
    }
    if ready.contains(.write) { flush() }
  }

  /// Looks for requests past their time, now and then while there are any.
  private func scheduleSweep() {
    guard !isSweepScheduled else { return }
    isSweepScheduled = true
    reactor.schedule(after: Bounds.sweepInterval) { [self] in
      isSweepScheduled = false
      let now = ContinuousClock.now
      while let request = held.first, request.submitted + Bounds.holdMax < now {
        held.removeFirst()
        fail(request, "not connected to PostgreSQL")
      }
      guard case .established(let pipeline, _, _) = state else {
        if !held.isEmpty { scheduleSweep() }
        return
      }
      if let oldest = pipeline.oldest, oldest.submitted + settings.deadline < now {
        lost("PostgreSQL did not answer within \(settings.deadline)", isElsewhere: true)
      } else if !pipeline.isIdle {
        scheduleSweep()
      }
    }
  }
}

// MARK: - Life

extension PostgresConnection {
  private func begin() {
    turn = primary.join(self)
    connect()
  }

  /// Begins a round of attempts. Calls wait for it a moment.
  private func connect() {
    guard case .waiting = state else { return }
    if let nextRound { reactor.cancel(nextRound) }
    nextRound = nil
    let hosts = target.hosts()
    hasChoice = hosts.count > 1
    let round = PostgresRound(
      hosts.ordered(for: search, turn: turn, known: primary.place), on: reactor, completion: { self.ended($0) })
    state = .connecting(round)
    round.start()
  }

  private func ended(_ outcome: PostgresRound.Outcome) {
    switch outcome {
    case .connected(let handle, let place): establish(handle, at: place)
    case .failed(let reasons): roundFailed(reasons)
    }
  }

  private func establish(_ handle: OpaquePointer, at place: PostgresHost.Place) {
    do throws(PostgresPipeline.Lost) {
      state = .established(
        try PostgresPipeline(
          handle: handle, question: hasChoice ? PostgresLineage.query(knowing: primary.lineage) : nil,
          setting: settings.sql, wish: Settings.discretion,
          served: { [self] in primary.found(at: place, of: $0, $1, by: self) }), at: place, since: .now)
    } catch {
      // The pipeline owned the handle and has ended it.
      return roundFailed(["the connection was lost"])
    }
    let way = hasChoice ? ", at \(place)" : ""
    if failures > 0 {
      logger.notice("connected to PostgreSQL again\(way)")
    } else {
      logger.debug("connected to PostgreSQL\(way)")
    }
    fault.withLock { $0 = nil }
    connected()
    watch(PQsocket(handle), for: .read) { [self] in ready($0) }
    scheduleFlush()
    let waiting = held
    held.removeAll()
    for request in waiting { accept(request) }
  }

  /// - Parameter reasons: of each host that was tried.
  private func roundFailed(_ reasons: [String]) {
    let reason = reasons.joined(separator: "; ")
    // Once an outage: the following rounds say the same.
    logger.log(level: failures == 0 ? .warning : .debug, "cannot connect to PostgreSQL: \(reason)")
    failures += 1
    turn += 1
    search = .anywhere
    fault.withLock { $0 = reason }
    refusals.noteSession(refused: reasons)
    end(with: .waiting, reason: "not connected to PostgreSQL")
    scheduleRound()
  }

  /// - Parameter isElsewhere: another host is likelier to serve now.
  private func lost(_ reason: String, isElsewhere: Bool = false) {
    guard case .established(_, let place, let since) = state else { return }
    // A server that takes connections and drops them is no better than one that takes none.
    failures = ContinuousClock.now - since < .seconds(1) ? failures + 1 : 1
    // Once an outage, or twice: the following connections end for the same reason.
    logger.log(level: failures <= 2 ? .warning : .debug, "\(reason)")
    search = isElsewhere ? .elsewhere(place) : .anywhere
    end(with: .waiting, reason: reason)
    scheduleRound()
  }

  private func scheduleRound() {
    guard settings.reconnects else {
      inbox.withLock { $0.isClosed = true }
      return end(with: .closed, reason: "not connected to PostgreSQL")
    }
    let doubled = Bounds.backOffFirst * (1 << min(max(failures, 1) - 1, 10))
    let longest = hasChoice ? Bounds.backOffMaxOfSeveral : Bounds.backOffMax
    // Spread, so that a server that returns is not met by every process at once.
    nextRound = reactor.schedule(after: min(doubled, longest) * Double.random(in: 0.5...1)) { [self] in connect() }
  }

  /// Lets go of the handle and fails whatever waits for it.
  private func end(with next: State, reason: String) {
    let former = state
    state = next
    unwatch()
    if case .closed = next {
      if let nextRound { reactor.cancel(nextRound) }
      primary.leave(self)
    }
    var abandoned = Array(held)
    held.removeAll()
    switch former {
    case .connecting(let round):
      round.end()
    case .established(let pipeline, _, _):
      abandoned += pipeline.abandon()
    case .waiting, .closed:
      break
    }
    for request in abandoned { fail(request, reason) }
  }

  private func watch(_ socket: Int32, for interest: Reactor.Interest, handler: @escaping (Reactor.Interest) -> Void) {
    unwatch()
    watched = socket
    reactor.watch(socket, for: interest, handler: handler)
  }

  private func unwatch() {
    if let watched { reactor.unwatch(watched) }
    watched = nil
  }
}

// MARK: - One server for all connections

extension PostgresConnection {
  /// Another connection of the store is connected at `place`: this one must not stay, nor look, anywhere else.
  /// - Parameter atOnce: whether a pause between two rounds ends too: the server is another one than before.
  func follow(to place: PostgresHost.Place, atOnce: Bool) {
    switch state {
    case .established(_, let own, _) where own != place:
      lost("another server takes writes now, at \(place)")
    case .connecting(let round) where round.place != place:
      // The statements that it holds go on waiting.
      round.end()
      state = .waiting
    case .waiting where atOnce && nextRound != nil:
      break
    case .waiting, .connecting, .established, .closed:
      return
    }
    search = .known
    connect()
  }

  /// The server at `place` takes no writes any more.
  func leave(_ place: PostgresHost.Place) {
    guard case .established(_, place, _) = state else { return }
    lost("PostgreSQL takes no writes any more", isElsewhere: true)
  }

  private func lost(_ cause: PostgresPipeline.Lost.Cause) {
    guard case .established(_, let place, _) = state else { return }
    switch cause {
    case .other(let reason):
      lost(reason)
    case .readOnly:
      leave(place)
      primary.isReadOnly(at: place, told: self)
    case .behind:
      let reason = "\(place) is a former primary, which takes writes though another server has taken its place"
      fault.withLock { $0 = reason }
      lost(reason, isElsewhere: true)
    }
  }
}
