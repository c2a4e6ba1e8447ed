import Foundation

extension PostgresServer {
  /// Makes a role that may do everything and, over TCP, is asked for its password.
  /// - Returns: `url` with it in the place of the tests' own.
  package func addRole(_ name: String, password: String, to url: String) throws -> String {
    _ = try sql("CREATE ROLE \(name) SUPERUSER LOGIN PASSWORD '\(password)'", in: "postgres")
    let file = try sql("SHOW hba_file", in: "postgres").trimmingCharacters(in: .whitespacesAndNewlines)
    let rules = try String(contentsOfFile: file, encoding: .utf8)
    // The first that fits counts.
    try "host all \(name) 127.0.0.1/32 scram-sha-256\n\(rules)".write(toFile: file, atomically: false, encoding: .utf8)
    _ = try sql("SELECT pg_reload_conf()", in: "postgres")
    return Self.url(url, as: name, password: password)
  }

  package func changePassword(of role: String, to password: String) throws {
    _ = try sql("ALTER ROLE \(role) PASSWORD '\(password)'", in: "postgres")
    _ = try sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '\(role)'", in: "postgres")
  }

  package static func url(_ url: String, as role: String, password: String) -> String {
    url.replacing("://relay@", with: "://\(role):\(password)@")
  }
}
