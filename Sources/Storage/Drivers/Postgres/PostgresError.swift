// The errors of a statement. PostgreSQL's own message texts quote values: they are never kept.

import CLibPQ
import RelayCore

/// Why a statement has no result.
enum PostgresError: Error {
  /// There is no connection, it was lost on the way, or too much waits for it already.
  case notServed(reason: String)
  /// The server refused; nothing of the statement's transaction was done.
  case refused(SQLState, statement: String)

  var storeError: StoreError {
    switch self {
    case .notServed(let reason):
      .unavailable(reason: reason)
    case .refused(let state, _) where state.isOfAnotherServer:
      .serverAway
    case .refused(let state, let statement) where state.isPassing:
      .unavailable(
        reason: "PostgreSQL refused \(statement)"
          + (state.diskFault.map { ": \($0)" } ?? " with SQLSTATE \(state.code)"))
    case .refused(let state, let statement):
      .corrupted(reason: "PostgreSQL refused \(statement) with SQLSTATE \(state.code)")
    }
  }
}

/// A five-character code (PostgreSQL documentation, appendix A).
struct SQLState: Equatable {
  let code: String

  static let uniqueViolation = SQLState(code: "23505")
  static let checkViolation = SQLState(code: "23514")
  static let divisionByZero = SQLState(code: "22012")
  static let undefinedTable = SQLState(code: "42P01")
  /// The server has become a standby, or is told to change nothing.
  static let readOnly = SQLState(code: "25006")
  /// A lock was not had within `lock_timeout`.
  static let lockNotAvailable = SQLState(code: "55P03")
  /// An administrator's word, or the server's shutdown, ended the session.
  static let adminShutdown = SQLState(code: "57P01")
  static let unknownStatement = SQLState(code: "26000")

  /// Another transaction was in the way and this one was undone: it may simply run again.
  var isConflict: Bool { code == "40001" || code == "40P01" }

  /// The server has no connection to another one, which has a part of a distributed store.
  var isOfAnotherServer: Bool { code.hasPrefix("08") }

  /// The fault of the server's disk, in words; nil when the state says nothing of a disk.
  var diskFault: String? {
    switch code {
    case "53100": "its disk is full (SQLSTATE 53100)"
    case "58030": "its disk failed (SQLSTATE 58030)"
    default: nil
    }
  }

  /// The refusal has nothing to do with the statement itself.
  var isPassing: Bool {
    switch code.prefix(2) {
    case "08", "40", "53", "57", "58": true  // Connection, rollback, resources, operator, system.
    // Read-only, lock time-out, schema not there yet.
    default: self == .readOnly || self == .lockNotAvailable || self == .undefinedTable
    }
  }
}

extension SQLState {
  /// A server of shards serves no writes, or none at all.
  private static let awayWorker = SQLState(code: "08004")

  /// The state of a result that is an error; nil when the server said nothing.
  ///
  /// Citus passes the state of a worker on as its own, and says in the context whose it is. That a worker has become a
  /// standby, that its disk is full or that it stops says nothing of the server that was asked.
  init?(of result: OpaquePointer) {
    guard let state = Self.field("C", of: result) else { return nil }
    let ofWorker = ["25006", "53", "57P", "58"].contains { state.hasPrefix($0) }
    let isPassedOn = ofWorker && Self.field("W", of: result)?.contains("while executing command on ") == true
    self = isPassedOn ? Self.awayWorker : SQLState(code: state)
  }

  /// - Parameter field: `PG_DIAG_…`, character macros, which Swift imports as another type than the call wants.
  private static func field(_ field: Unicode.Scalar, of result: OpaquePointer) -> String? {
    PQresultErrorField(result, Int32(field.value)).map { String(cString: $0) }
  }
}

extension StoreError {
  fileprivate static let serverAway = StoreError.unavailable(reason: awayReason)
  private static let awayReason = "a server of the distributed store does not answer"

  /// Whether one thing of a batch may have failed all of it. Then each caller's part is tried by itself.
  var isOfPart: Bool {
    switch self {
    case .corrupted: true
    case .unavailable(let reason): reason == Self.awayReason
    }
  }
}

extension WriteRefusals {
  func note(_ outcome: PostgresRequest.Outcome) {
    guard case .failure(.refused(let state, _)) = outcome, let fault = state.diskFault else { return }
    refused("PostgreSQL refuses writes: \(fault)")
  }

  /// Notes a refused session, if all hosts tell of a full disk: the disk of a host that is not in use is no refusal.
  ///
  /// libpq has no SQLSTATE of it, only the server's words. After a change of the schema, a session writes a file before
  /// it serves: PostgreSQL lets nobody in while that file has no room.
  func noteSession(refused reasons: [String]) {
    let words = ["could not write init file", "No space left on device"]
    guard !reasons.isEmpty, reasons.allSatisfy({ reason in words.contains { reason.contains($0) } }) else { return }
    refused("PostgreSQL lets no session in: its disk is full")
  }
}
