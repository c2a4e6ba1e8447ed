package import RelayCore

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

  package func invitations(now: Timestamp) async throws(StoreError) -> [IssuedInvitation] {
    let result = try await read(
      .prepared(
        "invitations",
        """
        SELECT secret_hash, expires, scopes, redeemed_by FROM invitations WHERE expires > $1::bigint
        ORDER BY expires, secret_hash
        """), PostgresParameters { $0.add(bigint: now.millis) })
    var invitations: [IssuedInvitation] = []
    for index in result.rows {
      var row = result.cursor(row: index)
      let invitation = Invitation(
        secretHash: try row.bytes(), expires: try row.timestamp(), scopes: Set(column: try row.text()))
      invitations.append(IssuedInvitation(invitation: invitation, redeemedBy: row.optionalBytes()))
    }
    return invitations
  }

  package func withdrawInvitation(secretHash: [UInt8]) async throws(StoreError) -> Bool {
    let result = try await write(
      .prepared("withdraw_invitation", "DELETE FROM invitations WHERE secret_hash = $1::bytea"),
      PostgresParameters { $0.add(bytea: secretHash) })
    return result.affectedRows == 1
  }

  package func redeemableInvitation(
    secretHash: [UInt8], caFingerprint: [UInt8], now: Timestamp
  ) async throws(StoreError) -> Invitation? {
    let result = try await read(
      .prepared(
        "redeemable_invitation",
        """
        SELECT expires, scopes FROM invitations
        WHERE secret_hash = $1::bytea AND expires > $3::bigint
          AND (redeemed_by IS NULL OR redeemed_by = $2::bytea)
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

  /// Whoever changes a peer raises the revision in the same transaction, so that holding all of them off is enough for
  /// what was judged to hold until the commit. The lock comes first: who waits for it holds nothing.
  package func redeemInvitation(
    secretHash: [UInt8], caFingerprint: [UInt8], adding peer: Peer?, judgedAt revision: Int64, now: Timestamp
  ) async throws(StoreError) -> Redemption {
    let terms = PostgresParameters {
      $0.add(bytea: secretHash)
      $0.add(bytea: caFingerprint)
      $0.add(bigint: now.millis)
      $0.add(bigint: revision)
      if let peer { $0.add(peer: peer) }
    }
    // With the directory's long lists: a merge holds the lock that is waited for.
    let results =
      try await
      (peer == nil
      ? write([Self.useInvitation(terms)]) : writeBulk([Self.lockPeers, Self.useInvitationAdding(terms)]))
    guard let result = results.last, result.rowCount == 1 else { return .refused }
    var row = result.cursor(row: 0)
    let (isCurrent, isUsed) = (try row.boolean(), try row.boolean())
    return !isCurrent ? .outdated : isUsed ? .redeemed : .refused
  }

  private static let lockPeers = PostgresStep(
    .prepared("lock_peers", "DO $$ BEGIN LOCK TABLE peers IN SHARE ROW EXCLUSIVE MODE; END $$"))

  private static func useInvitation(_ terms: PostgresParameters) -> PostgresStep {
    PostgresStep(
      .prepared(
        "use_invitation",
        """
        WITH judged AS MATERIALIZED (SELECT value = $4::bigint AS current FROM revisions WHERE subject = 'peers'),
        used AS (
          UPDATE invitations SET redeemed_by = $2::bytea
          WHERE secret_hash = $1::bytea AND expires > $3::bigint
            AND (redeemed_by IS NULL OR redeemed_by = $2::bytea) AND (SELECT current FROM judged)
          RETURNING 1
        )
        SELECT (SELECT current FROM judged), EXISTS (SELECT FROM used)
        """), terms)
  }

  private static func useInvitationAdding(_ terms: PostgresParameters) -> PostgresStep {
    PostgresStep(
      .prepared(
        "use_invitation_adding",
        """
        WITH judged AS MATERIALIZED (SELECT value = $4::bigint AS current FROM revisions WHERE subject = 'peers'),
        used AS (
          UPDATE invitations SET redeemed_by = $2::bytea
          WHERE secret_hash = $1::bytea AND expires > $3::bigint
            AND (redeemed_by IS NULL OR redeemed_by = $2::bytea) AND (SELECT current FROM judged)
          RETURNING 1
        ),
        added AS (
          INSERT INTO peers (name, url, ca_certificate, state, scopes, added, holds_messages, contacts_mode,
            next_ca_certificate, revoked_serials, statement_sequence, fault, fault_since, implicit)
          SELECT $5::text, $6::text, $7::bytea, $8::text, $9::text, $10::bigint, $11::boolean, $12::text,
            $13::bytea, $14::bytea[], $15::bigint, $16::text, $17::bigint, $18::boolean
          FROM used
          RETURNING 1
        ),
        raised AS (
          UPDATE revisions SET value = value + 1 WHERE subject = 'peers' AND EXISTS (SELECT FROM added)
        )
        SELECT (SELECT current FROM judged), EXISTS (SELECT FROM used)
        """), terms)
  }
}
