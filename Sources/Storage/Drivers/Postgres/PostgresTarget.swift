// The address of PostgreSQL: the connection string, completed with the relay's defaults.

import CLibPQ
import RelayCore

/// A connection string, as it is when a connection begins.
struct PostgresTarget: Sendable {
  private let options: [String: String]
  private let present: @Sendable () -> String?

  /// - Parameters:
  ///   - url: `postgres://`, `postgresql://`, with one or several hosts, as libpq reads them.
  ///   - present: as it is now; nil, or what libpq cannot read, leaves `url`.
  /// - Throws: `.unavailable` when libpq cannot read it. The text is not repeated: it may hold a password.
  init(url: String, present: @escaping @Sendable () -> String? = { nil }) throws(StoreError) {
    guard let options = Self.options(url) else {
      throw .unavailable(reason: "the storage URL is no PostgreSQL connection string")
    }
    self.options = options
    self.present = present
  }

  /// The hosts of the present URL, in its order; not empty. Blocks while it asks for that URL.
  func hosts() -> [PostgresHost] { PostgresHost.all(of: present().flatMap(Self.options) ?? options) }

  private static func options(_ url: String) -> [String: String]? {
    guard url.hasPrefix("postgres://") || url.hasPrefix("postgresql://"), let given = parse(url) else { return nil }
    let defaults = PostgresHost.all(of: given).count > 1 ? ofSeveral : ofOne
    return common.merging(defaults) { $1 }.merging(given) { $1 }
  }

  /// The values used unless the URL says otherwise.
  private static let common = [
    "application_name": "relay",
    "client_encoding": "UTF8",
    // After a fail-over the old primary may still answer as a standby.
    "target_session_attrs": "read-write",
    "keepalives_count": "3",
  ]
  /// A server that vanished without a word is noticed by the kernel too, not only by a statement's deadline.
  private static let ofOne = ["keepalives_idle": "10", "keepalives_interval": "5", "tcp_user_timeout": "15000"]
  /// With another host to go to, a silent one is left soon. A server that is merely slow still acknowledges bytes.
  private static let ofSeveral = ["keepalives_idle": "2", "keepalives_interval": "1", "tcp_user_timeout": "3000"]

  private static func parse(_ url: String) -> [String: String]? {
    var message: UnsafeMutablePointer<CChar>?
    let parsed = PQconninfoParse(url, &message)
    PQfreemem(message)
    return parsed.map { read($0) }
  }

  /// - Parameter parsed: libpq's list, which is freed.
  private static func read(_ parsed: UnsafeMutablePointer<PQconninfoOption>) -> [String: String] {
    defer { PQconninfoFree(parsed) }
    var options: [String: String] = [:]
    var option = parsed
    while let keyword = option.pointee.keyword {
      if let value = option.pointee.val { options[String(cString: keyword)] = String(cString: value) }
      option += 1
    }
    return options
  }
}

// MARK: - How safe the way is

extension PostgresTarget {
  /// `sslmode` as libpq will take it: from the URL, the environment, or its own default.
  var sslMode: String { value("sslmode") ?? "prefer" }

  /// Whether each server is on this host: nobody is on the way to it.
  var isLocal: Bool {
    guard let hosts = value("hostaddr") ?? value("host") else { return true }
    return hosts.split(separator: ",", omittingEmptySubsequences: false).allSatisfy { host in
      host.isEmpty || host.hasPrefix("/") || host.hasPrefix("@") || host.hasPrefix("127.") || host == "::1"
        || host == "localhost"
    }
  }

  private func value(_ keyword: String) -> String? { options[keyword] ?? Self.ofEnvironment[keyword] }

  private static let ofEnvironment = PQconndefaults().map { read($0) } ?? [:]
}
