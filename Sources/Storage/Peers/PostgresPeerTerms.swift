// Changes of a peer while it stays one: its scopes, our policy, its trust, its condition. Each change raises the
// revision of the peers in its own statement, as in PostgresPeers.

package import RelayCore

extension PostgresStorage {
  package func setPeerURL(_ url: String, of name: RelayName) async throws(StoreError) -> Bool {
    let result = try await write(
      "set_peer_url",
      """
      WITH changed AS (UPDATE peers SET url = \(url) WHERE name = \(name) RETURNING 1)
      UPDATE revisions SET value = value + 1 WHERE subject = 'peers' AND EXISTS (SELECT FROM changed)
      """)
    return result.affectedRows == 1
  }

  package func setPeerScopes(_ scopes: Set<Peer.Scope>, of name: RelayName) async throws(StoreError) -> Bool {
    let result = try await write(
      "set_peer_scopes",
      """
      WITH changed AS (UPDATE peers SET scopes = \(scopes.column) WHERE name = \(name) RETURNING 1)
      UPDATE revisions SET value = value + 1 WHERE subject = 'peers' AND EXISTS (SELECT FROM changed)
      """)
    return result.affectedRows == 1
  }

  /// If no copy is wanted any more, none is found from the commit on. A merge under way holds the peer's row until
  /// its own commit; then it is gone too. Without its mark the next copy begins with the whole listing. A pass that
  /// is under way is outrun, so that its end leaves no mark.
  package func changePeerPolicy(_ change: PeerPolicyChange, of name: RelayName) async throws(StoreError) -> Bool {
    let peer = PostgresParameter(name)
    let contacts = PostgresParameter(change.contacts?.rawValue)
    let result = try await write(
      "change_peer_policy",
      """
      WITH former AS MATERIALIZED (
        SELECT contacts_mode FROM peers WHERE name = \(peer) FOR NO KEY UPDATE
      ), changed AS (
        UPDATE peers SET \(PeerRecord.postgresChange(change)),
          contacts_mark = CASE WHEN coalesce(\(contacts), contacts_mode) = 'copy' THEN contacts_mark END,
          contacts_pass = CASE WHEN coalesce(\(contacts), contacts_mode) = 'copy' THEN contacts_pass
            ELSE greatest(contacts_pass, contacts_begun) + 2 END
        WHERE name = \(peer) AND EXISTS (SELECT FROM former) RETURNING 1
      )
      UPDATE revisions SET value = value + 1 WHERE subject = 'peers' AND EXISTS (SELECT FROM changed)
      RETURNING (SELECT contacts_mode FROM former)
      """)
    let former = try result.first { (row) throws(StoreError) in PeerPolicy.Contacts(column: try row.text()) }
    guard let former else { return false }
    // A peer that is asked already keeps its remembered contacts.
    if let contacts = change.contacts, contacts != .copy, contacts != former { try await removeContacts(of: name) }
    return true
  }

  package func noteAttachmentMark(_ mark: AttachmentMark, of name: RelayName) async throws(StoreError) -> Bool {
    // The removal sees the marks from before the insertion, so it keeps one less than may stay.
    let name = PostgresParameter(name)
    let result = try await write(
      "note_attachment_mark",
      """
      WITH added AS (
        INSERT INTO attachment_marks (mark, peer)
        SELECT \(Int32(mark.value)), name FROM peers WHERE name = \(name) FOR KEY SHARE
        ON CONFLICT (mark) DO NOTHING RETURNING 1
      ), removed AS (
        DELETE FROM attachment_marks WHERE peer = \(name) AND EXISTS (SELECT FROM added) AND place NOT IN (
          SELECT place FROM attachment_marks WHERE peer = \(name)
          ORDER BY place DESC LIMIT \(Int64(Peer.attachmentMarksMax)) - 1)
      )
      UPDATE revisions SET value = value + 1 WHERE subject = 'peers' AND EXISTS (SELECT FROM added)
      """)
    return result.affectedRows == 1
  }

  package func setPeerTrust(
    _ trust: PeerTrust, caCertificate: [UInt8], replacing former: [UInt8], of name: RelayName
  ) async throws(StoreError) -> Bool {
    let sequence = PostgresParameter(trust.sequence)
    let result = try await write(
      "set_peer_trust",
      """
      WITH changed AS (
        UPDATE peers SET ca_certificate = \(caCertificate), next_ca_certificate = \(trust.nextCACertificate),
          revoked_serials = \(each: trust.revokedSerials), statement_sequence = \(sequence)
        WHERE name = \(name) AND statement_sequence < \(sequence) AND ca_certificate = \(former) RETURNING 1
      )
      UPDATE revisions SET value = value + 1 WHERE subject = 'peers' AND EXISTS (SELECT FROM changed)
      """)
    return result.affectedRows == 1
  }

  /// Without a lock where nothing changes: every process finds out for itself. Else with the directory's long lists,
  /// since it may wait for one: a merge holds the peer's row.
  package func setPeerCondition(_ condition: PeerCondition, of name: RelayName) async throws(StoreError) -> Bool {
    let (name, fault) = (PostgresParameter(name), PostgresParameter(condition.fault?.rawValue))
    let differs = try await read(
      "peer_condition", "SELECT 1 FROM peers WHERE name = \(name) AND fault IS DISTINCT FROM \(fault)")
    guard differs.rowCount == 1 else { return false }
    // Another fault does not make the peer's absence begin anew.
    let results = try await writeBulk([
      PostgresStep(
        "set_peer_condition",
        """
        WITH changed AS (
          UPDATE peers SET fault = \(fault),
            fault_since = CASE WHEN fault IS NULL
              OR \(fault) IS NULL THEN \(condition.faultSince) ELSE fault_since END
          WHERE name = \(name) AND fault IS DISTINCT FROM \(fault) RETURNING 1
        )
        UPDATE revisions SET value = value + 1 WHERE subject = 'peers' AND EXISTS (SELECT FROM changed)
        """)
    ])
    return results.first?.affectedRows == 1
  }

  /// Removes some at a time, as with its contacts. `removePeer` takes care of rows that are added meanwhile.
  func removeConfirmed(of name: RelayName) async throws(StoreError) {
    let name = PostgresParameter(name)
    let chunk = [
      PostgresStep(
        "remove_confirmed_some",
        """
        WITH chunk AS MATERIALIZED (SELECT account
        FROM confirmed_devices WHERE peer = \(name) LIMIT \(Self.removedRowsMax))
        DELETE FROM confirmed_devices AS d USING chunk AS c WHERE d.account = c.account AND d.peer = \(name)
        RETURNING 1
        """)
    ]
    while let removed = try await writeBulk(chunk).last?.rowCount, removed >= Int(Self.removedRowsMax) {}
  }

  private static let removedRowsMax: Int64 = 1000
}
