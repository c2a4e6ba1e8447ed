// The ownership of contacts (docs/federation.md, "Whose a contact is"): the rows of `peer_contacts` are claims. The
// oldest claim of an active peer has the contact.

import GRDB
package import RelayCore

extension SQLiteStorage {
  package func contactOwners(of tokens: [ContactToken]) async throws(StoreError) -> [ContactOwner] {
    let (sealer, due) = (try await self.tokens(), clock.now().millis - Timestamp.millisPerDay)
    return try await read { db in
      try Set(tokens).compactMap { token in
        let stored = try sealer.seal(token)
        if try db.row("SELECT 1 FROM accounts WHERE token = \(stored) LIMIT 1") != nil {
          return ContactOwner(token: token, holder: .local)
        }
        return try db.row(
          """
          SELECT c.peer, coalesce(c.unlisted <= \(due), 0) FROM peer_contacts AS c JOIN peers AS p ON p.name = c.peer
          WHERE c.token = \(stored) AND p.state = 'active' AND p.contacts_mode <> 'none'
          ORDER BY c.since, c.peer LIMIT 1
          """
        ).map { try ContactOwner(token: token, holder: .peer($0.relay(0), isDue: $0.flag(1))) }
      }
    }
  }

  package func rememberClaims(
    to tokens: [ContactToken], of peer: RelayName, keepingAtMost max: Int
  ) async throws(StoreError) -> Set<ContactToken> {
    guard !tokens.isEmpty else { return [] }
    let (now, sealer) = (clock.now(), try await self.tokens())
    return try await write { db in
      guard
        try db.row("SELECT 1 FROM peers WHERE name = \(peer) AND contacts_mode = 'query'") != nil
      else { return [] }
      var remembered: Set<ContactToken> = []
      for token in Set(tokens) {
        let stored = try sealer.seal(token)
        try db.run(
          """
          INSERT INTO peer_contacts (peer, token, supports_sms, voice, pass, since, unlisted)
          SELECT \(peer), \(stored), 0, 0, 0, \(now), \(now)
          WHERE EXISTS (SELECT 1 FROM peer_contacts WHERE peer = \(peer) AND token = \(stored))
            OR (SELECT contacts FROM contact_counts WHERE peer = \(peer)) < \(max)
              AND NOT EXISTS (SELECT 1 FROM peer_contacts WHERE token = \(stored))
          ON CONFLICT (peer, token) DO UPDATE SET unlisted = excluded.unlisted
          """)
        if db.changesCount > 0 { remembered.insert(token) }
      }
      return remembered
    }
  }

  package func endClaims(of peer: RelayName, afterDays days: Int) async throws(StoreError) -> EndedClaims {
    let end = try await clockReading().removalTime.millis - Int64(days) * Timestamp.millisPerDay
    return try await write { db in
      let ended = try db.rows(
        """
        SELECT token FROM peer_contacts WHERE peer = \(peer) AND unlisted IS NOT NULL AND unlisted < \(end)
        ORDER BY unlisted LIMIT \(Self.endedMax)
        """
      ).map { try $0.token(0) }
      var passed = 0
      for token in ended {
        if try Self.owner(of: token, in: db) == peer {
          // The peer has the contact, so no claim stands before this one. The next claim gets the contact.
          let others = try db.row(
            """
            SELECT 1 FROM peer_contacts AS c JOIN peers AS p ON p.name = c.peer
            WHERE c.token = \(token) AND c.peer <> \(peer) AND p.state = 'active' AND p.contacts_mode <> 'none' LIMIT 1
            """)
          if others != nil { passed += 1 }
        }
        try db.run("DELETE FROM peer_contacts WHERE peer = \(peer) AND token = \(token)")
      }
      if passed > 0 { try db.set(.contactPasses, to: db.revision(.contactPasses) + Int64(passed)) }
      return EndedClaims(ended: ended.count, passed: passed)
    }
  }

  private static let endedMax = 5_000

  /// - Returns: the peer whose claim stands first.
  private static func owner(of token: StoredToken, in db: Database) throws -> RelayName? {
    try db.row(
      """
      SELECT c.peer FROM peer_contacts AS c JOIN peers AS p ON p.name = c.peer
      WHERE c.token = \(token) AND p.state = 'active' AND p.contacts_mode <> 'none' ORDER BY c.since, c.peer LIMIT 1
      """)?.relay(0)
  }

