// The contacts that peers list, as they change, and the peers that list them.

package import RelayCore

extension PostgresStorage {
  package func applyContactChanges(
    _ changes: [ListedAccount], of peer: RelayName, mark: String
  ) async throws(StoreError) {
    // If a token changed twice the later change wins, and one statement cannot write both.
    let contacts = Dictionary(changes.map { ($0.token, $0) }) { _, later in later }.values
    let gone = contacts.filter(\.isInactive)
    let listed = contacts.filter { !$0.isInactive }.sorted { $0.token < $1.token }
    let tokens = try await tokens()
    let (storedGone, storedListed) = (try tokens.seal(gone.map(\.token)), try tokens.seal(listed.map(\.token)))
    let steps = [
      PostgresStep(
        "apply_contacts",
        """
        INSERT INTO peer_contacts AS known (peer, token, supports_sms, voice, pass)
        SELECT p.name, i.token, i.supports_sms, i.voice, p.contacts_pass
        FROM peers AS p
        CROSS JOIN unnest(
          \(each: storedListed), \(each: listed.lazy.map(\.supportsSMS)), \(each: listed.lazy.map(\.voice))
        ) AS i (token, supports_sms, voice)
        WHERE p.name = \(peer) AND p.contacts_mode = 'copy'
        ON CONFLICT (peer, token) DO UPDATE SET supports_sms = excluded.supports_sms, voice = excluded.voice,
          pass = greatest(known.pass, excluded.pass), unlisted = NULL
        """),
      Self.unlisting(storedGone, of: peer),
      PostgresStep(
        "apply_contacts_mark",
        "UPDATE peers SET contacts_mark = \(opaque: mark) WHERE name = \(peer) AND contacts_mode = 'copy'"),
    ]
    _ = try await writeBulk(Self.contactLocks(of: peer, changesPeer: true) + steps)
  }

  package func keptContacts(
    among tokens: [ContactToken], of peer: RelayName
  ) async throws(StoreError) -> Set<ContactToken> {
    guard !tokens.isEmpty else { return [] }
    let sealer = try await self.tokens()
    let stored = try sealer.seal(tokens)
    let result = try await readBulk(
      "kept_contacts", "SELECT token FROM peer_contacts WHERE peer = \(peer) AND token = ANY (\(each: stored))")
    return Set(try Self.tokens(in: result, sealer))
  }

  package func claimants(of token: ContactToken) async throws(StoreError) -> [RelayName] {
    let stored = try await tokens().seal(token)
    let result = try await read(
      "claimants",
      """
      SELECT c.peer FROM peer_contacts AS c JOIN peers AS p ON p.name = c.peer
      WHERE c.token = \(stored) AND p.state = 'active' AND p.contacts_mode <> 'none'
      ORDER BY c.since, c.peer
      """)
    return try result.all { (row) throws(StoreError) in try row.relayName() }
  }
}
