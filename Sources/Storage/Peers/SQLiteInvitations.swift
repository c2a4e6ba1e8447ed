import GRDB
package import RelayCore

extension SQLiteStorage {
  package func saveInvitation(_ invitation: Invitation) async throws(StoreError) {
    try await write { db in
      try db.run(
        """
        INSERT OR REPLACE INTO invitations (secret_hash, expires, scopes)
        VALUES (\(invitation.secretHash), \(invitation.expires), \(invitation.scopes.column))
        """)
    }
  }

  package func hasOpenInvitation(now: Timestamp) async throws(StoreError) -> Bool {
    try await read { db in
      try db.row("SELECT 1 FROM invitations WHERE expires > \(now) AND redeemed_by IS NULL LIMIT 1") != nil
    }
  }

  package func invitations(now: Timestamp) async throws(StoreError) -> [IssuedInvitation] {
    try await read { db in
      try db.rows(
        """
        SELECT secret_hash, expires, scopes, redeemed_by FROM invitations WHERE expires > \(now)
        ORDER BY expires, secret_hash
        """
      ).map(IssuedInvitation.init(row:))
    }
  }

  package func withdrawInvitation(secretHash: [UInt8]) async throws(StoreError) -> Bool {
    try await write { db in
      try db.run("DELETE FROM invitations WHERE secret_hash = \(secretHash)")
      return db.changesCount == 1
    }
  }

  package func redeemableInvitation(
    secretHash: [UInt8], caFingerprint: [UInt8], now: Timestamp
  ) async throws(StoreError) -> Invitation? {
    try await read { db in
      let row = try db.row(
        """
        SELECT secret_hash, expires, scopes FROM invitations
        WHERE secret_hash = \(secretHash) AND expires > \(now)
          AND (redeemed_by IS NULL OR redeemed_by = \(caFingerprint))
        """)
      return try row.map(Invitation.init(row:))
    }
  }

  package func redeemInvitation(
    secretHash: [UInt8], caFingerprint: [UInt8], adding peer: Peer?, judgedAt revision: Int64, now: Timestamp
  ) async throws(StoreError) -> Redemption {
    try await write { db in
      guard try db.revision(.peers) == revision else { return .outdated }
      try db.run(
        """
        UPDATE invitations SET redeemed_by = \(caFingerprint)
        WHERE secret_hash = \(secretHash) AND expires > \(now)
          AND (redeemed_by IS NULL OR redeemed_by = \(caFingerprint))
        """)
      guard db.changesCount == 1 else { return .refused }
      if let peer {
        try db.run(PeerRecord.insert(peer))
        try db.raise(.peers)
      }
      return .redeemed
    }
  }
}

extension IssuedInvitation {
  fileprivate init(row: Fields) throws(StoreError) {
    self.init(invitation: try Invitation(row: row), redeemedBy: row.optionalBytes(3))
  }
}

extension Invitation {
  fileprivate init(row: Fields) throws(StoreError) {
    self.init(secretHash: try row.bytes(0), expires: try row.time(1), scopes: Set(column: try row.text(2)))
  }
}
