// An own relay that is curious whom a client will write to: it learns of no contact, and no look-up follows that names
// it.

import RelayClient
import RelayCore
import TestSupport
import TestTags
import Testing

@Suite(.tags(.processes)) struct ObliviousHomeTests {
  @Test(arguments: StoreKind.allCases)
  func `an oblivious look-up says where contacts live, and no other look-up follows`(kind: StoreKind) async throws {
    // As many as the contacts: an ordinary look-up of one of them would be one too many.
    let settings = Victim.unlimited.merging([
      "RELAY_DIRECTORY_BUDGET_FIRST": "4", "RELAY_DIRECTORY_BUDGET_PER_DAY": "0",
    ]) { $1 }
    try await Victim.with(kind, settings: settings) { victim in
      let (beta, gamma) = (try await ScriptedPeer.start("beta"), try await ScriptedPeer.start("gamma"))
      for (peer, name) in [(beta, "beta"), (gamma, "gamma")] {
        peer.answer(503)
        try await victim.trust(peer, as: name)
      }
      let ours = try await victim.relay.register()
      let numbers = [ours.number] + (0..<3).map { _ in TestDevice.freshNumber() }
      let tokens = try numbers.map { try TestTokens.token(of: $0) }
      try await victim.list([try TestTokens.contactToken(of: numbers[1])], at: "beta", pass: 1)
      try await victim.list([try TestTokens.contactToken(of: numbers[2])], at: "gamma", pass: 1)

      let caller = try await victim.relay.register()
      let number = try #require(PhoneNumber(caller.number))
      let client = try RelayClient(
        url: victim.relay.url, credentials: Credentials(Correspondent(number), password: caller.password))
      var contacts = ObliviousContacts()
      func waitUntil(_ expected: [Contact], _ disclosure: ObliviousDisclosure = .nothing) async throws {
        try await eventually("\(expected.count) contacts", within: .seconds(60), every: .milliseconds(100)) {
          do throws(RelayClientError) {
            return try await client.lookUpObliviously(tokens, telling: disclosure, contacts: &contacts).contacts
              == expected
          } catch {
            guard error.status == 503 else { throw error }
            return false
          }
        }
      }
      let home = { (index: Int, relay: String?) in Contact(token: tokens[index], relay: relay) }
      try await waitUntil([home(0, nil), home(1, "beta"), home(2, "gamma")])
      try await waitUntil([home(0, nil), home(1, "beta"), home(2, "gamma")], .digits(2))
      let named = try await victim.relay.send(
        "GET", "/v1/directory/\(try TestTokens.urlSafe(numbers[1]))", as: caller)
      #expect(named.status == 413, "the budget was spent on elements alone")

      // The contact's owner changes, and nothing else of it: a number that proves itself here is ours.
      _ = try await victim.relay.register(numbers[1])
      try await waitUntil([home(0, nil), home(1, nil), home(2, "gamma")])
      // A peer goes, and its contacts with it.
      try await victim.site.relay("peer", "suspend", "gamma")
      try await waitUntil([home(0, nil), home(1, nil)])
      try await beta.close()
      try await gamma.close()
    }
  }
}

extension Victim {
  /// Writes down that the peer `name` lists `tokens`.
  fileprivate func list(_ tokens: [ContactToken], at name: String, pass: Int64) async throws {
    guard let peer = RelayName(name) else { throw TestFailure("not a relay's name") }
    let listed = tokens.map { ListedAccount(token: $0, isInactive: false, supportsSMS: false, voice: false) }
    try await withStorage { storage in try await storage.mergeContacts(listed, of: peer, pass: pass) }
  }
}
