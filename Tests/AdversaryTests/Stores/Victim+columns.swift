import Foundation
import GRDB
import TestSupport

extension Victim {
  /// The column `code` of every pending code, as a thief of the store has it.
  func codeColumns() async throws -> [[UInt8]] {
    let tables = ["verification_codes", "linking_codes"]
    if let database {
      return try await Loopback.blocking {
        let server = try PostgresServer.shared()
        return try tables.flatMap { table in
          try server.sql("SELECT encode(code, 'hex') FROM \(table)", in: database).split(separator: "\n").map { hex in
            stride(from: 0, to: hex.utf8.count, by: 2).map { place in
              let start = hex.index(hex.startIndex, offsetBy: place)
              return UInt8(hex[start..<hex.index(start, offsetBy: 2)], radix: 16) ?? 0
            }
          }
        }
      }
    }
    let queue = try SQLiteDatabase.open(site.folder + "/relay.sqlite")
    let columns = try await queue.read { db in
      try tables.flatMap { try Data.fetchAll(db, sql: "SELECT code FROM \($0)") }
    }
    try queue.close()
    return columns.map { Array($0) }
  }
}
