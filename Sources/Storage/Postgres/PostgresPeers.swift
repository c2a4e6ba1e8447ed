package import RelayCore

// Each change of a peer raises the revision in its own transaction, so that no process sees the one without the other.

extension PostgresStorage {
  package func peers() async throws(StoreError) -> [Peer] {
    let result = try await read(
      .prepared(
        "peers",
        """
        SELECT name, url, ca_certificate, state, scopes, added, holds_messages, contacts_mode, next_ca_certificate,
          (
            SELECT coalesce(string_agg(encode(serial, 'hex'), ' ' ORDER BY place), '')
            FROM unnest(revoked_serials) WITH ORDINALITY AS r (serial, place)
          ), statement_sequence, fault, fault_since
        FROM peers ORDER BY name
        """))
    var peers: [Peer] = []
    for index in result.rows {
      var row = result.cursor(row: index)
      peers.append(try Self.peer(&row))
    }
    return peers
  }

  private static func peer(_ row: inout PostgresRow) throws(StoreError) -> Peer {
    Peer(
      name: try row.relayName(), url: try row.text(), caCertificate: try row.bytes(),
      state: try row.required(Peer.State(rawValue: row.text())), scopes: Set(column: try row.text()),
      added: try row.timestamp(),
      policy: PeerPolicy(holdsMessages: try row.boolean(), contacts: PeerPolicy.Contacts(column: try row.text())),
      trust: PeerTrust(
        nextCACertificate: row.optionalBytes(), revokedSerials: try row.required(SerialsText.decode(row.text())),
        sequence: try row.bigint()),
      condition: PeerCondition(fault: row.optionalText(), since: try row.optionalTimestamp()))
  }

  package func peersRevision() async throws(StoreError) -> Int64 { try await revision(of: "peers") }

  package func savePeer(_ peer: Peer) async throws(StoreError) -> Bool {
    let result = try await write(
      .prepared(
        "save_peer",
        """
        WITH saved AS (
          INSERT INTO peers AS known (name, url, ca_certificate, state, scopes, added, holds_messages, contacts_mode,
            next_ca_certificate, revoked_serials, statement_sequence, fault, fault_since)
          VALUES ($1::text, $2::text, $3::bytea, $4::text, $5::text, $6::bigint, $7::boolean, $8::text,
            $9::bytea, $10::bytea[], $11::bigint, $12::text, $13::bigint)
          ON CONFLICT (name) DO UPDATE SET url = excluded.url, state = excluded.state, scopes = excluded.scopes,
            added = excluded.added
          WHERE known.ca_certificate = excluded.ca_certificate
          RETURNING 1
        )
        UPDATE revisions SET value = value + 1 WHERE subject = 'peers' AND EXISTS (SELECT FROM saved)
        """),
      PostgresParameters {
        $0.add(text: peer.name.text)
        $0.add(text: peer.url)
        $0.add(bytea: peer.caCertificate)
        $0.add(text: peer.state.rawValue)
        $0.add(text: peer.scopes.column)
        $0.add(bigint: peer.added.millis)
        $0.add(boolean: peer.policy.holdsMessages)
        $0.add(text: peer.policy.contacts.rawValue)
        $0.add(trust: peer.trust)
        $0.add(text: peer.condition.fault?.rawValue)
        $0.add(bigint: peer.condition.faultSince?.millis)
      })
    return result.affectedRows == 1
  }

  package func setPeerState(_ state: Peer.State, of name: RelayName) async throws(StoreError) -> Bool {
    var steps = [
      PostgresStep(
        .prepared(
          "set_peer_state",
          """
          WITH changed AS (UPDATE peers SET state = $2::text WHERE name = $1::text RETURNING 1)
          UPDATE revisions SET value = value + 1 WHERE subject = 'peers' AND EXISTS (SELECT FROM changed)
          """),
        PostgresParameters {
          $0.add(text: name.text)
          $0.add(text: state.rawValue)
        })
    ]
    if state == .suspended { steps.append(Self.forgetUsedInvitations) }
    return try await write(steps).first?.affectedRows == 1
  }

