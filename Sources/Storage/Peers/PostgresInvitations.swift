package import RelayCore

extension PostgresStorage {
  package func saveInvitation(_ invitation: Invitation) async throws(StoreError) {
    _ = try await write(
      "save_invitation",
      """
      INSERT INTO invitations (secret_hash, expires, scopes)
      VALUES (\(invitation.secretHash), \(invitation.expires), \(invitation.scopes.column))
      ON CONFLICT (secret_hash) DO UPDATE SET expires = excluded.expires, scopes = excluded.scopes,
        redeemed_by = NULL
      """)
  }

  package func hasOpenInvitation(now: Timestamp) async throws(StoreError) -> Bool {
    let result = try await read(
      "has_open_invitation", "SELECT 1 FROM invitations WHERE expires > \(now) AND redeemed_by IS NULL LIMIT 1")
    return result.rowCount > 0
  }

  package func invitations(now: Timestamp) async throws(StoreError) -> [IssuedInvitation] {
    let result = try await read(
      "invitations",
      """
      SELECT secret_hash, expires, scopes, redeemed_by FROM invitations WHERE expires > \(now)
      ORDER BY expires, secret_hash
      """)
    return try result.all(IssuedInvitation.init(row:))
  }

  package func withdrawInvitation(secretHash: [UInt8]) async throws(StoreError) -> Bool {
    let result = try await write(
      "withdraw_invitation", "DELETE FROM invitations WHERE secret_hash = \(secretHash)")
    return result.affectedRows == 1
  }

  package func redeemableInvitation(
    secretHash: [UInt8], caFingerprint: [UInt8], now: Timestamp
  ) async throws(StoreError) -> Invitation? {
    let result = try await read(
      "redeemable_invitation",
      """
      SELECT secret_hash, expires, scopes FROM invitations
      WHERE secret_hash = \(secretHash) AND expires > \(now)
        AND (redeemed_by IS NULL OR redeemed_by = \(caFingerprint))
      """)
    return try result.first(Invitation.init(row:))
  }

  /// Each change of a peer raises the revision in the same transaction. So holding all of them off keeps the
  /// judgement valid until the commit. The lock comes first: a transaction that waits for it holds nothing.
  package func redeemInvitation(
    secretHash: [UInt8], caFingerprint: [UInt8], adding peer: Peer?, judgedAt revision: Int64, now: Timestamp
  ) async throws(StoreError) -> Redemption {
    // With the directory's long lists: a merge holds the lock that is waited for.
    let results =
      if let peer {
        try await writeBulk([
          Self.lockPeers, Self.useInvitation(secretHash, by: caFingerprint, adding: peer, at: revision, now),
        ])
      } else {
        try await write([Self.useInvitation(secretHash, by: caFingerprint, at: revision, now)])
      }
    guard let result = results.last, result.rowCount == 1 else { return .refused }
    var row = result.cursor(row: 0)
    let (isCurrent, isUsed) = (try row.boolean(), try row.boolean())
    return !isCurrent ? .outdated : isUsed ? .redeemed : .refused
  }

  private static let lockPeers = PostgresStep(
    "lock_peers", "DO $$ BEGIN LOCK TABLE peers IN SHARE ROW EXCLUSIVE MODE; END $$")

  private static func useInvitation(
    _ secretHash: [UInt8], by caFingerprint: [UInt8], at revision: Int64, _ now: Timestamp
  ) -> PostgresStep {
    let holder = PostgresParameter(caFingerprint)
    return PostgresStep(
      "use_invitation",
      """
      WITH judged AS MATERIALIZED (SELECT value = \(revision) AS current FROM revisions WHERE subject = 'peers'),
      used AS (
        UPDATE invitations SET redeemed_by = \(holder)
        WHERE secret_hash = \(secretHash) AND expires > \(now)
          AND (redeemed_by IS NULL OR redeemed_by = \(holder)) AND (SELECT current FROM judged)
        RETURNING 1
      )
      SELECT (SELECT current FROM judged), EXISTS (SELECT FROM used)
      """)
  }

  private static func useInvitation(
    _ secretHash: [UInt8], by caFingerprint: [UInt8], adding peer: Peer, at revision: Int64, _ now: Timestamp
  ) -> PostgresStep {
    let holder = PostgresParameter(caFingerprint)
    return PostgresStep(
      "use_invitation_adding",
      """
      WITH judged AS MATERIALIZED (SELECT value = \(revision) AS current FROM revisions WHERE subject = 'peers'),
      used AS (
        UPDATE invitations SET redeemed_by = \(holder)
        WHERE secret_hash = \(secretHash) AND expires > \(now)
          AND (redeemed_by IS NULL OR redeemed_by = \(holder)) AND (SELECT current FROM judged)
        RETURNING 1
      ),
      added AS (
        \(PeerRecord.insert(peer)) FROM used
        RETURNING 1
      ),
      raised AS (
        UPDATE revisions SET value = value + 1 WHERE subject = 'peers' AND EXISTS (SELECT FROM added)
      )
      SELECT (SELECT current FROM judged), EXISTS (SELECT FROM used)
      """)
  }
}

extension Invitation {
  fileprivate init(row: inout PostgresRow) throws(StoreError) {
    self.init(secretHash: try row.bytes(), expires: try row.timestamp(), scopes: Set(column: try row.text()))
  }
}

extension IssuedInvitation {
  fileprivate init(row: inout PostgresRow) throws(StoreError) {
    self.init(invitation: try Invitation(row: &row), redeemedBy: row.optionalBytes())
  }
}
