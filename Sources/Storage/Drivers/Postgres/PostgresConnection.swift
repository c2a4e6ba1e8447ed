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
    static let connectTimeout: Duration = .seconds(5)
    /// How long a call waits for a connection attempt under way.
    static let holdMax: Duration = .seconds(2)
    static let backOffFirst: Duration = .milliseconds(50)
    static let backOffMax: Duration = .seconds(2)
    static let sweepInterval: Duration = .milliseconds(250)
  }

  private enum State {
    /// Before the first attempt, or until the next one.
    case waiting
    case connecting(OpaquePointer, timeout: Reactor.TimerID)
    case established(PostgresPipeline, since: ContinuousClock.Instant)
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
  /// Called when a server is connected to, before it answers anything.
  private let connected: @Sendable () -> Void

  private var state = State.waiting
  private var watched: Int32?
  /// Failed attempts in a row.
  private var failures = 0
  private var attempts = 0
  private var held = Deque<PostgresRequest>()
  private var isFlushScheduled = false
  private var isSweepScheduled = false

  /// Begins to connect at once.
  init(
    target: PostgresTarget, settings: Settings, reactor: Reactor, logger: Logger,
    refusals: WriteRefusals = WriteRefusals(), connected: @escaping @Sendable () -> Void = {}
  ) {
    self.refusals = refusals
    self.connected = connected
    self.target = target
    self.settings = settings
    self.reactor = reactor
    var logger = logger
    logger[metadataKey: "connection"] = "\(settings.purpose)"
    self.logger = logger
    if !reactor.submit({ self.connect() }) { inbox.withLock { $0.isClosed = true } }
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

// MARK: - Calls

extension PostgresConnection {
  /// Reads: may run twice, sees what is committed, and shares a transaction with its neighbours.
  func read(_ name: StaticString, _ query: PostgresQuery) async throws(PostgresError) -> PostgresResult {
    try await read(PostgresStep(name, query))
  }

  func read(_ step: PostgresStep) async throws(PostgresError) -> PostgresResult {
    try Self.only(try await reads([step]))
  }

  /// Reads all of `steps` from one connection, one after the other; each sees what is committed by then.
  func reads(_ steps: [PostgresStep]) async throws(PostgresError) -> [PostgresResult] {
    try await submit(steps, sharing: .reads).get()
  }

  /// Runs one statement that waits for no lock, in one transaction with others of its kind; durable on return.
  func sharedWrite(_ name: StaticString, _ query: PostgresQuery) async throws(PostgresError) -> PostgresResult {
    try await sharedWrite(PostgresStep(name, query))
  }

  func sharedWrite(_ step: PostgresStep) async throws(PostgresError) -> PostgresResult {
    try Self.only(try await sharedWrites([step]))
  }

  /// Runs `steps` likewise: all of them are done, or none.
  /// - Returns: a result for each step.
  func sharedWrites(_ steps: [PostgresStep]) async throws(PostgresError) -> [PostgresResult] {
    guard !steps.isEmpty else { return [] }
    return try await submit(steps, sharing: .writes).get()
  }

  /// Runs one statement as a transaction of its own; durable on return.
  func write(_ name: StaticString, _ query: PostgresQuery) async throws(PostgresError) -> PostgresResult {
    try await write(PostgresStep(name, query))
  }

  func write(_ step: PostgresStep) async throws(PostgresError) -> PostgresResult {
    try Self.only(try await transaction([step]))
  }

  /// Runs `steps` in order as one transaction, in one round trip; durable on return.
  /// - Returns: a result for each step.
  func transaction(_ steps: [PostgresStep]) async throws(PostgresError) -> [PostgresResult] {
    guard !steps.isEmpty else { return [] }
    return try await submit(steps, sharing: .alone).get()
  }

  private static func only(_ results: [PostgresResult]) throws(PostgresError) -> PostgresResult {
    guard let result = results.first else { throw .notServed(reason: "PostgreSQL gave no result") }
    return result
  }

  private func submit(_ steps: [PostgresStep], sharing: PostgresSharing) async -> PostgresRequest.Outcome {
    await withCheckedContinuation { continuation in
      let request = PostgresRequest(steps: steps, sharing: sharing) { [self] outcome in
        release(steps)
        note(outcome)
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

  private func note(_ outcome: PostgresRequest.Outcome) {
    guard case .failure(.refused(let state, _)) = outcome, let fault = state.diskFault else { return }
    refusals.refused("PostgreSQL refuses writes: \(fault)")
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
    case .established(let pipeline, _):
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
    guard case .established(let pipeline, _) = state, let watched else { return }
    do throws(PostgresPipeline.Lost) {
      reactor.update(watched, for: try pipeline.flush() ? [.read, .write] : .read)
    } catch {
      lost("the connection was lost")
    }
  }

  private func ready(_ ready: Reactor.Interest) {
    guard case .established(let pipeline, _) = state else { return }
    if ready.contains(.read) {
      do throws(PostgresPipeline.Lost) {
        try pipeline.receive()
      } catch {
        return lost("the connection was lost")
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
      guard case .established(let pipeline, _) = state else {
        if !held.isEmpty { scheduleSweep() }
        return
      }
      if let oldest = pipeline.oldest, oldest.submitted + settings.deadline < now {
        lost("PostgreSQL did not answer within \(settings.deadline)")
      } else if !pipeline.isIdle {
        scheduleSweep()
      }
    }
  }
}

// MARK: - Life

extension PostgresConnection {
  private func connect() {
    guard case .waiting = state else { return }
    guard let handle = target.startConnecting(attempt: attempts) else { return scheduleAttempt() }
    attempts += 1
    let timeout = reactor.schedule(after: Bounds.connectTimeout) { [self] in
      attemptFailed("no answer within \(Bounds.connectTimeout)")
    }
    state = .connecting(handle, timeout: timeout)
    if PQstatus(handle) == CONNECTION_BAD {
      attemptFailed(Self.message(of: handle))
    } else {
      wait(for: .write, on: handle)
    }
  }

  private func pollConnecting() {
    guard case .connecting(let handle, let timeout) = state else { return }
    // libpq may close the socket and open another one for the next address.
    unwatch()
    switch PQconnectPoll(handle) {
    case PGRES_POLLING_READING: wait(for: .read, on: handle)
    case PGRES_POLLING_WRITING: wait(for: .write, on: handle)
    case PGRES_POLLING_OK:
      reactor.cancel(timeout)
      establish(handle)
    default: attemptFailed(Self.message(of: handle))
    }
  }

  private func wait(for interest: Reactor.Interest, on handle: OpaquePointer) {
    watch(PQsocket(handle), for: interest) { [self] _ in pollConnecting() }
  }

  private func establish(_ handle: OpaquePointer) {
    do throws(PostgresPipeline.Lost) {
      state = .established(
        try PostgresPipeline(handle: handle, setting: settings.sql, wish: Settings.discretion), since: .now)
    } catch {
      // The pipeline owned the handle and has ended it.
      state = .waiting
      end(with: .waiting, reason: "not connected to PostgreSQL")
      return scheduleAttempt()
    }
    if failures > 0 { logger.notice("connected to PostgreSQL again") } else { logger.debug("connected to PostgreSQL") }
    fault.withLock { $0 = nil }
    connected()
    watch(PQsocket(handle), for: .read) { [self] in ready($0) }
    scheduleFlush()
    let waiting = held
    held.removeAll()
    for request in waiting { accept(request) }
  }

  private func attemptFailed(_ reason: String) {
    // Once an outage: the following attempts say the same.
    logger.log(level: failures == 0 ? .warning : .debug, "cannot connect to PostgreSQL: \(reason)")
    failures += 1
    fault.withLock { $0 = reason }
    end(with: .waiting, reason: "not connected to PostgreSQL")
    scheduleAttempt()
  }

  private func lost(_ reason: String) {
    guard case .established(_, let since) = state else { return }
    logger.warning("\(reason)")
    // A server that takes connections and drops them is no better than one that takes none.
    failures = ContinuousClock.now - since < .seconds(1) ? failures + 1 : 1
    end(with: .waiting, reason: reason)
    scheduleAttempt()
  }

  private func scheduleAttempt() {
    guard settings.reconnects else {
      inbox.withLock { $0.isClosed = true }
      return end(with: .closed, reason: "not connected to PostgreSQL")
    }
    let doubled = Bounds.backOffFirst * (1 << min(max(failures, 1) - 1, 10))
    // Spread, so that a server that returns is not met by every process at once.
    reactor.schedule(after: min(doubled, Bounds.backOffMax) * Double.random(in: 0.5...1)) { [self] in connect() }
  }

  /// Lets go of the handle and fails whatever waits for it.
  private func end(with next: State, reason: String) {
    let former = state
    state = next
    unwatch()
    var abandoned = Array(held)
    held.removeAll()
    switch former {
    case .connecting(let handle, let timeout):
      reactor.cancel(timeout)
      PQfinish(handle)
    case .established(let pipeline, _):
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

  /// libpq's message on a connection that failed: hosts and users, no statement and no value.
  private static func message(of handle: OpaquePointer) -> String {
    String(cString: PQerrorMessage(handle)).split(separator: "\n").map { $0.drop { $0 == "\t" || $0 == " " } }
      .joined(separator: "; ")
  }
}
