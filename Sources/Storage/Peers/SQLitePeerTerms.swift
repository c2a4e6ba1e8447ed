// Changes of a peer while it stays one: its scopes, our policy, its trust, its condition.

import GRDB
package import RelayCore

extension SQLiteStorage {
  package func setPeerURL(_ url: String, of name: RelayName) async throws(StoreError) -> Bool {
    try await changePeers("UPDATE peers SET url = \(url) WHERE name = \(name)")
  }

  package func setPeerScopes(_ scopes: Set<Peer.Scope>, of name: RelayName) async throws(StoreError) -> Bool {
    try await changePeers("UPDATE peers SET scopes = \(scopes.column) WHERE name = \(name)")
  }

  /// If no copy is wanted any more, none is left. Without its mark the next one begins with the whole listing. A pass
  /// that is under way is outrun, so that its end leaves no mark.
  package func changePeerPolicy(_ change: PeerPolicyChange, of name: RelayName) async throws(StoreError) -> Bool {
    try await write { db in
      guard let former = try db.row("SELECT contacts_mode FROM peers WHERE name = \(name)")?.text(0) else {
        return false
      }
      let contacts = change.contacts?.rawValue ?? former
      try db.run(
        """
        UPDATE peers SET \(PeerRecord.embeddedChange(change)),
          contacts_mark = iif(\(contacts) = 'copy', contacts_mark, NULL),
          contacts_pass = iif(\(contacts) = 'copy', contacts_pass, max(contacts_pass, contacts_begun) + 2)
        WHERE name = \(name)
        """)
      // A peer that is asked already keeps its remembered contacts.
      if contacts != PeerPolicy.Contacts.copy.rawValue, contacts != former {
        try db.run("DELETE FROM peer_contacts WHERE peer = \(name)")
      }
      try db.raise(.peers)
      return true
    }
  }

  package func noteAttachmentMark(_ mark: AttachmentMark, of name: RelayName) async throws(StoreError) -> Bool {
    try await write { db in
      try db.run(
        """
        INSERT INTO attachment_marks (mark, peer) SELECT \(Int64(mark.value)), name FROM peers WHERE name = \(name)
        ON CONFLICT (mark) DO NOTHING
        """)
      guard db.changesCount > 0 else { return false }
      try db.run(
        """
        DELETE FROM attachment_marks WHERE peer = \(name) AND place NOT IN (
          SELECT place FROM attachment_marks WHERE peer = \(name)
          ORDER BY place DESC LIMIT \(Int64(Peer.attachmentMarksMax)))
        """)
      try db.raise(.peers)
      return true
    }
  }

  package func setPeerTrust(
    _ trust: PeerTrust, caCertificate: [UInt8], replacing former: [UInt8], of name: RelayName
  ) async throws(StoreError) -> Bool {
    try await changePeers(
      """
      UPDATE peers SET ca_certificate = \(caCertificate), next_ca_certificate = \(trust.nextCACertificate),
        revoked_serials = \(SerialsText.encode(trust.revokedSerials)), statement_sequence = \(trust.sequence)
      WHERE name = \(name) AND statement_sequence < \(trust.sequence) AND ca_certificate = \(former)
      """)
  }

  /// Another fault does not make the peer's absence begin anew.
  package func setPeerCondition(_ condition: PeerCondition, of name: RelayName) async throws(StoreError) -> Bool {
    let fault = condition.fault?.rawValue
    return try await changePeers(
      """
      UPDATE peers SET fault = \(fault),
        fault_since = iif(fault IS NULL OR \(fault) IS NULL, \(condition.faultSince), fault_since)
      WHERE name = \(name) AND fault IS NOT \(fault)
      """)
  }
}
