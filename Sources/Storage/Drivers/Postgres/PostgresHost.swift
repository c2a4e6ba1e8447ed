import CLibPQ
import Glibc

/// One host of a connection string, with all that libpq is told to connect to it.
///
/// libpq would try several hosts in their order, but an attempt that it does not block in has no time-out per host. So
/// each attempt goes to one host, and the caller bounds it.
struct PostgresHost: Sendable {
  /// The server's address as the connection string has it: what tells two of them apart.
  struct Place: Hashable, Sendable, CustomStringConvertible {
    let host: String?
    let hostaddr: String?
    let port: String?

    /// `db1:5432`, for people.
    var description: String {
      let name = [host, hostaddr].compactMap { $0 }.first { !$0.isEmpty } ?? "the local socket"
      guard let port, !port.isEmpty else { return name }
      return name.contains(":") ? "[\(name)]:\(port)" : "\(name):\(port)"
    }
  }

  let place: Place
  private let options: [String: String]

  /// - Parameter options: by libpq's keywords.
  init(_ options: [String: String]) {
    self.options = options
    place = Place(host: options["host"], hostaddr: options["hostaddr"], port: options["port"])
  }

  /// The hosts of a connection string, in its order; not empty.
  ///
  /// Lists that do not fit each other stay as they are: libpq refuses them, and says why.
  static func all(of options: [String: String]) -> [PostgresHost] {
    func list(_ name: String) -> [String]? {
      options[name]?.split(separator: ",", omittingEmptySubsequences: false).map { String($0) }
    }
    let (hosts, addresses, ports) = (list("host"), list("hostaddr"), list("port"))
    let count = max(hosts?.count ?? 1, addresses?.count ?? 1)
    guard count > 1, [hosts, addresses].allSatisfy({ $0 == nil || $0?.count == count }),
      ports == nil || ports?.count == 1 || ports?.count == count
    else { return [PostgresHost(options)] }
    return (0..<count).map { index in
      var one = options
      one["host"] = hosts?[index]
      one["hostaddr"] = addresses?[index]
      one["port"] = ports.map { $0.count == 1 ? $0[0] : $0[index] }
      return PostgresHost(one)
    }
  }

  /// Begins to connect; the caller polls. Blocks while it resolves the host's name.
  /// - Returns: nil when memory ran out.
  func startConnecting() -> OpaquePointer? {
    let keywords = options.map { strdup($0.key) } + [nil]
    let values = options.map { strdup($0.value) } + [nil]
    defer { for text in keywords + values { free(text) } }
    return PQconnectStartParams(
      keywords.map { UnsafePointer($0) }, values.map { UnsafePointer($0) }, 0)
  }
}

// MARK: - The order of attempts

extension PostgresHost {
  /// The servers that a connection tries first.
  enum Search: Sendable, Equatable {
    /// The server that the store's other connections use.
    case known
    /// Any: each connection begins with another one, so that together they soon have tried all.
    case anywhere
    /// Any but this one, which takes no writes or fell silent: it comes last.
    case elsewhere(Place)
  }
}

extension [PostgresHost] {
  /// - Parameters:
  ///   - turn: the number of the host to begin with; it may be larger than there are hosts.
  ///   - known: the server that the store's other connections use.
  func ordered(for search: PostgresHost.Search, turn: Int, known: PostgresHost.Place?) -> [PostgresHost] {
    guard count > 1 else { return self }
    let first = turn % count
    let turned = Array(self[first...] + self[..<first])
    switch search {
    case .known: return turned.filter { $0.place == known } + turned.filter { $0.place != known }
    case .anywhere: return turned
    case .elsewhere(let place): return turned.filter { $0.place != place } + turned.filter { $0.place == place }
    }
  }
}
