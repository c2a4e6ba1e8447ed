import Foundation
import GRDB
package import RelayCore

extension EmbeddedStorage {
  package func saveInvitation(_ invitation: Invitation) async throws(StoreError) {
    try await write { db in
      try db.run(
        "INSERT OR REPLACE INTO invitations (secret_hash, expires, scopes) VALUES (?, ?, ?)",
        [Data(invitation.secretHash), invitation.expires.millis, invitation.scopes.column])
    }
  }

  package func hasOpenInvitation(now: Timestamp) async throws(StoreError) -> Bool {
    try await read { db in
      try db.row("SELECT 1 FROM invitations WHERE expires > ? AND redeemed_by IS NULL LIMIT 1", [now.millis]) != nil
    }
  }

  package func invitations(now: Timestamp) async throws(StoreError) -> [IssuedInvitation] {
    try await read { db in
      try db.rows(
        """
        SELECT secret_hash, expires, scopes, redeemed_by FROM invitations WHERE expires > ?
        ORDER BY expires, secret_hash
        """, [now.millis]
      ).map {
        try IssuedInvitation(
          invitation: Invitation(secretHash: $0.bytes(0), expires: $0.time(1), scopes: Set(column: $0.text(2))),
          redeemedBy: $0.optionalBytes(3))
      }
    }
  }

  package func withdrawInvitation(secretHash: [UInt8]) async throws(StoreError) -> Bool {
    try await write { db in
      try db.run("DELETE FROM invitations WHERE secret_hash = ?", [Data(secretHash)])
      return db.changesCount == 1
    }
  }

  package func redeemableInvitation(
    secretHash: [UInt8], caFingerprint: [UInt8], now: Timestamp
  ) async throws(StoreError) -> Invitation? {
    try await read { db in
      let row = try db.row(
        """
        SELECT expires, scopes FROM invitations
        WHERE secret_hash = ? AND expires > ? AND (redeemed_by IS NULL OR redeemed_by = ?)
        """, [Data(secretHash), now.millis, Data(caFingerprint)])
      return try row.map {
        try Invitation(secretHash: secretHash, expires: $0.time(0), scopes: Set(column: $0.text(1)))
      }
    }
  }

  package func redeemInvitation(
    secretHash: [UInt8], caFingerprint: [UInt8], adding peer: Peer?, judgedAt revision: Int64, now: Timestamp
  ) async throws(StoreError) -> Redemption {
    try await write { db in
      guard try db.revision(.peers) == revision else { return .outdated }
      let holder = Data(caFingerprint)
      try db.run(
        """
        UPDATE invitations SET redeemed_by = ?
        WHERE secret_hash = ? AND expires > ? AND (redeemed_by IS NULL OR redeemed_by = ?)
        """, [holder, Data(secretHash), now.millis, holder])
      guard db.changesCount == 1 else { return .refused }
      if let peer {
        try db.run(Self.insertPeer, Self.columns(of: peer))
        try db.raise(.peers)
      }
      return .redeemed
    }
  }
}
