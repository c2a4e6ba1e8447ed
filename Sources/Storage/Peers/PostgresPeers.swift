package import RelayCore

// Each change of a peer raises the revision in its own transaction, so that no process sees the one without the other.

extension PostgresStorage {
  package func peers() async throws(StoreError) -> [Peer] {
    let result = try await read(
      "peers",
      """
      SELECT \(PeerRecord.postgres) FROM peers ORDER BY name
      """)
    return try result.all(Peer.init(row:))
  }

  package func peersRevision() async throws(StoreError) -> Int64 { try await revision(of: "peers") }

  package func savePeer(_ peer: Peer) async throws(StoreError) -> Bool {
    let result = try await write(
      "save_peer",
      """
      WITH saved AS (
        \(PeerRecord.insert(peer))
        ON CONFLICT (name) DO UPDATE SET url = excluded.url, state = excluded.state, scopes = excluded.scopes,
          added = excluded.added, suspension_reason = NULL, suspended_until = NULL
        WHERE known.ca_certificate = excluded.ca_certificate
        RETURNING 1
      )
      UPDATE revisions SET value = value + 1 WHERE subject = 'peers' AND EXISTS (SELECT FROM saved)
      """)
    return result.affectedRows == 1
  }

  package func setPeerState(
    _ state: Peer.State, of name: RelayName, _ suspension: PeerSuspension?
  ) async throws(StoreError) -> Bool {
    var steps = [
      PostgresStep(
        "set_peer_state",
        """
        WITH changed AS (
          UPDATE peers SET state = \(state.rawValue), suspension_reason = \(suspension?.reason),
            suspended_until = \(suspension?.until)
          WHERE name = \(name) RETURNING 1
        )
        UPDATE revisions SET value = value + 1 WHERE subject = 'peers' AND EXISTS (SELECT FROM changed)
        """)
    ]
    if state == .suspended { steps.append(Self.forgetUsedInvitations) }
    return try await write(steps).first?.affectedRows == 1
  }

  package func resumePeers(endedBy now: Timestamp) async throws(StoreError) -> [RelayName] {
    let result = try await write(
      "resume_peers",
      """
      WITH resumed AS (
        UPDATE peers SET state = 'active', suspension_reason = NULL, suspended_until = NULL
        WHERE state = 'suspended' AND suspended_until <= \(now) RETURNING name
      ),
      raised AS (
        UPDATE revisions SET value = value + 1 WHERE subject = 'peers' AND EXISTS (SELECT FROM resumed)
      )
      SELECT name FROM resumed ORDER BY name
      """)
    return try result.all { (row) throws(StoreError) in try row.relayName() }
  }

  /// The peer is suspended first: from then on its contacts are unknown, however long it takes to remove them, and
  /// nothing more is held for it. Stopped half way, it stands in the list as suspended and can be removed again. Each
  /// step sees what was committed before it: a merge under way holds the peer's row, as does whoever holds a message
  /// for it, and what they leave is found once that row is gone.
  package func removePeer(_ name: RelayName) async throws(StoreError) -> PeerRemoval {
    guard try await setPeerState(.suspended, of: name) else { return .unknown }
    let peer = PostgresParameter(name)
    // Waits for those who began to hold a message before.
    let lock = PostgresStep(
      "remove_peer_lock", "SELECT 1 FROM peers WHERE name = \(peer) FOR UPDATE")
    let held = try await write([
      lock,
      PostgresStep("remove_peer_held", "SELECT 1 FROM outbox WHERE peer = \(peer) LIMIT 1"),
    ])
    guard held.last?.rowCount == 0 else { return .messagesWait }
    try await removeContacts(of: name)
    try await removeConfirmed(of: name)
    let results = try await write([
      lock,
      // Again, since the peer may have been resumed meanwhile; what follows finds the peer gone or does nothing.
      PostgresStep(
        "remove_peer",
        """
        WITH removed AS (
          DELETE FROM peers WHERE name = \(peer) AND NOT EXISTS (SELECT FROM outbox WHERE peer = \(peer))
          RETURNING 1
        )
        UPDATE revisions SET value = value + 1 WHERE subject = 'peers' AND EXISTS (SELECT FROM removed)
        """),
      PostgresStep(
        "remove_peer_contacts",
        "DELETE FROM peer_contacts WHERE peer = \(peer) AND NOT EXISTS (SELECT FROM peers WHERE name = \(peer))"),
      PostgresStep(
        "remove_peer_charge",
        "DELETE FROM outbox_charges WHERE peer = \(peer) AND NOT EXISTS (SELECT FROM peers WHERE name = \(peer))"),
      PostgresStep(
        "remove_peer_confirmed",
        "DELETE FROM confirmed_devices WHERE peer = \(peer) AND NOT EXISTS (SELECT FROM peers WHERE name = \(peer))"),
      Self.forgetUsedInvitations,
    ])
    guard results.first?.rowCount == 1 else { return .unknown }
    return results[1].affectedRows == 1 ? .removed : .messagesWait
  }

  /// A peer that used an invitation is known by its CA only. So all used invitations go, and no peer comes back by
  /// repeating one.
  private static let forgetUsedInvitations = PostgresStep(
    "forget_used_invitations", "DELETE FROM invitations WHERE redeemed_by IS NOT NULL")
}
