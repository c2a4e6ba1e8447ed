import CLibPQ
import Foundation

/// One PostgreSQL session. Its calls block: use it on a thread of its own.
struct Database: ~Copyable {
  private let connection: OpaquePointer

  /// - Throws: `BenchmarkFailure` when the server does not take the connection.
  init(_ url: String) throws(BenchmarkFailure) {
    guard let connection = PQconnectdb(url) else { throw BenchmarkFailure("libpq has no memory") }
    guard PQstatus(connection) == CONNECTION_OK else {
      let reason = String(cString: PQerrorMessage(connection))
      PQfinish(connection)
      throw BenchmarkFailure("PostgreSQL: \(reason)")
    }
    self.connection = connection
  }

  deinit { PQfinish(connection) }

  func execute(_ sql: String) throws(BenchmarkFailure) { PQclear(try checked(PQexec(connection, sql))) }

  /// The first column of the first row.
  func text(_ sql: String) throws(BenchmarkFailure) -> String {
    let result = try checked(PQexec(connection, sql))
    defer { PQclear(result) }
    guard PQntuples(result) > 0, let value = PQgetvalue(result, 0, 0) else {
      throw BenchmarkFailure("PostgreSQL: no row")
    }
    return String(cString: value)
  }

  func integer(_ sql: String) throws(BenchmarkFailure) -> Int {
    guard let number = Int(try text(sql)) else { throw BenchmarkFailure("PostgreSQL: not a number") }
    return number
  }

  func prepare(_ name: String, _ sql: String) throws(BenchmarkFailure) {
    PQclear(try checked(PQprepare(connection, name, sql, 0, nil)))
  }

  /// Runs a prepared statement with binary parameters.
  func execute(prepared name: String, _ parameters: [[UInt8]]) throws(BenchmarkFailure) {
    let lengths = parameters.map { Int32($0.count) }
    let formats = [Int32](repeating: 1, count: parameters.count)
    // One block for all, so that all pointers are good at once.
    let bytes = parameters.flatMap { $0 }
    let result = bytes.withUnsafeBytes { block in
      var offset = 0
      var values: [UnsafePointer<CChar>?] = []
      for parameter in parameters {
        values.append(block.baseAddress.map { ($0 + offset).assumingMemoryBound(to: CChar.self) })
        offset += parameter.count
      }
      return PQexecPrepared(connection, name, Int32(parameters.count), values, lengths, formats, 1)
    }
    PQclear(try checked(result))
  }

  /// - Returns: `result` when it is one of success; it is cleared otherwise.
  private func checked(_ result: OpaquePointer?) throws(BenchmarkFailure) -> OpaquePointer? {
    switch PQresultStatus(result) {
    case PGRES_COMMAND_OK, PGRES_TUPLES_OK: return result
    default:
      PQclear(result)
      throw BenchmarkFailure("PostgreSQL: \(String(cString: PQerrorMessage(connection)))")
    }
  }
}

/// Runs blocking `work` on a thread of its own, away from those that everyone shares.
func onOwnThread<Value: Sendable>(_ work: @escaping @Sendable () throws -> Value) async throws -> Value {
  try await withCheckedThrowingContinuation { continuation in
    let thread = Thread { continuation.resume(with: Result { try work() }) }
    thread.name = "bench work"
    thread.start()
  }
}
