// One established connection in libpq's pipeline mode: what is on its way, and which answer belongs to whom.

import CLibPQ
import DequeModule

/// Sends requests one behind the other and hands each answer to its request.
///
/// The statements up to a synchronisation point are one transaction to PostgreSQL: an error undoes it and skips the
/// rest of it, and the point commits it. Requests that share one make a group. When one of them fails, the others are
/// sent again, each alone. One group of shared writes is under way at a time, and writes that come meanwhile gather
/// for the next: a commit costs the same for all of them.
///
/// In a distributed store a group of several statements is a transaction block (`BEGIN` to `COMMIT`). Without one,
/// Citus begins no transaction at the workers: what a statement for one account does there is committed at once, and an
/// error further on does not undo it (Citus 12.1 on PostgreSQL 15). Belongs to the reactor's thread; owns the handle.
final class PostgresPipeline {
  private let handle: OpaquePointer
  private var entries = Deque<Entry>()
  /// Addresses of the names of statements that this server process knows, or will know when the next request arrives.
  private var prepared: Set<UnsafePointer<UInt8>> = []
  /// Sent, and not yet ended by a synchronisation point.
  private var openGroup: [PostgresRequest] = []
  /// Shared writes that wait for the group under way.
  private var gathered = Deque<PostgresRequest>()
  private var isWriteGroupUnderWay = false
  /// The part of the first entry's answer that arrived so far.
  private var head: Answer?
  private var hasEmptyAnswer = false
  /// Whether something failed since the last synchronisation point.
  private var hasGroupFailed = false
  private var lineage: PostgresLineage?
  /// nil until the server has told it.
  private var layout: PostgresLayout?
  private let served: (PostgresLineage?, PostgresLayout) -> Void
  /// Whether something was handed to libpq that may lie in its buffer still: it writes what the socket takes.
  private var mustFlush = false

  /// One answer that the server owes, in order.
  private enum Entry {
    /// The question for the server's lineage.
    case lineage
    /// A statement that the connection itself needs; its failure ends the connection.
    case setting
    /// The leap of message numbers where another server goes on with the store. No request may run without it.
    case numbering
    /// One that it can do without.
    case wish
    case prepare(UnsafePointer<UInt8>, PostgresRequest)
    case step(PostgresRequest)
    case begin
    /// A synchronisation point within a block.
    case pause
    case commit([PostgresRequest])
    /// The end of a group; of shared writes, if `endsWrites`.
    case synchronisation([PostgresRequest], endsWrites: Bool)

    var requests: [PostgresRequest] {
      switch self {
      // The end of the group has those of the commit.
      case .lineage, .setting, .numbering, .wish, .begin, .pause, .commit: []
      case .prepare(_, let request), .step(let request): [request]
      case .synchronisation(let group, _): group
      }
    }
  }

  private enum Answer {
    case result(PostgresResult)
    case failed(SQLState)
    /// Not run, since something before it in its group failed.
    case skipped
  }

  /// A connection that can no longer be used.
  struct Lost: Error {
    enum Cause {
      /// In words.
      case other(String)
      /// The server takes no writes any more.
      case readOnly
      /// Another server has taken its place.
      case behind

      static let broken = Self.other("the connection was lost")
      static let withoutCitus = Self.other(
        "PostgreSQL has not loaded Citus, which this store is distributed with: see its shared_preload_libraries")
      /// It refuses what a session begins with.
      static func refused(_ state: SQLState) -> Self {
        .other("PostgreSQL refuses what a session begins with (SQLSTATE \(state.code))")
      }
    }
    var cause = Cause.broken
  }

  private enum Bounds {
    /// Shared writes in one transaction. If one of them fails, all have to be sent again, one by one.
    static let sharedWritesMax = 200
    /// More than a neighbour's error and a conflict or two: beyond it there is a defect.
    static let attemptsMax = 8
  }

  /// Takes over `handle`, connected, and sends `setting` ahead of everything, what keeps message numbers from being
  /// given twice (`PostgresNumbering`), and `wish`, which may fail.
  /// - Parameters:
  ///   - question: for the server's lineage; nil asks for none.
  ///   - setting: answers with the layout first.
  ///   - served: is called when the server has given its first answers.
  init(
    handle: OpaquePointer, question: String?, setting: String, wish: String,
    served: @escaping (PostgresLineage?, PostgresLayout) -> Void
  ) throws(Lost) {
    self.handle = handle
    self.served = served
    // Notices would go to standard error, and may quote values.
    PQsetNoticeReceiver(handle, { _, _ in }, nil)
    guard PQsetnonblocking(handle, 1) == 0, PQenterPipelineMode(handle) == 1 else { throw Lost() }
    if let question { try send(question, as: .lineage) }
    try send(setting, as: .setting)
    try send(PostgresNumbering.followServer, as: .numbering)
    try send(wish, as: .wish)
  }

