// One established connection in libpq's pipeline mode: what is on its way, and which answer belongs to whom.

import CLibPQ
import DequeModule

/// Sends requests one behind the other and hands each answer to its request.
///
/// The statements up to a synchronisation point are one transaction to PostgreSQL: an error undoes it and skips what is
/// left of it. Reads between two transactions share one point, since each costs a system call here; a read that a
/// neighbour's error skipped is sent again. A transaction has a point of its own and is finished by it: that is when it
/// is durable. Belongs to the reactor's thread; owns the handle.
final class PostgresPipeline {
  let handle: OpaquePointer
  private var entries = Deque<Entry>()
  /// Names of statements that this server process knows, or will by the time what follows arrives.
  private var prepared: Set<UnsafePointer<UInt8>> = []
  private var isGroupOpen = false
  private var head = Answer.none
  private var hasEmptyAnswer = false
  /// Called with each request that has to be sent again.
  private let resend: (PostgresRequest) -> Void

  /// One answer that the server owes, in order.
  private enum Entry {
    /// A statement that the connection itself needs; its failure ends the connection.
    case setting
    case prepare(UnsafePointer<UInt8>, PostgresRequest)
    case step(PostgresRequest)
    /// With the transaction that it ends.
    case synchronisation(PostgresRequest?)

    var request: PostgresRequest? {
      switch self {
      case .prepare(_, let request), .step(let request): request
      case .synchronisation(let request): request
      case .setting: nil
      }
    }
  }

  /// What arrived for the first entry so far.
  private enum Answer {
    case none
    case result(PostgresResult)
    case failed(SQLState)
    case skipped
  }

  /// A connection that can no longer be used.
  struct Lost: Error {}

  /// Takes over `handle`, connected, and sends `setting` ahead of everything.
  init(
    handle: OpaquePointer, setting: String, resend: @escaping (PostgresRequest) -> Void
  ) throws(Lost) {
    self.handle = handle
    self.resend = resend
    guard PQsetnonblocking(handle, 1) == 0, PQenterPipelineMode(handle) == 1,
      PQsendQueryParams(handle, setting, 0, nil, nil, nil, nil, 1) == 1
    else { throw Lost() }
    entries.append(.setting)
    try synchronise(nil)
  }

  deinit { PQfinish(handle) }

  var isIdle: Bool { entries.isEmpty }
  /// The one that has waited longest, roughly: what is sent again keeps its age.
  var oldest: PostgresRequest? { entries.lazy.compactMap(\.request).first }

  /// Every request that has no answer yet, in order, perhaps more than once.
  func abandon() -> [PostgresRequest] {
    defer { entries.removeAll() }
    return entries.compactMap(\.request)
  }
}

// MARK: - Sending

extension PostgresPipeline {
  func send(_ request: PostgresRequest) throws(Lost) {
    request.attempts += 1
    request.results.removeAll(keepingCapacity: true)
    if request.isTransaction, isGroupOpen { try synchronise(nil) }
    for step in request.steps { try send(step, of: request) }
    if request.isTransaction { try synchronise(request) } else { isGroupOpen = true }
  }

  /// Ends the open group and writes what the socket takes.
  /// - Returns: whether something is left to write.
  func flush() throws(Lost) -> Bool {
    if isGroupOpen { try synchronise(nil) }
    let code = PQflush(handle)
    guard code >= 0 else { throw Lost() }
    return code > 0
  }

  private func send(_ step: PostgresStep, of request: PostgresRequest) throws(Lost) {
    switch step.statement {
    case .once(let sql):
      let code = sql.withCString { sql in
        step.parameters.withArguments { count, values, lengths, formats in
          PQsendQueryParams(handle, sql, count, nil, values, lengths, formats, 1)
        }
      }
      guard code == 1 else { throw Lost() }
    case .prepared(let name, let sql):
      let key = name.utf8Start
      let code = key.withMemoryRebound(to: CChar.self, capacity: name.utf8CodeUnitCount + 1) { name in
        if prepared.insert(key).inserted {
          let code = sql.utf8Start.withMemoryRebound(to: CChar.self, capacity: sql.utf8CodeUnitCount + 1) { sql in
            PQsendPrepare(handle, name, sql, 0, nil)
          }
          guard code == 1 else { return code }
          entries.append(.prepare(key, request))
        }
        return step.parameters.withArguments { count, values, lengths, formats in
          PQsendQueryPrepared(handle, name, count, values, lengths, formats, 1)
        }
      }
      guard code == 1 else { throw Lost() }
    }
    entries.append(.step(request))
  }

  private func synchronise(_ request: PostgresRequest?) throws(Lost) {
    guard PQpipelineSync(handle) == 1 else { throw Lost() }
    entries.append(.synchronisation(request))
    isGroupOpen = false
  }
}

// MARK: - Receiving

