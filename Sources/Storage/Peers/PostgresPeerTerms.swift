// What changes of a peer while it stays one: what it may ask, what we do with it, whom we believe, how it fares. Each change
// raises the revision of the peers in its own statement, as in PostgresPeers.

package import RelayCore

extension PostgresStorage {
  package func setPeerURL(_ url: String, of name: RelayName) async throws(StoreError) -> Bool {
    let result = try await write(
      .prepared(
        "set_peer_url",
        """
        WITH changed AS (UPDATE peers SET url = $2::text WHERE name = $1::text RETURNING 1)
        UPDATE revisions SET value = value + 1 WHERE subject = 'peers' AND EXISTS (SELECT FROM changed)
        """),
      PostgresParameters {
        $0.add(text: name.text)
        $0.add(text: url)
      })
    return result.affectedRows == 1
  }

  package func setPeerScopes(_ scopes: Set<Peer.Scope>, of name: RelayName) async throws(StoreError) -> Bool {
    let result = try await write(
      .prepared(
        "set_peer_scopes",
        """
        WITH changed AS (UPDATE peers SET scopes = $2::text WHERE name = $1::text RETURNING 1)
        UPDATE revisions SET value = value + 1 WHERE subject = 'peers' AND EXISTS (SELECT FROM changed)
        """),
      PostgresParameters {
        $0.add(text: name.text)
        $0.add(text: scopes.column)
      })
    return result.affectedRows == 1
  }

  /// Where no copy is wanted any more, none is found from the commit on. A merge under way holds the peer's row until its
  /// own; then it is gone too. Without its mark the next copy begins with the whole listing, and a pass that is under way
  /// is outrun, so that its end leaves no mark.
  package func setPeerPolicy(_ policy: PeerPolicy, of name: RelayName) async throws(StoreError) -> Bool {
    let result = try await write(
      .prepared(
        "set_peer_policy",
        """
        WITH former AS MATERIALIZED (
          SELECT contacts_mode FROM peers WHERE name = $1::text FOR NO KEY UPDATE
        ), changed AS (
          UPDATE peers SET holds_messages = $2::boolean, contacts_mode = $3::text, implicit = $4::boolean,
            contacts_mark = CASE WHEN $3::text = 'copy' THEN contacts_mark END,
            contacts_pass = CASE WHEN $3::text = 'copy' THEN contacts_pass
              ELSE greatest(contacts_pass, contacts_begun) + 2 END
          WHERE name = $1::text AND EXISTS (SELECT FROM former) RETURNING 1
        )
        UPDATE revisions SET value = value + 1 WHERE subject = 'peers' AND EXISTS (SELECT FROM changed)
        RETURNING (SELECT contacts_mode FROM former)
        """),
      PostgresParameters {
        $0.add(text: name.text)
        $0.add(boolean: policy.holdsMessages)
        $0.add(text: policy.contacts.rawValue)
        $0.add(boolean: policy.routesImplicitly)
      })
    guard result.rowCount == 1 else { return false }
    var row = result.cursor(row: 0)
    let former = PeerPolicy.Contacts(column: try row.text())
    // Whoever is asked goes on having what was remembered of it.
    if policy.contacts != .copy, policy.contacts != former { try await removeContacts(of: name) }
    return true
  }

  package func noteAttachmentMark(_ mark: AttachmentMark, of name: RelayName) async throws(StoreError) -> Bool {
    // What is taken away is judged by what was there before: one less than may stay.
    let result = try await write(
      .prepared(
        "note_attachment_mark",
        """
        WITH added AS (
          INSERT INTO attachment_marks (mark, peer)
          SELECT $2::integer, name FROM peers WHERE name = $1::text FOR KEY SHARE
          ON CONFLICT (mark) DO NOTHING RETURNING 1
        ), removed AS (
          DELETE FROM attachment_marks WHERE peer = $1::text AND EXISTS (SELECT FROM added) AND place NOT IN (
            SELECT place FROM attachment_marks WHERE peer = $1::text ORDER BY place DESC LIMIT $3::bigint - 1)
        )
        UPDATE revisions SET value = value + 1 WHERE subject = 'peers' AND EXISTS (SELECT FROM added)
        """),
      PostgresParameters {
        $0.add(text: name.text)
        $0.add(integer: Int32(mark.value))
        $0.add(bigint: Int64(Peer.attachmentMarksMax))
      })
    return result.affectedRows == 1
  }