  private func send(_ sql: String, as entry: Entry) throws(Lost) {
    try send(control: sql, as: entry)
    try synchronise()
  }

  deinit { PQfinish(handle) }

  var isIdle: Bool { entries.isEmpty && gathered.isEmpty }
  /// Whether there is something for `flush` to do.
  var hasUnsent: Bool { mustFlush || !openGroup.isEmpty || !isWriteGroupUnderWay && !gathered.isEmpty }
  /// The one that has waited longest, roughly: what is sent again keeps its age.
  var oldest: PostgresRequest? {
    entries.lazy.compactMap { $0.requests.first { !$0.isFinished } }.first ?? gathered.first
  }

  /// Every request that has no answer yet, in order, perhaps more than once. Nothing is sent any more.
  func abandon() -> [PostgresRequest] {
    defer {
      entries.removeAll()
      gathered.removeAll()
      openGroup.removeAll()
    }
    return entries.flatMap(\.requests) + openGroup + gathered
  }
}

// MARK: - Sending

extension PostgresPipeline {
  /// Takes `request` on; it is on its way after `flush`, or after the answers that it waits for.
  func accept(_ request: PostgresRequest) throws(Lost) {
    // Beside others again, their errors could go on undoing it for ever.
    let isAlone = request.sharing == .alone || request.attempts > 0
    if request.sharing == .writes, !isAlone {
      gathered.append(request)
    } else {
      if isAlone, !openGroup.isEmpty { try synchronise() }
      let isBlock = isAlone && request.sharing != .reads && needsBlock(request.steps.count)
      if isBlock { try begin() }
      try send(request)
      if isAlone { try synchronise(isBlock: isBlock) }
    }
  }

  /// Ends the open group and writes what the socket takes.
  /// - Returns: whether something is left to write.
  func flush() throws(Lost) -> Bool {
    if !openGroup.isEmpty { try synchronise() }
    if !isWriteGroupUnderWay, !gathered.isEmpty {
      isWriteGroupUnderWay = true
      let isBlock = needsBlock(gathered.prefix(Bounds.sharedWritesMax).reduce(0) { $0 + $1.steps.count })
      if isBlock { try begin() }
      while openGroup.count < Bounds.sharedWritesMax, let request = gathered.popFirst() { try send(request) }
      try synchronise(isBlock: isBlock, endsWrites: true)
    }
    let code = PQflush(handle)
    guard code >= 0 else { throw Lost() }
    // The rest goes when the socket can be written to.
    mustFlush = false
    return code > 0
  }

  private func send(_ request: PostgresRequest) throws(Lost) {
    request.attempts += 1
    request.results.removeAll(keepingCapacity: true)
    openGroup.append(request)
    for step in request.steps { try send(step, of: request) }
  }

  private func needsBlock(_ statementCount: Int) -> Bool { statementCount > 1 && layout != .whole }

  private func begin() throws(Lost) { try send(control: "BEGIN", as: .begin) }

  private func send(control sql: String, as entry: Entry) throws(Lost) {
    guard PQsendQueryParams(handle, sql, 0, nil, nil, nil, nil, 1) == 1 else { throw Lost() }
    entries.append(entry)
  }

