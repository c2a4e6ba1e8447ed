// The ownership of contacts (docs/federation.md, "Whose a contact is"): the rows of `peer_contacts` are claims. The
// oldest claim of an active peer has the contact.

package import RelayCore

extension PostgresStorage {
  package func contactOwners(of tokens: [ContactToken]) async throws(StoreError) -> [ContactOwner] {
    guard !tokens.isEmpty else { return [] }
    let sealer = try await self.tokens()
    let stored = try sealer.seal(Set(tokens))
    let result = try await read(
      "contact_owners",
      """
      SELECT t.token, EXISTS (SELECT FROM accounts AS a WHERE a.token = t.token), o.peer,
        o.unlisted < \(Timestamp.millisPerDay)
      FROM unnest(\(each: stored)) AS t (token)
      LEFT JOIN LATERAL (
        SELECT c.peer,
          coalesce(floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint - c.unlisted, 0) AS unlisted
        FROM peer_contacts AS c
        WHERE c.token = t.token
          AND (SELECT p.state = 'active' AND p.contacts_mode <> 'none' FROM peers AS p WHERE p.name = c.peer)
        ORDER BY c.since, c.peer LIMIT 1
      ) AS o ON true
      """)
    let owners = try result.all(StoredOwner.init(row:))
    return zip(try sealer.open(owners.map(\.token)), owners).compactMap { token, owner in
      owner.holder.map { ContactOwner(token: token, holder: $0) }
    }
  }

  private struct StoredOwner {
    let token: StoredToken
    let holder: ContactOwner.Holder?

    init(row: inout PostgresRow) throws(StoreError) {
      token = try row.token()
      let (isLocal, peer) = (try row.boolean(), try row.optionalRelayName())
      if isLocal {
        holder = .local
      } else if let peer {
        holder = .peer(peer, isDue: try !row.boolean())
      } else {
        holder = nil
      }
    }
  }

  package func rememberClaims(
    to tokens: [ContactToken], of peer: RelayName, keepingAtMost max: Int
  ) async throws(StoreError) -> Set<ContactToken> {
    guard !tokens.isEmpty else { return [] }
    let sealer = try await self.tokens()
    let stored = try sealer.seal(Set(tokens).sorted())
    let name = PostgresParameter(peer)
    let step = PostgresStep(
      "remember_claims",
      """
      WITH wanted AS MATERIALIZED (
        SELECT i.token,
          EXISTS (SELECT FROM peer_contacts AS c WHERE c.peer = \(name) AND c.token = i.token) AS is_known,
          EXISTS (SELECT FROM peer_contacts AS e WHERE e.token = i.token AND e.peer <> \(name)) AS is_others
        FROM unnest(\(each: stored)) AS i (token)
      ), placed AS MATERIALIZED (
        SELECT token, 0 AS place FROM wanted WHERE is_known
        UNION ALL SELECT token, row_number() OVER (ORDER BY token) FROM wanted WHERE NOT is_known AND NOT is_others
      )
      INSERT INTO peer_contacts (peer, token, supports_sms, voice, pass, unlisted)
      SELECT p.name, i.token, false, false, 0, floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint
      FROM peers AS p JOIN contact_counts AS k ON k.peer = p.name CROSS JOIN placed AS i
      WHERE p.name = \(name) AND p.contacts_mode = 'query' AND (i.place = 0 OR k.contacts + i.place <= \(Int64(max)))
      ON CONFLICT (peer, token) DO UPDATE SET unlisted = excluded.unlisted
      RETURNING token
      """)
    guard let result = try await writeBulk(Self.contactLocks(of: peer) + [step]).last else { return [] }
    return Set(try Self.tokens(in: result, sealer))
  }