  /// The peer is suspended first: from then on its contacts are unknown, however long it takes to remove them, and
  /// nothing more is held for it. Stopped half way, it stands in the list as suspended and can be removed again. Each
  /// step sees what was committed before it: a merge under way holds the peer's row, as does whoever holds a message for
  /// it, and what they leave is found once that row is gone.
  package func removePeer(_ name: RelayName) async throws(StoreError) -> PeerRemoval {
    guard try await setPeerState(.suspended, of: name) else { return .unknown }
    let peer = PostgresParameters { $0.add(text: name.text) }
    // Waits for those who began to hold a message before.
    let lock = PostgresStep(
      .prepared("remove_peer_lock", "SELECT 1 FROM peers WHERE name = $1::text FOR UPDATE"), peer)
    let held = try await write([
      lock,
      PostgresStep(.prepared("remove_peer_held", "SELECT 1 FROM outbox WHERE peer = $1::text LIMIT 1"), peer),
    ])
    guard held.last?.rowCount == 0 else { return .messagesWait }
    try await removeContacts(of: name, before: .max)
    try await removeConfirmed(of: name)
    let results = try await write([
      lock,
      // Again, since the peer may have been resumed meanwhile; what follows finds the peer gone or does nothing.
      PostgresStep(
        .prepared(
          "remove_peer",
          """
          WITH removed AS (
            DELETE FROM peers WHERE name = $1::text AND NOT EXISTS (SELECT FROM outbox WHERE peer = $1::text)
            RETURNING 1
          )
          UPDATE revisions SET value = value + 1 WHERE subject = 'peers' AND EXISTS (SELECT FROM removed)
          """), peer),
      PostgresStep(
        .prepared(
          "remove_peer_contacts",
          "DELETE FROM peer_contacts WHERE peer = $1::text AND NOT EXISTS (SELECT FROM peers WHERE name = $1::text)"),
        peer),
      PostgresStep(
        .prepared(
          "remove_peer_charge",
          "DELETE FROM outbox_charges WHERE peer = $1::text AND NOT EXISTS (SELECT FROM peers WHERE name = $1::text)"),
        peer),
      PostgresStep(
        .prepared(
          "remove_peer_confirmed",
          "DELETE FROM confirmed_devices WHERE peer = $1::text AND NOT EXISTS (SELECT FROM peers WHERE name = $1::text)"
        ), peer),
      Self.forgetUsedInvitations,
    ])
    guard results.first?.rowCount == 1 else { return .unknown }
    return results[1].affectedRows == 1 ? .removed : .messagesWait
  }

  /// Whose invitation was used is known by its CA only: all used ones go, and nobody comes back by repeating one.
  private static let forgetUsedInvitations = PostgresStep(
    .prepared("forget_used_invitations", "DELETE FROM invitations WHERE redeemed_by IS NOT NULL"))
}

// MARK: - Invitations

extension PostgresStorage {
  package func saveInvitation(_ invitation: Invitation) async throws(StoreError) {
    _ = try await write(
      .prepared(
        "save_invitation",
        """
        INSERT INTO invitations (secret_hash, expires, scopes) VALUES ($1::bytea, $2::bigint, $3::text)
        ON CONFLICT (secret_hash) DO UPDATE SET expires = excluded.expires, scopes = excluded.scopes,
          redeemed_by = NULL
        """),
      PostgresParameters {
        $0.add(bytea: invitation.secretHash)
        $0.add(bigint: invitation.expires.millis)
        $0.add(text: invitation.scopes.column)
      })
  }

  package func hasOpenInvitation(now: Timestamp) async throws(StoreError) -> Bool {
    let result = try await read(
      .prepared(
        "has_open_invitation",
        "SELECT 1 FROM invitations WHERE expires > $1::bigint AND redeemed_by IS NULL LIMIT 1"),
      PostgresParameters { $0.add(bigint: now.millis) })
    return result.rowCount > 0
  }

  package func isRedeemable(
    secretHash: [UInt8], caFingerprint: [UInt8], now: Timestamp
  ) async throws(StoreError) -> Bool {
    let result = try await read(
      .prepared(
        "is_redeemable",
        """
        SELECT 1 FROM invitations
        WHERE secret_hash = $1::bytea AND expires > $3::bigint
          AND (redeemed_by IS NULL OR redeemed_by = $2::bytea)
        """),
      PostgresParameters {
        $0.add(bytea: secretHash)
        $0.add(bytea: caFingerprint)
        $0.add(bigint: now.millis)
      })
    return result.rowCount > 0
  }

  package func redeemInvitation(
    secretHash: [UInt8], caFingerprint: [UInt8], now: Timestamp
  ) async throws(StoreError) -> Invitation? {
    let result = try await write(
      .prepared(
        "redeem_invitation",
        """
        UPDATE invitations SET redeemed_by = $2::bytea
        WHERE secret_hash = $1::bytea AND expires > $3::bigint
          AND (redeemed_by IS NULL OR redeemed_by = $2::bytea)
        RETURNING expires, scopes
        """),
      PostgresParameters {
        $0.add(bytea: secretHash)
        $0.add(bytea: caFingerprint)
        $0.add(bigint: now.millis)
      })
    guard result.rowCount == 1 else { return nil }
    var row = result.cursor(row: 0)
    return Invitation(secretHash: secretHash, expires: try row.timestamp(), scopes: Set(column: try row.text()))
  }
}
