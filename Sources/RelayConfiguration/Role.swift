/// A part of an operator's work, which a process has or leaves to others (docs/architecture.md, "Roles").
package enum Role: String, Sendable, CaseIterable {
  /// The client API and live sessions.
  case clients
  /// The listener for peers, and the work for them in the background.
  case peers
  /// Pushes of every kind, and the listeners of customers and homeservers who ask for some.
  case push
  /// The contact tokens in memory, and the look-ups in them.
  case directory
}

/// The roles of a process: one or more.
package struct Roles: Sendable, Equatable {
  /// A text that names no roles. Holds no part of it.
  package struct Fault: Error {
    /// Completes "expects ...".
    package let expected: String
  }

  package static let all = Roles(Set(Role.allCases))

  private let roles: Set<Role>

  private init(_ roles: Set<Role>) { self.roles = roles }

  /// - Parameter text: `all`, or names with commas between.
  package init(_ text: String) throws(Fault) {
    if text == "all" {
      self = .all
      return
    }
    let names = text.split(separator: ",", omittingEmptySubsequences: false).map {
      String($0.trimmingPrefix { $0 == " " })
    }
    let known = Role.allCases.map(\.rawValue)
    if let unknown = names.first(where: { !known.contains($0) }) {
      let near = Spelling.nearest(to: unknown, among: known).map { " (did you mean \($0)?)" } ?? ""
      throw Fault(expected: "`all`, or some of \(known.joined(separator: ", ")), comma-separated\(near)")
    }
    self.init(Set(names.compactMap(Role.init)))
  }

  package func has(_ role: Role) -> Bool { roles.contains(role) }

  /// In the order of `Role`.
  package var names: [String] { Role.allCases.filter(has).map(\.rawValue) }
  /// The roles that it leaves to others, in the order of `Role`.
  package var missing: [String] { Role.allCases.filter { !has($0) }.map(\.rawValue) }

  /// Whether the process takes messages in and hands out prekeys: from clients, or from peers.
  package var servesAccounts: Bool { has(.clients) || has(.peers) }
  /// Whether the process looks contacts up for clients by itself, or answers all of their API.
  fileprivate var canListenToClients: Bool { has(.clients) || has(.directory) }
}

extension RelayConfiguration {
  /// Whether the clients' listener is open: for all of the API, or for look-ups alone. A process with a part of the
  /// directory answers other processes instead.
  package var listensToClients: Bool { roles.canListenToClients && directory.partition == nil }
  /// Whether the process asks peers for something. Look-ups of clients do, for contacts that are not copied.
  package var asksPeers: Bool { roles.servesAccounts || listensToClients }
  /// Whether look-ups of clients are answered from parts that other processes hold.
  package var asksParts: Bool { roles.has(.clients) && !roles.has(.directory) && directory.parts != nil }
}

extension ValueType where Value == Roles {
  static let roles = ValueType(name: "names", isList: true) { text throws(Malformed) in
    do throws(Roles.Fault) {
      return try Roles(text)
    } catch {
      throw Malformed(error.expected)
    }
  }
}
