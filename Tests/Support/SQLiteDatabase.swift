package import GRDB

/// An embedded store's file, for what no contract of the store's brings about. The relay may be writing to it.
package enum SQLiteDatabase {
  /// Waits its turn as long as a busy machine may take.
  package static func open(_ path: String) throws -> DatabaseQueue {
    var configuration = Configuration()
    configuration.busyMode = .timeout(30)
    return try DatabaseQueue(path: path, configuration: configuration)
  }

  /// Runs one statement.
  package static func execute(_ sql: String, at path: String) throws {
    try open(path).write { db in try db.execute(sql: sql) }
  }
}
