// What peers list, as it changes, and who lists what.

package import RelayCore

extension PostgresStorage {
  package func applyContactChanges(
    _ changes: [ListedAccount], of peer: RelayName, mark: String
  ) async throws(StoreError) {
    // Of a token that changed twice the later change wins, and one statement cannot write both.
    let contacts = Dictionary(changes.map { ($0.token, $0) }) { _, later in later }.values
    let gone = contacts.filter(\.isInactive)
    let listed = contacts.filter { !$0.isInactive }.sorted { $0.token < $1.token }
    let tokens = try await tokens()
    let (storedGone, storedListed) = (try tokens.seal(gone.map(\.token)), try tokens.seal(listed.map(\.token)))
    let steps = [
      PostgresStep(
        .prepared(
          "apply_contacts",
          """
          INSERT INTO peer_contacts AS known (peer, token, supports_sms, voice, pass)
          SELECT p.name, i.token, i.supports_sms, i.voice, p.contacts_pass
          FROM peers AS p CROSS JOIN unnest($2::bytea[], $3::boolean[], $4::boolean[]) AS i (token, supports_sms, voice)
          WHERE p.name = $1::text AND p.contacts_mode = 'copy'
          ON CONFLICT (peer, token) DO UPDATE SET supports_sms = excluded.supports_sms, voice = excluded.voice,
            pass = greatest(known.pass, excluded.pass), unlisted = NULL
          """),
        PostgresParameters {
          $0.add(text: peer.text)
          $0.add(tokens: storedListed)
          $0.add(booleans: listed.map(\.supportsSMS))
          $0.add(booleans: listed.map(\.voice))
        }),
      Self.unlisting(storedGone, of: peer),
      PostgresStep(
        .prepared(
          "apply_contacts_mark",
          "UPDATE peers SET contacts_mark = $2::bytea WHERE name = $1::text AND contacts_mode = 'copy'"),
        PostgresParameters {
          $0.add(text: peer.text)
          $0.add(opaque: mark)
        }),
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
      .prepared(
        "kept_contacts", "SELECT token FROM peer_contacts WHERE peer = $1::text AND token = ANY ($2::bytea[])"),
      PostgresParameters {
        $0.add(text: peer.text)
        $0.add(tokens: stored)
      })
    var kept: Set<ContactToken> = []
    for index in result.rows {
      var row = result.cursor(row: index)
      kept.insert(try sealer.open(row.token()))
    }
    return kept
  }

  package func claimants(of token: ContactToken) async throws(StoreError) -> [RelayName] {
    let stored = try await tokens().seal(token)
    let result = try await read(
      .prepared(
        "claimants",
        """
        SELECT c.peer FROM peer_contacts AS c JOIN peers AS p ON p.name = c.peer
        WHERE c.token = $1::bytea AND p.state = 'active' AND p.contacts_mode <> 'none'
        ORDER BY c.since, c.peer
        """), PostgresParameters { $0.add(token: stored) })
    var names: [RelayName] = []
    for index in result.rows {
      var row = result.cursor(row: index)
      names.append(try row.relayName())
    }
    return names
  }
}
