// What changes of a peer while it stays one: what it may ask, what we do with it, whom we believe, how it fares.

import Foundation
import GRDB
package import RelayCore

extension EmbeddedStorage {
  package func setPeerURL(_ url: String, of name: RelayName) async throws(StoreError) -> Bool {
    try await changePeers("UPDATE peers SET url = ? WHERE name = ?", [url, name.text])
  }

  package func setPeerScopes(_ scopes: Set<Peer.Scope>, of name: RelayName) async throws(StoreError) -> Bool {
    try await changePeers("UPDATE peers SET scopes = ? WHERE name = ?", [scopes.column, name.text])
  }

  /// Where no copy is wanted any more, none is left. Without its mark the next one begins with the whole listing, and a
  /// pass that is under way is outrun, so that its end leaves no mark.
  package func setPeerPolicy(_ policy: PeerPolicy, of name: RelayName) async throws(StoreError) -> Bool {
    try await write { db in
      guard let former = try db.row("SELECT contacts_mode FROM peers WHERE name = ?", [name.text])?.text(0) else {
        return false
      }
      try db.run(
        """
        UPDATE peers SET holds_messages = ?1, contacts_mode = ?2, contacts_mark = iif(?2 = 'copy', contacts_mark, NULL),
          implicit = ?4,
          contacts_pass = iif(?2 = 'copy', contacts_pass, max(contacts_pass, contacts_begun) + 2)
        WHERE name = ?3
        """, [policy.holdsMessages, policy.contacts.rawValue, name.text, policy.routesImplicitly])
      // Whoever is asked goes on having what was remembered of it.
      if policy.contacts != .copy, policy.contacts.rawValue != former {
        try db.run("DELETE FROM contacts WHERE peer = ?", [name.text])
      }
      try db.raise(.peers)
      return true
    }
  }

  package func noteAttachmentMark(_ mark: AttachmentMark, of name: RelayName) async throws(StoreError) -> Bool {
    try await write { db in
      try db.run(
        "INSERT INTO attachment_marks (mark, peer) SELECT ?, name FROM peers WHERE name = ? ON CONFLICT (mark) DO NOTHING",
        [Int64(mark.value), name.text])
      guard db.changesCount > 0 else { return false }
      try db.run(
        """
        DELETE FROM attachment_marks WHERE peer = ?1 AND place NOT IN (
          SELECT place FROM attachment_marks WHERE peer = ?1 ORDER BY place DESC LIMIT ?2)
        """, [name.text, Int64(Peer.attachmentMarksMax)])
      try db.raise(.peers)
      return true
    }
  }

  package func setPeerTrust(
    _ trust: PeerTrust, caCertificate: [UInt8], replacing former: [UInt8], of name: RelayName
  ) async throws(StoreError) -> Bool {
    try await changePeers(
      """
      UPDATE peers SET ca_certificate = ?1, next_ca_certificate = ?2, revoked_serials = ?3, statement_sequence = ?4
      WHERE name = ?5 AND statement_sequence < ?4 AND ca_certificate = ?6
      """,
      [
        Data(caCertificate), trust.nextCACertificate.map { Data($0) }, SerialsText.encode(trust.revokedSerials),
        trust.sequence, name.text, Data(former),
      ])
  }

  /// Another fault does not make the peer's absence begin anew.
  package func setPeerCondition(_ condition: PeerCondition, of name: RelayName) async throws(StoreError) -> Bool {
    try await changePeers(
      """
      UPDATE peers SET fault = ?1, fault_since = iif(fault IS NULL OR ?1 IS NULL, ?2, fault_since)
      WHERE name = ?3 AND fault IS NOT ?1
      """, [condition.fault?.rawValue, condition.faultSince?.millis, name.text])
  }
}
