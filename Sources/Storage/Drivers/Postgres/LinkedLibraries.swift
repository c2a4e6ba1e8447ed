import CHiredis
import CLibPQ
import COpenSSL
import GRDB

/// The system's libraries that the stores work with, as this process has them.
package enum LinkedLibraries {
  /// hiredis 0.14 names its version at build time alone.
  package static var all: [(name: String, version: String)] {
    [
      ("hiredis", "\(HIREDIS_MAJOR).\(HIREDIS_MINOR).\(HIREDIS_PATCH)"), ("libpq", postgres), ("OpenSSL", openSSL),
      ("SQLite", sqlite),
    ]
  }

  private static var postgres: String {
    let number = PQlibVersion()
    return "\(number / 10_000).\(number % 10_000)"
  }

  /// `OpenSSL 3.0.19 27 Jan 2026`: the second word.
  private static var openSSL: String {
    let text = String(cString: OpenSSL_version(OPENSSL_VERSION))
    return text.split(separator: " ").dropFirst().first.map { String($0) } ?? text
  }

  private static var sqlite: String {
    // A database in memory fails only where SQLite cannot work at all.
    (try? DatabaseQueue().read { try String.fetchOne($0, sql: "SELECT sqlite_version()") }) ?? "unknown"
  }
}