  /// Passed contacts are counted before the claims are gone, by the claim that is then next.
  package func endClaims(of peer: RelayName, afterDays days: Int) async throws(StoreError) -> EndedClaims {
    let end = try await clockReading().removalTime.millis - Int64(days) * Timestamp.millisPerDay
    let name = PostgresParameter(peer)
    let step = PostgresStep(
      "end_claims",
      """
      WITH ended AS MATERIALIZED (
        SELECT token FROM peer_contacts
        WHERE peer = \(name) AND unlisted IS NOT NULL AND unlisted < \(end)
        ORDER BY unlisted LIMIT \(Self.endedMax)
      ), standing AS MATERIALIZED (
        SELECT c.token, c.peer, c.since FROM ended AS e JOIN peer_contacts AS c ON c.token = e.token
        WHERE (SELECT p.state = 'active' AND p.contacts_mode <> 'none' FROM peers AS p WHERE p.name = c.peer)
      ), passing AS MATERIALIZED (
        SELECT count(DISTINCT s.token) AS count FROM standing AS s JOIN standing AS n ON n.token = s.token
        WHERE s.peer = \(name) AND n.peer <> \(name)
          AND NOT EXISTS (
            SELECT FROM standing AS f WHERE f.token = s.token AND (f.since, f.peer) < (s.since, s.peer))
      ), removed AS (
        DELETE FROM peer_contacts AS c USING ended AS e WHERE c.peer = \(name) AND c.token = e.token RETURNING 1
      ), noted AS (
        UPDATE revisions AS r SET value = r.value + p.count FROM passing AS p
        WHERE r.subject = 'contact-passes' AND p.count > 0
      )
      SELECT (SELECT count(*) FROM removed), (SELECT count FROM passing)
      """)
    let ended = try await writeBulk(Self.contactLocks(of: peer) + [step]).last?.first(EndedClaims.init(row:))
    return ended ?? EndedClaims(ended: 0, passed: 0)
  }

  private static let endedMax: Int64 = 5_000

  package func claims(to token: ContactToken) async throws(StoreError) -> [ContactClaim] {
    let stored = try await tokens().seal(token)
    let result = try await read(
      "claims",
      """
      SELECT c.peer, c.since, c.unlisted, p.state = 'active' AND p.contacts_mode <> 'none' AS stands
      FROM peer_contacts AS c JOIN peers AS p ON p.name = c.peer
      WHERE c.token = \(stored) ORDER BY stands DESC, c.since, c.peer
      """)
    return try result.all(ContactClaim.init(row:))
  }

  package func setContactOwner(of token: ContactToken, to peer: RelayName) async throws(StoreError) -> RelayName? {
    let stored = PostgresParameter(try await tokens().seal(token))
    let name = PostgresParameter(peer)
    let step = PostgresStep(
      "set_contact_owner",
      """
      WITH claims AS MATERIALIZED (
        SELECT c.peer, c.since FROM peer_contacts AS c JOIN peers AS p ON p.name = c.peer
        WHERE c.token = \(stored) AND p.state = 'active' AND p.contacts_mode <> 'none'
      ), first AS MATERIALIZED (
        SELECT peer FROM claims ORDER BY since, peer LIMIT 1
      ), moved AS (
        INSERT INTO peer_contacts (peer, token, supports_sms, voice, pass, unlisted, since)
        SELECT p.name, \(stored), false, false, 0, floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint,
          coalesce(
            (SELECT min(c.since) - 1 FROM peer_contacts AS c WHERE c.token = \(stored)),
            floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint)
        FROM peers AS p WHERE p.name = \(name) AND NOT EXISTS (SELECT FROM first WHERE peer = \(name))
        ON CONFLICT (peer, token) DO UPDATE SET since = excluded.since
        RETURNING 1
      ), noted AS (
        UPDATE revisions SET value = value + 1
        WHERE subject = 'contact-passes' AND EXISTS (SELECT FROM moved) AND EXISTS (SELECT FROM first)
      )
      SELECT (SELECT peer FROM first) FROM peers WHERE name = \(name)
      """)
    guard let result = try await writeBulk(Self.contactLocks(of: peer) + [step]).last, result.rowCount == 1 else {
      throw .unavailable(reason: "there is no such peer")
    }
    var row = result.cursor(row: 0)
    return try row.optionalRelayName()
  }