  package func claims(to token: ContactToken) async throws(StoreError) -> [ContactClaim] {
    let stored = try await tokens().seal(token)
    return try await read { db in
      try db.rows(
        """
        SELECT c.peer, c.since, c.unlisted, p.state = 'active' AND p.contacts_mode <> 'none' AS stands
        FROM peer_contacts AS c JOIN peers AS p ON p.name = c.peer
        WHERE c.token = \(stored) ORDER BY stands DESC, c.since, c.peer
        """
      ).map(ContactClaim.init(row:))
    }
  }

  package func setContactOwner(of token: ContactToken, to peer: RelayName) async throws(StoreError) -> RelayName? {
    let (now, stored) = (clock.now(), try await tokens().seal(token))
    return try await write { db in
      guard try db.row("SELECT 1 FROM peers WHERE name = \(peer)") != nil else {
        throw StoreError.unavailable(reason: "there is no such peer")
      }
      let former = try Self.owner(of: stored, in: db)
      guard former != peer else { return peer }
      let first = try db.row("SELECT min(since) FROM peer_contacts WHERE token = \(stored)")?.optionalInteger(0)
      try db.run(
        """
        INSERT INTO peer_contacts (peer, token, supports_sms, voice, pass, since, unlisted)
        VALUES (\(peer), \(stored), 0, 0, 0, \(first.map { $0 - 1 } ?? now.millis), \(now))
        ON CONFLICT (peer, token) DO UPDATE SET since = excluded.since
        """)
      guard let former else { return nil }
      try db.raise(.contactPasses)
      return former
    }
  }

  package func notePasses(of peer: RelayName) async throws(StoreError) -> Int {
    try await write { db in
      let count = try Fields.valid(
        db.row(
          """
          SELECT count(*) FROM peer_contacts AS c
          WHERE c.peer = \(peer)
            AND EXISTS (
              SELECT 1 FROM peer_contacts AS o JOIN peers AS p ON p.name = o.peer
              WHERE o.token = c.token AND o.peer <> c.peer AND p.state = 'active' AND p.contacts_mode <> 'none')
            AND NOT EXISTS (
              SELECT 1 FROM peer_contacts AS f JOIN peers AS p ON p.name = f.peer
              WHERE f.token = c.token AND p.state = 'active' AND p.contacts_mode <> 'none'
                AND (f.since, f.peer) < (c.since, c.peer))
          """)
      ).integer(0)
      if count > 0 { try db.set(.contactPasses, to: db.revision(.contactPasses) + count) }
      return Int(count)
    }
  }

  package func takeUntoldPasses() async throws(StoreError) -> Int64 {
    try await write { db in
      let (all, told) = (try db.revision(.contactPasses), try db.revision(.contactPassesTold))
      if all != told { try db.set(.contactPassesTold, to: all) }
      return all - told
    }
  }

  package func contestedContacts() async throws(StoreError) -> [RelayName: ContestedContacts] {
    try await read { db in
      let rows = try db.rows(
        """
        WITH claims AS (
          SELECT c.token, c.peer,
            row_number() OVER (PARTITION BY c.token ORDER BY c.since, c.peer) AS place,
            count(*) OVER (PARTITION BY c.token) AS claimants
          FROM peer_contacts AS c JOIN peers AS p ON p.name = c.peer
          WHERE p.state = 'active' AND p.contacts_mode <> 'none'
        )
        SELECT peer, count(*) FILTER (WHERE place > 1 OR is_local),
          count(*) FILTER (WHERE place = 1 AND claimants > 1 AND NOT is_local)
        FROM (
          SELECT peer, place, claimants, EXISTS (SELECT 1 FROM accounts AS a WHERE a.token = claims.token) AS is_local
          FROM claims)
        WHERE claimants > 1 OR is_local GROUP BY peer
        """)
      return try Dictionary(
        uniqueKeysWithValues: rows.map {
          try ($0.relay(0), ContestedContacts(others: Int($0.integer(1)), own: Int($0.integer(2))))
        })
    }
  }
}

extension ContactClaim {
  fileprivate init(row: Fields) throws(StoreError) {
    self.init(
      peer: try row.relay(0), since: try row.time(1), unlisted: row.optionalTime(2), stands: try row.flag(3))
  }
}
