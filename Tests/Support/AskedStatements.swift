import Foundation
import Synchronization

/// The statements that a server's clients have it prepare and run, by its log.
package final class AskedStatements: Sendable {
  private let server: PostgresServer
  private let seen = Mutex(0)

  /// From now on the server logs each step of the protocol, once its processes have read that.
  /// - Parameter database: one of its databases.
  package init(_ server: PostgresServer, in database: String) throws {
    self.server = server
    try server.sql("ALTER SYSTEM SET log_min_duration_statement = 0", in: database)
    try server.sql("SELECT pg_reload_conf()", in: database)
  }

  /// What was logged since the last look.
  /// - Returns: names of prepared statements in order, once for each `verb` (`parse`, `execute`).
  package func since(_ verb: String) throws -> [String] {
    let log = try server.log()
    let read = seen.withLock { seen in
      defer { seen = log.utf8.count }
      return seen
    }
    return log.utf8.dropFirst(read).split(separator: UInt8(ascii: "\n")).compactMap { line in
      let words = String(decoding: line, as: UTF8.self).split(separator: " ")
      guard let place = words.firstIndex(of: Substring(verb)), words.contains("duration:"), place + 1 < words.count
      else { return nil }
      let name = words[place + 1].prefix { $0 != ":" }
      return name == "<unnamed>" ? nil : String(name)
    }
  }
}
