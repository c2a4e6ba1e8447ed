// A connection whose thread may block, for more rows than a result should hold.

import CLibPQ
import Glibc
import RelayCore

/// Connects, runs a few statements and copies rows out, each answer awaited on the calling thread. Ends with its owner.
///
/// Every wait ends with the signal, or when the server was silent for too long.
struct PostgresStream: ~Copyable {
  private enum Bounds {
    /// As in `PostgresRound`.
    static let connectTimeout: Duration = .seconds(5)
    static let connectTimeoutOfSeveral: Duration = .seconds(3)
    static let reachTimeout: Duration = .milliseconds(1500)
    static let attemptsMin = 3
    /// Between one piece of an answer and the next.
    static let silenceMax: Duration = .seconds(60)
  }

  private let handle: OpaquePointer
  private let stop: StopSignal

  /// - Parameter known: the server that the store's connections use.
  init(_ target: PostgresTarget, known: PostgresHost.Place?, stop: StopSignal) throws(StoreError) {
    handle = try Self.connect(target, known: known, stop: stop)
    self.stop = stop
  }

  deinit { PQfinish(handle) }

  /// - Returns: the statement's result, in binary format.
  func run(_ sql: String) throws(StoreError) -> PostgresResult {
    try send(sql)
    var last: PostgresResult?
    while let result = try nextResult() { last = try Self.checked(result, PGRES_TUPLES_OK) }
    guard let last else { throw .unavailable(reason: "PostgreSQL gave no result") }
    return last
  }

  /// Runs `COPY ... TO STDOUT` and calls `take` with each piece of it.
  /// - Parameter take: the piece is valid during the call.
  func copy(_ sql: String, _ take: (UnsafeRawBufferPointer) throws(StoreError) -> Void) throws(StoreError) {
    try send(sql)
    guard let begun = try nextResult() else { throw .unavailable(reason: "PostgreSQL gave no result") }
    _ = try Self.checked(begun, PGRES_COPY_OUT)
    while try copyPiece(take) {}
    while let result = try nextResult() { _ = try Self.checked(result, PGRES_COMMAND_OK) }
  }

  /// - Returns: false behind the last piece.
  private func copyPiece(_ take: (UnsafeRawBufferPointer) throws(StoreError) -> Void) throws(StoreError) -> Bool {
    var piece: UnsafeMutablePointer<CChar>?
    let count = PQgetCopyData(handle, &piece, 1)
    switch count {
    case 1...:
      defer { PQfreemem(piece) }
      try take(UnsafeRawBufferPointer(start: piece, count: Int(count)))
      return true
    case 0:
      try receive()
      return true
    case -1: return false
    default: throw .unavailable(reason: "the connection was lost")
    }
  }

  private func send(_ sql: String) throws(StoreError) {
    guard PQsendQueryParams(handle, sql, 0, nil, nil, nil, nil, 1) == 1 else {
      throw .unavailable(reason: "the connection was lost")
    }
  }

  /// - Returns: nil behind the last result of a statement. It is the caller's.
  private func nextResult() throws(StoreError) -> OpaquePointer? {
    while PQisBusy(handle) == 1 { try receive() }
    return PQgetResult(handle)
  }

  private func receive() throws(StoreError) {
    try Self.wait(for: POLLIN, on: handle, until: .now + Bounds.silenceMax, stop: stop)
    guard PQconsumeInput(handle) == 1 else { throw .unavailable(reason: "the connection was lost") }
  }

  private static func checked(_ result: OpaquePointer, _ expected: ExecStatusType) throws(StoreError) -> PostgresResult
  {
    guard PQresultStatus(result) != expected else { return PostgresResult(owning: result) }
    let state = SQLState(of: result)
    PQclear(result)
    guard let state else { throw .unavailable(reason: "the connection was lost") }
    throw PostgresError.refused(state, statement: "a copy").storeError
  }
}

// MARK: - Connecting

extension PostgresStream {
  /// Attempts go from host to host, and begin where the store's connections are.
  private static func connect(
    _ target: PostgresTarget, known: PostgresHost.Place?, stop: StopSignal
  ) throws(StoreError) -> OpaquePointer {
    var failure = StoreError.unavailable(reason: "not connected to PostgreSQL")
    let hosts = target.hosts().ordered(for: .known, turn: 0, known: known)
    for attempt in 0..<max(Bounds.attemptsMin, hosts.count) {
      guard let handle = hosts[attempt % hosts.count].startConnecting() else { continue }
      // Notices would go to standard error, and may quote values.
      PQsetNoticeReceiver(handle, { _, _ in }, nil)
      do throws(StoreError) {
        try finishConnecting(handle, isOneOfSeveral: hosts.count > 1, stop: stop)
        return handle
      } catch {
        PQfinish(handle)
        failure = error
      }
    }
    throw failure
  }

  private static func finishConnecting(
    _ handle: OpaquePointer, isOneOfSeveral: Bool, stop: StopSignal
  ) throws(StoreError) {
    let began = ContinuousClock.now
    var state = PQstatus(handle) == CONNECTION_BAD ? PGRES_POLLING_FAILED : PGRES_POLLING_WRITING
    while true {
      let isUnreached = isOneOfSeveral && PQstatus(handle) == CONNECTION_STARTED
      let limit = isOneOfSeveral ? Bounds.connectTimeoutOfSeveral : Bounds.connectTimeout
      let deadline = began + (isUnreached ? Bounds.reachTimeout : limit)
      switch state {
      case PGRES_POLLING_OK: return
      case PGRES_POLLING_READING: try wait(for: POLLIN, on: handle, until: deadline, stop: stop)
      case PGRES_POLLING_WRITING: try wait(for: POLLOUT, on: handle, until: deadline, stop: stop)
      default: throw .unavailable(reason: "not connected to PostgreSQL")
      }
      state = PQconnectPoll(handle)
    }
  }

  /// libpq may have opened another socket since the last call.
  private static func wait(
    for events: Int32, on handle: OpaquePointer, until deadline: ContinuousClock.Instant, stop: StopSignal
  ) throws(StoreError) {
    switch stop.wait(for: events, on: PQsocket(handle), until: deadline) {
    case .ready: return
    case .stopped: throw .unavailable(reason: "the caller gave up")
    case .late: throw .unavailable(reason: "PostgreSQL did not answer in time")
    }
  }
}