  package func setPeerTrust(
    _ trust: PeerTrust, caCertificate: [UInt8], replacing former: [UInt8], of name: RelayName
  ) async throws(StoreError) -> Bool {
    let result = try await write(
      .prepared(
        "set_peer_trust",
        """
        WITH changed AS (
          UPDATE peers SET ca_certificate = $2::bytea, next_ca_certificate = $3::bytea,
            revoked_serials = $4::bytea[], statement_sequence = $5::bigint
          WHERE name = $1::text AND statement_sequence < $5::bigint AND ca_certificate = $6::bytea RETURNING 1
        )
        UPDATE revisions SET value = value + 1 WHERE subject = 'peers' AND EXISTS (SELECT FROM changed)
        """),
      PostgresParameters {
        $0.add(text: name.text)
        $0.add(bytea: caCertificate)
        $0.add(trust: trust)
        $0.add(bytea: former)
      })
    return result.affectedRows == 1
  }

  /// Without a lock where nothing changes: every process finds out for itself. Else with the directory's long lists, since
  /// it may wait for one: a merge holds the peer's row.
  package func setPeerCondition(_ condition: PeerCondition, of name: RelayName) async throws(StoreError) -> Bool {
    let change = PostgresParameters {
      $0.add(text: name.text)
      $0.add(text: condition.fault?.rawValue)
    }
    let differs = try await read(
      .prepared(
        "peer_condition", "SELECT 1 FROM peers WHERE name = $1::text AND fault IS DISTINCT FROM $2::text"), change)
    guard differs.rowCount == 1 else { return false }
    var parameters = change
    parameters.add(bigint: condition.faultSince?.millis)
    // Another fault does not make the peer's absence begin anew.
    let results = try await writeBulk([
      PostgresStep(
        .prepared(
          "set_peer_condition",
          """
          WITH changed AS (
            UPDATE peers SET fault = $2::text,
              fault_since = CASE WHEN fault IS NULL OR $2::text IS NULL THEN $3::bigint ELSE fault_since END
            WHERE name = $1::text AND fault IS DISTINCT FROM $2::text RETURNING 1
          )
          UPDATE revisions SET value = value + 1 WHERE subject = 'peers' AND EXISTS (SELECT FROM changed)
          """), parameters)
    ])
    return results.first?.affectedRows == 1
  }

  /// Some at a time, as its contacts. What is added meanwhile is `removePeer`'s business.
  func removeConfirmed(of name: RelayName) async throws(StoreError) {
    let chunk = [
      PostgresStep(
        .prepared(
          "remove_confirmed_some",
          """
          WITH chunk AS MATERIALIZED (SELECT account FROM confirmed_devices WHERE peer = $1::text LIMIT $2::bigint)
          DELETE FROM confirmed_devices AS d USING chunk AS c WHERE d.account = c.account AND d.peer = $1::text
          RETURNING 1
          """),
        PostgresParameters {
          $0.add(text: name.text)
          $0.add(bigint: Self.removedRowsMax)
        })
    ]
    while let removed = try await writeBulk(chunk).last?.rowCount, removed >= Int(Self.removedRowsMax) {}
  }

  private static let removedRowsMax: Int64 = 1000
}

extension PostgresParameters {
  /// Three values: the CA that takes over, the revoked serials, the statement's sequence.
  mutating func add(trust: PeerTrust) {
    add(bytea: trust.nextCACertificate)
    add(byteas: trust.revokedSerials)
    add(bigint: trust.sequence)
  }
}
