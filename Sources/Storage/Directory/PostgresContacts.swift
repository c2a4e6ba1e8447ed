// The contacts that peers list, as they change, and the peers that list them.

package import RelayCore

extension PostgresStorage {
  package func applyContactChanges(
    _ changes: [ListedAccount], of peer: RelayName, mark: String
  ) async throws(StoreError) {
    let contacts = try StoredListing(changes, try await tokens())
    let steps = [
      PostgresStep(
        "apply_contacts",
        """
        INSERT INTO peer_contacts AS known (peer, token, supports_sms, voice, pass)
        SELECT p.name, i.token, i.supports_sms, i.voice, p.contacts_pass
        FROM peers AS p
        CROSS JOIN unnest(
          \(each: contacts.tokens), \(each: contacts.listed.lazy.map(\.supportsSMS)),
          \(each: contacts.listed.lazy.map(\.voice))
        ) AS i (token, supports_sms, voice)
        WHERE p.name = \(peer) AND p.contacts_mode = 'copy'
        ON CONFLICT (peer, token) DO UPDATE SET supports_sms = excluded.supports_sms, voice = excluded.voice,
          pass = greatest(known.pass, excluded.pass), unlisted = NULL
        """),
      Self.unlisting(contacts.gone, of: peer),
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

/// A part of a peer's listing as statements write it. If it names a token twice the later entry wins, since one
/// statement cannot write both.
struct StoredListing {
  /// The tokens that the peer does not list any more.
  let gone: [StoredToken]
  /// The contacts that it lists, ascending by token.
  let listed: [ListedAccount]
  /// Theirs, in the same order.
  let tokens: [StoredToken]

  init(_ accounts: [ListedAccount], _ sealer: TokenSealer) throws(StoreError) {
    let contacts = Dictionary(accounts.map { ($0.token, $0) }) { _, later in later }.values
    listed = contacts.filter { !$0.isInactive }.sorted { $0.token < $1.token }
    gone = try sealer.seal(contacts.filter(\.isInactive).map(\.token))
    tokens = try sealer.seal(listed.map(\.token))
  }
}