extension PostgresPipeline {
  /// Takes what the socket has and finishes every request whose answer is complete.
  func receive() throws(Lost) {
    let isOpen = PQconsumeInput(handle) == 1
    // Answers that came before a connection broke are answers.
    while !entries.isEmpty, PQisBusy(handle) == 0 {
      guard let result = PQgetResult(handle) else {
        try entryCompleted()
        continue
      }
      try received(result)
      if PQstatus(handle) == CONNECTION_BAD { throw Lost() }
    }
    guard isOpen, PQstatus(handle) != CONNECTION_BAD else { throw Lost() }
  }

  private func received(_ result: OpaquePointer) throws(Lost) {
    switch PQresultStatus(result) {
    case PGRES_PIPELINE_SYNC:
      PQclear(result)
      hasEmptyAnswer = false
      guard case .synchronisation(let request)? = entries.popFirst() else { throw Lost() }
      if let request { transactionEnded(request) }
    case PGRES_PIPELINE_ABORTED:
      PQclear(result)
      head = .skipped
    case PGRES_TUPLES_OK, PGRES_COMMAND_OK:
      head = .result(PostgresResult(owning: result))
    default:
      let state = PQresultErrorField(result, sqlStateField).map { SQLState(code: String(cString: $0)) }
      PQclear(result)
      // Without a state the server said nothing: libpq itself gave the connection up.
      guard let state else { throw Lost() }
      // A commit that failed is reported in the place of its synchronisation point, with no end of its own.
      if case .synchronisation(let request)? = entries.first {
        if let request { refuse(request, state) }
      } else {
        head = .failed(state)
      }
    }
  }

  /// The first entry's answer is whole.
  private func entryCompleted() throws(Lost) {
    let answer = head
    head = .none
    if case .none = answer {
      // After a commit that failed libpq ends an answer, but not the entry. Twice would go on for ever.
      guard !hasEmptyAnswer else { throw Lost() }
      hasEmptyAnswer = true
      return
    }
    hasEmptyAnswer = false
    switch (entries.popFirst(), answer) {
    case (.setting, .result), (.prepare, .result):
      break
    case (.prepare(let key, let request), .failed(let state)):
      prepared.remove(key)
      refuse(request, state)
    case (.prepare(let key, _), _):
      // Whoever relied on it meanwhile is told that the statement is unknown, and is sent again.
      prepared.remove(key)
    case (.step(let request), .result(let result)):
      request.results.append(result)
      if !request.isTransaction { request.finish(.success(request.results)) }
    case (.step(let request), .failed(let state)):
      refuse(request, state)
    case (.step(let request), _):
      // A transaction is skipped by an error of its own, which has been dealt with.
      if !request.isTransaction, !request.isFinished { resend(request) }
    case (.setting, _), (.synchronisation, _), (nil, _):
      throw Lost()
    }
  }

  private func transactionEnded(_ request: PostgresRequest) {
    // Fewer results than steps: refused, and already finished or on its way again.
    guard request.results.count == request.steps.count else { return }
    request.finish(.success(request.results))
  }

  private func refuse(_ request: PostgresRequest, _ state: SQLState) {
    let step = request.steps.dropFirst(request.results.count).first ?? request.steps.last
    request.results.removeAll()
    // Nothing of it was done, and the same again may succeed.
    if state.isConflict || state == .unknownStatement, request.attempts < attemptsMax { return resend(request) }
    request.finish(.failure(.refused(state, statement: step?.statement.label ?? "nothing")))
  }
}

/// More than a neighbour's error and a conflict or two; an endless loop would hide a defect.
private let attemptsMax = 8
/// `PG_DIAG_SQLSTATE`: a character macro, which Swift imports as another type than the call wants.
private let sqlStateField = Int32(UInt8(ascii: "C"))

extension PostgresParameters {
  /// Calls `body` with what libpq's calls want. The pointers are valid during the call.
  fileprivate func withArguments(
    _ body: (Int32, UnsafePointer<UnsafePointer<CChar>?>?, UnsafePointer<Int32>?, UnsafePointer<Int32>?) -> Int32
  ) -> Int32 {
    let empty: StaticString = ""
    return bytes.withUnsafeBytes { buffer in
      withUnsafeTemporaryAllocation(of: UnsafePointer<CChar>?.self, capacity: fields.count + 1) { values in
        withUnsafeTemporaryAllocation(of: Int32.self, capacity: 2 * fields.count + 1) { numbers in
          // An empty value is no NULL: it needs an address, any address.
          let base = (buffer.baseAddress ?? UnsafeRawPointer(empty.utf8Start)).assumingMemoryBound(to: CChar.self)
          for (index, field) in fields.enumerated() {
            values.initializeElement(at: index, to: field.length == nil ? nil : base + field.start)
            numbers.initializeElement(at: index, to: Int32(truncatingIfNeeded: field.length ?? 0))
            numbers.initializeElement(at: fields.count + index, to: 1)
          }
          let lengths = numbers.baseAddress.map { UnsafePointer($0) }
          let formats = lengths.map { $0 + fields.count }
          return body(Int32(fields.count), values.baseAddress.map { UnsafePointer($0) }, lengths, formats)
        }
      }
    }
  }
}
