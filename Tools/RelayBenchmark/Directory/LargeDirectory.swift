import ChildProcesses
import Crypto
import Foundation
import RelayCore

/// An operator of its own with a directory of any size: it is a peer of beta's, and what beta seems to list stands in
/// its database.
///
/// To register that many accounts at beta would take hours. The relay that is started over them cannot tell: the
/// reading of beta's listing is behind it, and it follows what changes there.
struct LargeDirectory: Sendable {
  let home: RelayOperator
  /// The peer that has the contacts.
  let peer: RelayName
  private let servers: ServerGroup

  /// A directory without contacts, whose relay has read beta's listing and does not run any more. After a failure,
  /// the workshop ends the processes that were started.
  init(_ name: String, at servers: ServerGroup) async throws {
    guard let peer = RelayName(servers.beta.name) else { throw BenchmarkFailure("a name of the benchmark is none") }
    self.servers = servers
    self.peer = peer
    home = try await servers.addOperator(name, settings: ["RELAY_FEDERATION_CONTACTS_MAX": "100000000"])
    let process = try await home.start()
    try await servers.peer(servers.beta, with: home)
    try await followed()
    await process.stop()
  }

  /// Waits until beta's listing was read once: it is not read whole again for a day, and removes no more then.
  private func followed() async throws {
    let deadline = ContinuousClock.now + .seconds(60)
    while true {
      let isFollowed = try await servers.postgres.with(home.database) { database in
        try database.integer("SELECT count(*) FROM peers WHERE convert_from(contacts_mark, 'UTF8') LIKE 'feed %'")
      }
      if isFollowed == 1 { return }
      guard ContinuousClock.now < deadline else { throw BenchmarkFailure("\(home.name) does not follow its peer") }
      try await Task.sleep(for: .milliseconds(100))
    }
  }

  /// Adds the contacts `present`..<`count`. Nothing of the operator runs meanwhile.
  func fill(from present: Int = 0, to count: Int) async throws {
    let (peer, database) = (peer.text, home.database)
    try await Cancellation.watch { cancellation in
      try await servers.postgres.with(database) { database in
        // Triggers are for what changes under a running relay. Only here the disk is not waited for.
        try database.execute("SET session_replication_role = replica")
        try database.execute("SET synchronous_commit = off")
        let before = try database.integer("SELECT count(*) FROM peer_contacts")
        var first = present
        while first < count {
          try cancellation.check()
          let end = min(count, (first / Contacts.batch + 1) * Contacts.batch)
          try database.execute(Contacts.insertion(first..<end, of: peer))
          first = end
        }
        try cancellation.check()
        try database.execute("VACUUM (ANALYZE) peer_contacts")
        // Writes the count that a trigger would have kept.
        try database.execute(
          """
          UPDATE contact_counts AS k SET revision = k.revision + 1,
            contacts = (SELECT count(*) FROM peer_contacts AS c WHERE c.peer = k.peer)
          """)
        let added = try database.integer("SELECT count(*) FROM peer_contacts") - before
        guard added == count - present else {
          throw BenchmarkFailure("\(added) contacts were added, not \(count - present)")
        }
      }
    }
    try await servers.postgres.settle()
    // It knows nothing of what was added past the feed.
    try removeSnapshot()
  }

  /// Has the next process read the directory from the database.
  func removeSnapshot() throws {
    if FileManager.default.fileExists(atPath: home.snapshot) {
      try FileManager.default.removeItem(atPath: home.snapshot)
    }
  }

  /// Starts a process of the operator over `entries` contacts and waits until it can serve.
  func serve(as title: String, at ports: RelayOperator.Ports, entries: Int) async throws -> ChildProcess {
    // 20,000 entries a second would be very slow.
    try await home.serve(as: title, at: ports, within: .seconds(30) + .microseconds(50) * entries)
  }
}

/// Contacts that are as good as random, each known by its number: made by the database, and again by who asks for them.
enum Contacts {
  /// A batch goes through all tokens once, in order, so that an index takes it quickly: 32 bits from the place in the
  /// batch, 48 from a hash.
  static let batch = 1 << 19
  private static let placeShift = 13

  static func token(_ number: Int) -> ContactToken {
    let place = UInt64(number % batch) << UInt64(placeShift)
    let hash = Array(Insecure.MD5.hash(data: Array("\(number)".utf8)).prefix(6))
    let high = hash.prefix(4).reduce(place) { $0 << 8 | UInt64($1) }
    return ContactToken(high: high, low: UInt16(hash[4]) << 8 | UInt16(hash[5]))
  }

  static func insertion(_ numbers: Range<Int>, of peer: String) -> String {
    """
    INSERT INTO peer_contacts (peer, token, supports_sms, voice, pass)
    SELECT p.name,
      decode(lpad(to_hex((n % \(batch))::bigint << \(placeShift)), 8, '0') || left(md5(n::text), 12), 'hex'), false, false,
      p.contacts_pass
    FROM generate_series(\(numbers.lowerBound), \(numbers.upperBound - 1)) AS n, peers AS p
    WHERE p.name = '\(peer)'
    """
  }
}
