// Whose a contact is (docs/federation.md, "Whose a contact is"): the rows of `contacts` are claims, and the claim that began
// first and whose peer is active has the contact.

import Foundation
import GRDB
package import RelayCore

extension EmbeddedStorage {
  package func contactOwners(of tokens: [ContactToken]) async throws(StoreError) -> [ContactOwner] {
    let (sealer, due) = (try await self.tokens(), clock.now().millis - Timestamp.millisPerDay)
    return try await read { db in
      try Set(tokens).compactMap { token in
        let stored = try sealer.seal(token).data
        if try db.row("SELECT 1 FROM accounts WHERE token = ? LIMIT 1", [stored]) != nil {
          return ContactOwner(token: token, holder: .local)
        }
        return try db.row(
          """
          SELECT c.peer, coalesce(c.unlisted <= ?2, 0) FROM contacts AS c JOIN peers AS p ON p.name = c.peer
          WHERE c.token = ?1 AND p.state = 'active' AND p.contacts_mode <> 'none' ORDER BY c.since, c.peer LIMIT 1
          """, [stored, due]
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
        try db.row("SELECT 1 FROM peers WHERE name = ? AND contacts_mode = 'query'", [peer.text]) != nil
      else { return [] }
      var remembered: Set<ContactToken> = []
      for token in Set(tokens) {
        let stored = try sealer.seal(token).data
        try db.run(
          """
          INSERT INTO contacts (peer, token, supports_sms, voice, pass, since, unlisted)
          SELECT ?1, ?2, 0, 0, 0, ?3, ?3
          WHERE EXISTS (SELECT 1 FROM contacts WHERE peer = ?1 AND token = ?2)
            OR (SELECT contacts FROM contact_counts WHERE peer = ?1) < ?4
              AND NOT EXISTS (SELECT 1 FROM contacts WHERE token = ?2)
          ON CONFLICT (peer, token) DO UPDATE SET unlisted = excluded.unlisted
          """, [peer.text, stored, now.millis, max])
        if db.changesCount > 0 { remembered.insert(token) }
      }
      return remembered
    }
  }

  package func endClaims(of peer: RelayName, afterDays days: Int) async throws(StoreError) -> EndedClaims {
    let end = try await clockReading().removalTime.millis - Int64(days) * Timestamp.millisPerDay
    return try await write { db in
      let ended = try db.rows(
        "SELECT token, since FROM contacts WHERE peer = ? AND unlisted IS NOT NULL AND unlisted < ? ORDER BY unlisted LIMIT ?",
        [peer.text, end, Self.endedMax])
      var passed = 0
      for row in ended {
        let token = try row.token(0).data
        if try Self.owner(of: token, in: db) == peer.text {
          // What it was before, and what comes next: nothing else stands before it.
          let others = try db.row(
            """
            SELECT 1 FROM contacts AS c JOIN peers AS p ON p.name = c.peer
            WHERE c.token = ? AND c.peer <> ? AND p.state = 'active' AND p.contacts_mode <> 'none' LIMIT 1
            """, [token, peer.text])
          if others != nil { passed += 1 }
        }
        try db.run("DELETE FROM contacts WHERE peer = ? AND token = ?", [peer.text, token])
      }
      if passed > 0 { try db.set(.contactPasses, to: db.revision(.contactPasses) + Int64(passed)) }
      return EndedClaims(ended: ended.count, passed: passed)
    }
  }

  private static let endedMax = 5_000

  /// - Returns: the name of the peer whose claim stands first.
  private static func owner(of token: Data, in db: Database) throws -> String? {
    try db.row(
      """
      SELECT c.peer FROM contacts AS c JOIN peers AS p ON p.name = c.peer
      WHERE c.token = ? AND p.state = 'active' AND p.contacts_mode <> 'none' ORDER BY c.since, c.peer LIMIT 1
      """, [token])?.text(0)
  }

  package func claims(to token: ContactToken) async throws(StoreError) -> [ContactClaim] {
    let stored = try await tokens().seal(token)
    return try await read { db in
      try db.rows(
        """
        SELECT c.peer, c.since, c.unlisted, p.state = 'active' AND p.contacts_mode <> 'none' AS stands
        FROM contacts AS c JOIN peers AS p ON p.name = c.peer WHERE c.token = ? ORDER BY stands DESC, c.since, c.peer
        """, [stored.data]
      ).map {
        try ContactClaim(peer: $0.relay(0), since: $0.time(1), unlisted: $0.optionalTime(2), stands: $0.flag(3))
      }
    }
  }

  package func setContactOwner(of token: ContactToken, to peer: RelayName) async throws(StoreError) -> RelayName? {
    let (now, stored) = (clock.now(), try await tokens().seal(token).data)
    return try await write { db in
      guard try db.row("SELECT 1 FROM peers WHERE name = ?", [peer.text]) != nil else {
        throw StoreError.unavailable(reason: "there is no such peer")
      }
      let former = try Self.owner(of: stored, in: db)
      guard former != peer.text else { return peer }
      let first = try db.row("SELECT min(since) FROM contacts WHERE token = ?", [stored])?.optionalInteger(0)
      try db.run(
        """
        INSERT INTO contacts (peer, token, supports_sms, voice, pass, since, unlisted) VALUES (?1, ?2, 0, 0, 0, ?3, ?4)
        ON CONFLICT (peer, token) DO UPDATE SET since = excluded.since
        """, [peer.text, stored, first.map { $0 - 1 } ?? now.millis, now.millis])
      guard let former else { return nil }
      try db.raise(.contactPasses)
      return try Fields.valid(RelayName(former))
    }
  }

  package func notePasses(of peer: RelayName) async throws(StoreError) -> Int {
    try await write { db in
      let count = try Fields.valid(
        db.row(
          """
          SELECT count(*) FROM contacts AS c
          WHERE c.peer = ?
            AND EXISTS (
              SELECT 1 FROM contacts AS o JOIN peers AS p ON p.name = o.peer
              WHERE o.token = c.token AND o.peer <> c.peer AND p.state = 'active' AND p.contacts_mode <> 'none')
            AND NOT EXISTS (
              SELECT 1 FROM contacts AS f JOIN peers AS p ON p.name = f.peer
              WHERE f.token = c.token AND p.state = 'active' AND p.contacts_mode <> 'none'
                AND (f.since, f.peer) < (c.since, c.peer))
          """, [peer.text])
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
          FROM contacts AS c JOIN peers AS p ON p.name = c.peer
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
