// The address of PostgreSQL: the connection string, completed with the relay's defaults.

import CLibPQ
import Glibc
import RelayCore

/// A connection string, as it is when a connection begins.
///
/// libpq tries several hosts in their order, but an attempt that it does not block in has no time-out per host. So the
/// order turns from attempt to attempt: a host that swallows packets costs one attempt and not all of them.
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

  private static func options(_ url: String) -> [String: String]? {
    guard url.hasPrefix("postgres://") || url.hasPrefix("postgresql://") else { return nil }
    return parse(url).map { defaults.merging($0) { _, given in given } }
  }

  /// The values used unless the URL says otherwise.
  private static let defaults = [
    "application_name": "relay",
    "client_encoding": "UTF8",
    // After a failover the old primary may still answer as a standby.
    "target_session_attrs": "read-write",
    // A server that vanished without a word is noticed by the kernel too, not only by a statement's deadline.
    "keepalives_idle": "10", "keepalives_interval": "5", "keepalives_count": "3", "tcp_user_timeout": "15000",
  ]

  /// Begins to connect; the caller polls. Blocks while it asks for the present URL and resolves a host's name.
  /// - Parameter attempt: how many attempts came before.
  /// - Returns: nil when memory ran out.
  func startConnecting(attempt: Int) -> OpaquePointer? {
    let options = Self.rotated(present().flatMap(Self.options) ?? options, by: attempt)
    let keywords = options.map { strdup($0.key) } + [nil]
    let values = options.map { strdup($0.value) } + [nil]
    defer { for text in keywords + values { free(text) } }
    return PQconnectStartParams(
      keywords.map { UnsafePointer($0) }, values.map { UnsafePointer($0) }, 0)
  }

  private static func rotated(_ options: [String: String], by attempt: Int) -> [String: String] {
    let names = ["host", "hostaddr", "port"]
    let count = names.compactMap { options[$0]?.split(separator: ",", omittingEmptySubsequences: false).count }.max()
    guard let count, count > 1 else { return options }
    var rotated = options
    for name in names {
      guard let parts = options[name]?.split(separator: ",", omittingEmptySubsequences: false), parts.count == count
      else { continue }
      let first = attempt % count
      rotated[name] = (parts[first...] + parts[..<first]).joined(separator: ",")
    }
    return rotated
  }

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
