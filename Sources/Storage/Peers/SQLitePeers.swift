import GRDB
package import RelayCore

extension SQLiteStorage {
  package func peers() async throws(StoreError) -> [Peer] {
    try await read { db in
      try db.rows(
        """
        SELECT \(PeerRecord.embedded) FROM peers ORDER BY name
        """
      ).map(Peer.init(row:))
    }
  }

  package func peersRevision() async throws(StoreError) -> Int64 {
    try await read { db in try db.revision(.peers) }
  }

  package func savePeer(_ peer: Peer) async throws(StoreError) -> Bool {
    try await write { db in
      let known = try db.row("SELECT ca_certificate FROM peers WHERE name = \(peer.name)")
      if let known, try known.bytes(0) != peer.caCertificate { return false }
      try db.run(
        """
        \(PeerRecord.insert(peer))
        ON CONFLICT (name) DO UPDATE SET url = excluded.url, state = excluded.state, scopes = excluded.scopes,
          added = excluded.added, suspension_reason = NULL, suspended_until = NULL
        """)
      try db.raise(.peers)
      return true
    }
  }

  package func setPeerState(
    _ state: Peer.State, of name: RelayName, _ suspension: PeerSuspension?
  ) async throws(StoreError) -> Bool {
    try await changePeers(
      """
      UPDATE peers SET state = \(state.rawValue), suspension_reason = \(suspension?.reason),
        suspended_until = \(suspension?.until)
      WHERE name = \(name)
      """,
      forgettingInvitations: state == .suspended)
  }

  package func resumePeers(endedBy now: Timestamp) async throws(StoreError) -> [RelayName] {
    try await write { db in
      let names = try db.rows(
        "SELECT name FROM peers WHERE state = 'suspended' AND suspended_until <= \(now) ORDER BY name"
      ).map { try $0.relay(0) }
      guard !names.isEmpty else { return [] }
      try db.run(
        """
        UPDATE peers SET state = 'active', suspension_reason = NULL, suspended_until = NULL
        WHERE state = 'suspended' AND suspended_until <= \(now)
        """)
      try db.raise(.peers)
      return names
    }
  }

  /// The peer's contacts and what it confirmed go with it, by their foreign keys.
  package func removePeer(_ name: RelayName) async throws(StoreError) -> PeerRemoval {
    guard try await setPeerState(.suspended, of: name) else { return .unknown }
    return try await write { db in
      if try db.row("SELECT 1 FROM outbox WHERE peer = \(name) LIMIT 1") != nil { return .messagesWait }
      try db.run("DELETE FROM peers WHERE name = \(name)")
      guard db.changesCount > 0 else { return .unknown }
      try db.run("DELETE FROM invitations WHERE redeemed_by IS NOT NULL")
      try db.raise(.peers)
      return .removed
    }
  }

  /// A peer that used an invitation is known by its CA only. So all used invitations go, and no peer comes back by
  /// repeating one.
  /// - Returns: false when there is no such peer.
  func changePeers(
    _ change: SQL, forgettingInvitations: Bool = false
  ) async throws(StoreError) -> Bool {
    try await write { db in
      try db.run(change)
      let isKnown = db.changesCount > 0
      if forgettingInvitations { try db.run("DELETE FROM invitations WHERE redeemed_by IS NOT NULL") }
      if isKnown { try db.raise(.peers) }
      return isKnown
    }
  }
}
