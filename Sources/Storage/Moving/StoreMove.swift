import Crypto
package import RelayCore

/// Why a store was not moved.
package enum MoveFailure: Error, Sendable, Equatable {
  /// The database holds something, and no move into it was begun.
  case targetInUse
  /// The database's tables are distributed among servers.
  case targetDistributed
  /// A move into it was begun from another store, of this name.
  case otherSource(String)
  /// The source was moved, and the target is no more under way: all is done.
  case ended
  /// The source was moved, and the target holds no store: it is another database, or was made anew.
  case otherTarget
  case source(reason: String)
  case target(reason: String)
  /// This build does not know how to move what is there, or the copy differs.
  case defect(reason: String)

  static func source(_ error: StoreError) -> MoveFailure { of(error) { .source(reason: $0) } }
  static func target(_ error: StoreError) -> MoveFailure { of(error) { .target(reason: $0) } }

  private static func of(_ error: StoreError, _ make: (String) -> MoveFailure) -> MoveFailure {
    switch error {
    case .unavailable(let reason): make(reason)
    case .corrupted(let reason): .defect(reason: reason)
    }
  }
}

/// Moves an embedded store into PostgreSQL.
///
/// Both stores are read side by side in the order of their keys, and what differs is replaced in the target. So it may
/// be broken off and begun again at any moment, and goes on while relays work on the source: only the last pass needs
/// it at rest. In the end all rows of both are read once more, and their digests compared.
package struct StoreMove: Sendable {
  package struct Progress: Sendable {
    package let table: String
    /// Looked at so far.
    package let rows: Int
    /// How many of them the target lacked, or had otherwise.
    package let changed: Int
    package let isDone: Bool
  }

  package struct Digest: Sendable, Equatable {
    package let table: String
    package let rows: Int
    /// SHA-256 over all rows in order, in hexadecimal digits.
    package let digest: String
  }

  private let source: MoveSource
  private let target: MoveTarget
  private let name: String

  /// - Parameters:
  ///   - name: of the source, for a move that goes on.
  ///   - target: opened without an encryption key: what is sealed is moved as it is.
  package init(_ source: SQLiteStorage, named name: String, to target: PostgresStorage) {
    self.source = MoveSource(store: source)
    self.target = MoveTarget(store: target)
    self.name = name
  }

  /// Prepares the target. Changes nothing in the source.
  package func begin() async throws(MoveFailure) {
    let isMoved = try await fromSource { () throws(StoreError) in try await source.isMarkedMoved() }
    _ = try await fromSource { () throws(StoreError) in try await source.isSealed() }
    if isMoved { try await demandMark() }
    switch try await onTarget({ () throws(StoreError) in try await target.prepare() }) {
    case .new: try await onTarget { () throws(StoreError) in try await target.mark(source: name) }
    case .marked(source: name): return
    case .marked(let other): throw .otherSource(other)
    case .inUse: throw .targetInUse
    case .distributed: throw .targetDistributed
    }
  }

  /// One pass: afterwards the target has all that the source had, but for what changed meanwhile.
  /// - Returns: how many rows were replaced.
  package func copy(_ progress: @Sendable (Progress) -> Void) async throws(MoveFailure) -> Int {
    var changed = 0
    for plan in try await plans() { changed += try await copy(plan, progress) }
    return changed
  }

  /// To be called while no relay serves the source, after a pass: marks it as moved, copies what changed, compares
  /// all, and makes the target one that may be served.
  /// - Returns: of each table, what both have.
  package func end(at now: Timestamp, _ progress: @Sendable (Progress) -> Void) async throws(MoveFailure) -> [Digest] {
    // Before the last pass: a command that begins now finds the mark, and changes nothing any more.
    try await fromSource { () throws(StoreError) in try await source.markMoved(at: now) }
    _ = try await copy(progress)
    var digests: [Digest] = []
    for plan in try await plans() { digests.append(try await compare(plan)) }
    let (numbers, generation, isSealed) = try await fromSource { () throws(StoreError) in
      (try await source.lastNumbers(), try await source.listingGeneration(), try await source.isSealed())
    }
    try await onTarget { () throws(StoreError) in
      try await target.end(lastNumbers: numbers, isSealed: isSealed, generation: generation)
    }
    return digests
  }

  /// The source is served again, as long as the target was not.
  /// - Parameter isGone: whether the operator says that the database is gone that the store was moved to.
  /// - Throws: `.ended` when the target may have been served. `.otherTarget`, unless `isGone`.
  package func cancel(isGone: Bool = false) async throws(MoveFailure) {
    let isMoved = try await fromSource { () throws(StoreError) in try await source.isMarkedMoved() }
    guard isMoved else { return }
    do throws(MoveFailure) {
      try await demandMark()
    } catch .otherTarget where isGone {
      // Nobody can look any more whether it was served.
    }
    try await fromSource { () throws(StoreError) in try await source.unmark() }
  }

  /// - Throws: `.ended` and `.otherTarget` where no move into the target is under way.
  private func demandMark() async throws(MoveFailure) {
    let failure = try await onTarget { () throws(StoreError) -> MoveFailure? in
      // A database without a schema has no mark.
      guard try await target.store.migrations().contains(where: { $0.applied != nil }) else { return .otherTarget }
      guard try await target.markedSource() == nil else { return nil }
      return try await target.isInUse() ? .ended : .otherTarget
    }
    if let failure { throw failure }
  }

  private func plans() async throws(MoveFailure) -> [MovePlan] {
    let columns = try await fromSource { () throws(StoreError) in try await source.columns() }
    let days = try await fromSource { () throws(StoreError) in
      (try await source.days(of: "messages"), try await source.days(of: "acknowledged"))
    }
    return try await onTarget { () throws(StoreError) in
      try await target.makeDays(days.0, days.1)
      return try MovePlan.all(
        source: columns, target: try await target.types(), triggers: try await target.tablesWithTriggers())
    }
  }

  private func copy(_ plan: MovePlan, _ progress: @Sendable (Progress) -> Void) async throws(MoveFailure) -> Int {
    var (rows, changed) = (0, 0)
    var key: [MovedValue]?
    repeat {
      let here = key
      let theirs = try await fromSource { () throws(StoreError) in try await source.page(plan, after: here) }
      let ours = try await onTarget { () throws(StoreError) in try await target.page(plan, after: here) }
      let step = MoveStep(source: theirs, target: ours, pageRows: plan.table.pageRows)
      try await onTarget { () throws(StoreError) in try await target.replace(step.removed, by: step.added, plan) }
      rows += step.rows
      changed += step.changed
      key = step.end
      progress(Progress(table: plan.table.name, rows: rows, changed: changed, isDone: key == nil))
    } while key != nil
    return changed
  }

  /// Reads both stores to their ends.
  private func compare(_ plan: MovePlan) async throws(MoveFailure) -> Digest {
    let theirs = try await fromSource { () throws(StoreError) in
      try await digest(plan) { key throws(StoreError) in try await source.page(plan, after: key) }
    }
    let ours = try await onTarget { () throws(StoreError) in
      try await digest(plan) { key throws(StoreError) in try await target.page(plan, after: key) }
    }
    guard theirs == ours else {
      throw .defect(
        reason: "\(plan.table.name) has \(theirs.rows) rows, and \(ours.rows) where it was moved to, or others")
    }
    return theirs
  }

  private func digest(
    _ plan: MovePlan, _ page: ([MovedValue]?) async throws(StoreError) -> [MovedRow]
  ) async throws(StoreError) -> Digest {
    var digest = SHA256()
    var rows = 0
    var key: [MovedValue]?
    repeat {
      let read = try await page(key)
      for row in read { for value in row.values { value.update(&digest) } }
      rows += read.count
      key = read.count == plan.table.pageRows ? read.last?.key : nil
    } while key != nil
    let text = digest.finalize().map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    return Digest(table: plan.table.name, rows: rows, digest: text)
  }

  private func fromSource<Value>(_ body: () async throws(StoreError) -> Value) async throws(MoveFailure) -> Value {
    do throws(StoreError) { return try await body() } catch { throw .source(error) }
  }
  private func onTarget<Value>(_ body: () async throws(StoreError) -> Value) async throws(MoveFailure) -> Value {
    do throws(StoreError) { return try await body() } catch { throw .target(error) }
  }
}
