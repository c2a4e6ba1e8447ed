import Synchronization

/// The server that the connections of one store use: all of them the same one.
///
/// Where a URL names several hosts, each connection looks for the server that takes writes. The first that finds it
/// tells the others: they give up attempts elsewhere, and leave any other server. So nobody goes on reading from a
/// former primary. Belongs to the reactor's thread, except for `place` and `layout`.
final class PostgresPrimary: @unchecked Sendable {
  private struct Member {
    weak var connection: PostgresConnection?
  }

  /// How the store lies there.
  let layout = KnownLayout()
  private let known = Mutex<PostgresHost.Place?>(nil)
  private var members: [Member] = []
  /// The newest that was met: no server behind it is used.
  private(set) var lineage: PostgresLineage?

  /// The server that was found last; nil before.
  var place: PostgresHost.Place? { known.withLock { $0 } }

  /// - Returns: the number of connections before it: its turn among the hosts.
  func join(_ connection: PostgresConnection) -> Int {
    members.removeAll { $0.connection == nil }
    members.append(Member(connection: connection))
    return members.count - 1
  }

  func leave(_ connection: PostgresConnection) {
    members.removeAll { $0.connection == nil || $0.connection === connection }
  }

  /// `connection` is served by a server at `place` that takes writes.
  /// - Parameter lineage: nil where it was not asked for, or not told.
  func found(
    at place: PostgresHost.Place, of lineage: PostgresLineage?, _ layout: PostgresLayout,
    by connection: PostgresConnection
  ) {
    self.layout.learn(layout)
    if let lineage { self.lineage = self.lineage?.followed(by: lineage) ?? lineage }
    let hasMoved = known.withLock { known in
      defer { known = place }
      return known != place
    }
    for other in others(than: connection) { other.follow(to: place, atOnce: hasMoved) }
  }

  /// The server at `place` has refused a write of `connection`: it takes none any more.
  func isReadOnly(at place: PostgresHost.Place, told connection: PostgresConnection) {
    for other in others(than: connection) { other.leave(place) }
  }

  private func others(than connection: PostgresConnection) -> [PostgresConnection] {
    members.compactMap(\.connection).filter { $0 !== connection }
  }
}