  /// A range of tokens at a time.
  package func notePasses(of peer: RelayName) async throws(StoreError) -> Int {
    var passed: Int64 = 0
    for range in DirectoryRange.all {
      let step = PostgresStep(
        "note_passes",
        """
        WITH passed AS MATERIALIZED (
          SELECT count(*) AS count FROM peer_contacts AS c
          WHERE c.peer = \(peer) AND c.token >= \(range.lowerBound) AND c.token < \(range.upperBound)
            AND EXISTS (
              SELECT FROM peer_contacts AS o JOIN peers AS p ON p.name = o.peer
              WHERE o.token = c.token AND o.peer <> c.peer AND p.state = 'active' AND p.contacts_mode <> 'none')
            AND NOT EXISTS (
              SELECT FROM peer_contacts AS f JOIN peers AS p ON p.name = f.peer
              WHERE f.token = c.token AND p.state = 'active' AND p.contacts_mode <> 'none'
                AND (f.since, f.peer) < (c.since, c.peer))
        ), noted AS (
          UPDATE revisions AS r SET value = r.value + p.count FROM passed AS p
          WHERE r.subject = 'contact-passes' AND p.count > 0
        )
        SELECT count FROM passed
        """)
      passed += try await writeBulk([step])[0].first { (row) throws(StoreError) in try row.bigint() } ?? 0
    }
    return Int(passed)
  }

  package func takeUntoldPasses() async throws(StoreError) -> Int64 {
    guard try await revision(of: "contact-passes") > revision(of: "contact-passes-told") else { return 0 }
    let result = try await write(
      "take_untold_passes",
      """
      WITH told AS MATERIALIZED (SELECT value FROM revisions WHERE subject = 'contact-passes-told' FOR UPDATE)
      UPDATE revisions AS t SET value = p.value FROM revisions AS p, told
      WHERE t.subject = 'contact-passes-told' AND p.subject = 'contact-passes' RETURNING p.value - told.value
      """)
    return max(0, try result.first { (row) throws(StoreError) in try row.bigint() } ?? 0)
  }
}

extension EndedClaims {
  fileprivate init(row: inout PostgresRow) throws(StoreError) {
    self.init(ended: Int(try row.bigint()), passed: Int(try row.bigint()))
  }
}

extension ContactClaim {
  fileprivate init(row: inout PostgresRow) throws(StoreError) {
    self.init(
      peer: try row.relayName(), since: try row.timestamp(), unlisted: try row.optionalTimestamp(),
      stands: try row.boolean())
  }
}

// MARK: - What several claim

extension PostgresStorage {
  /// A range of tokens at a time, each by the index of tokens.
  package func contestedContacts() async throws(StoreError) -> [RelayName: ContestedContacts] {
    var contested: [RelayName: ContestedContacts] = [:]
    for range in DirectoryRange.all {
      let result = try await readBulk(
        "contested_contacts",
        """
        WITH claims AS (
          SELECT c.token, c.peer,
            row_number() OVER (PARTITION BY c.token ORDER BY c.since, c.peer) AS place,
            count(*) OVER (PARTITION BY c.token) AS claimants
          FROM peer_contacts AS c
          WHERE c.token >= \(range.lowerBound) AND c.token < \(range.upperBound)
            AND (SELECT p.state = 'active' AND p.contacts_mode <> 'none' FROM peers AS p WHERE p.name = c.peer)
        )
        SELECT c.peer, count(*) FILTER (WHERE c.place > 1 OR c.is_local),
          count(*) FILTER (WHERE c.place = 1 AND c.claimants > 1 AND NOT c.is_local)
        FROM (
          SELECT peer, place, claimants, EXISTS (SELECT FROM accounts AS a WHERE a.token = claims.token) AS is_local
          FROM claims
        ) AS c
        WHERE c.claimants > 1 OR c.is_local GROUP BY c.peer
        """)
      let counts = try result.all { (row) throws(StoreError) in
        (peer: try row.relayName(), others: Int(try row.bigint()), own: Int(try row.bigint()))
      }
      for count in counts {
        contested[count.peer, default: ContestedContacts()].others += count.others
        contested[count.peer, default: ContestedContacts()].own += count.own
      }
    }
    return contested
  }
}