  private func synchronise(isBlock: Bool = false, endsWrites: Bool = false) throws(Lost) {
    if isBlock {
      // A point within a block commits nothing, and ends the skipping behind an error. So the server carries `COMMIT`
      // out in any case: it undoes a block in which something has failed.
      guard PQpipelineSync(handle) == 1 else { throw Lost() }
      entries.append(.pause)
      try send(control: "COMMIT", as: .commit(openGroup))
    }
    guard PQpipelineSync(handle) == 1 else { throw Lost() }
    mustFlush = true
    entries.append(.synchronisation(openGroup, endsWrites: endsWrites))
    openGroup.removeAll()
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
    case .prepared(let name, let text): try send(name, step.parameters, of: request) { text.sql }
    }
    entries.append(.step(request))
  }

  /// Sends a prepared statement, and prepares it where this connection has not met it yet.
  private func send(
    _ name: StaticString, _ parameters: PostgresParameters, of request: PostgresRequest, sql: () -> String
  ) throws(Lost) {
    let key = name.utf8Start
    let code = key.withMemoryRebound(to: CChar.self, capacity: name.utf8CodeUnitCount + 1) { name in
      if prepared.insert(key).inserted {
        guard PQsendPrepare(handle, name, sql(), 0, nil) == 1 else { return Int32(0) }
        entries.append(.prepare(key, request))
      }
      return parameters.withArguments { count, values, lengths, formats in
        PQsendQueryPrepared(handle, name, count, values, lengths, formats, 1)
      }
    }
    guard code == 1 else { throw Lost() }
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
      switch entries.first {
      case .pause: break
      case .synchronisation(let group, let endsWrites):
        if endsWrites { isWriteGroupUnderWay = false }
        try ended(group)
      default: throw Lost()
      }
      entries.removeFirst()
    case PGRES_PIPELINE_ABORTED:
      PQclear(result)
      head = .skipped
    case PGRES_TUPLES_OK, PGRES_COMMAND_OK:
      head = .result(PostgresResult(owning: result))
    default:
      let state = SQLState(of: result)
      PQclear(result)
      // Without a state the server said nothing: libpq itself gave the connection up.
      guard let state else { throw Lost() }
      // Another server has taken its place, which the next attempt looks for.
      guard state != .readOnly else { throw Lost(cause: .readOnly) }
      if case .lineage? = entries.first, state == .adminShutdown { throw Lost(cause: .behind) }
      hasGroupFailed = true
      if case .synchronisation(let group, _)? = entries.first {
        // The commit itself failed. It is reported ahead of the point, with no answer of its own.
        if group.count == 1 { group[0].refused(state, attemptsMax: Bounds.attemptsMax) }
      } else {
        head = .failed(state)
      }
    }
  }

  /// The first entry's answer is whole.
  private func entryCompleted() throws(Lost) {
    guard let answer = head else {
      // After a commit that failed libpq ends an answer, but not the entry. Twice would go on for ever.
      guard !hasEmptyAnswer else { throw Lost() }
      hasEmptyAnswer = true
      return
    }
    (head, hasEmptyAnswer) = (nil, false)
    switch (entries.first, answer) {
    case (.lineage, .result(let result)):
      lineage = PostgresLineage(result)
    case (.setting, .result(let result)):
      guard let layout = PostgresLayout(result) else { throw Lost(cause: .withoutCitus) }
      self.layout = layout
      served(lineage, layout)
    case (.commit(let group), .failed(let state)):
      if group.count == 1 { group[0].refused(state, attemptsMax: Bounds.attemptsMax) }
    case (.lineage, _), (.numbering, .result), (.wish, _), (.prepare, .result), (.begin, .result), (.commit, .result):
      // A role that may not ask for the lineage does without.
      break
    case (.prepare(let name, let request), .failed(let state)):
      prepared.remove(name)
      request.refused(state, attemptsMax: Bounds.attemptsMax)
    case (.prepare(let name, _), .skipped):
      // A request that relied on it meanwhile is told that the statement is unknown, and is sent again.
      prepared.remove(name)
    case (.step(let request), .result(let result)):
      request.results.append(result)
      if request.sharing == .reads, request.results.count == request.steps.count {
        request.finish(.success(request.results))
      }
    case (.step(let request), .failed(let state)):
      request.refused(state, attemptsMax: Bounds.attemptsMax)
    case (.step, .skipped):
      break
    case (.setting, .failed(let state)), (.numbering, .failed(let state)):
      throw Lost(cause: .refused(state))
    case (.setting, _), (.numbering, _), (.begin, _), (.pause, _), (.commit, .skipped), (.synchronisation, _), (nil, _):
      throw Lost()
    }
    entries.removeFirst()
  }

  /// The group's transaction is over: committed, or undone as a whole. Its entry stays first meanwhile, so that nobody
  /// is forgotten when the connection breaks here.
  private func ended(_ group: [PostgresRequest]) throws(Lost) {
    let hasFailed = hasGroupFailed
    hasGroupFailed = false
    if group.first?.sharing == .writes, group.first?.attempts == 1 { isWriteGroupUnderWay = false }
    for request in group where !request.isFinished {
      if hasFailed { try accept(request) } else { request.finish(.success(request.results)) }
    }
  }
}

extension PostgresRequest {
  /// Finishes the request, unless the same again may succeed: then its group's end sends it again.
  fileprivate func refused(_ state: SQLState, attemptsMax: Int) {
    if state.isConflict || state == .unknownStatement, attempts < attemptsMax { return }
    let step = steps.dropFirst(results.count).first ?? steps.last
    finish(.failure(.refused(state, statement: step?.statement.label ?? "nothing")))
  }
}

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
