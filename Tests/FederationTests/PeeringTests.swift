import NIOHTTP1
import RelayCore
import Storage
import TestSupport
import TestTags
import Testing

@testable import Federation

/// Two operators become peers in one conversation.
@Suite(.tags(.stores)) struct PeeringTests {
  @Test func `invite and accept make both sides active, and each sees the other's words`() async throws {
    try await withRelay("alpha") { alpha in
      try await withRelay("beta") { beta in
        let invitation = try await alpha.peering().invite(scopes: [.messages, .keys])
        let seenByBeta = try await beta.peering().accept(invitation.text)
        let seenByAlpha = try #require(try await alpha.peering().list().first)
        #expect(seenByAlpha.name.text == "beta")
        #expect(seenByBeta.name.text == "alpha")
        #expect(seenByAlpha.ourWords == seenByBeta.theirWords && seenByAlpha.theirWords == seenByBeta.ourWords)
        #expect(
          seenByAlpha.ourWords != seenByAlpha.theirWords && seenByAlpha.ourWords.split(separator: " ").count == 10)
        #expect(seenByAlpha.url == beta.endpoint.text)
        #expect(seenByBeta.url == alpha.endpoint.text)
        #expect(seenByAlpha.peer.state == .active && seenByBeta.peer.state == .active)
        #expect(seenByAlpha.scopes == [.keys, .messages] && seenByBeta.scopes == [.keys, .messages])
      }
    }
  }

  @Test func `peers answer each other at once`() async throws {
    try await withPeers { alpha, beta in
      let keys = try await beta.courier.preKeys(
        of: try #require(FixedDispenser.account), devices: .all, version: .two, at: name("alpha"))
      #expect(keys == FixedDispenser.keys)
      let others = try await alpha.courier.preKeys(
        of: try #require(FixedDispenser.account), devices: .all, version: .two, at: name("beta"))
      #expect(others == FixedDispenser.keys)
    }
  }

  @Test func `an invitation serves once`() async throws {
    try await withRelay("alpha") { alpha in
      let invitation = try await alpha.peering().invite()
      try await withRelay("beta") { beta in _ = try await beta.peering().accept(invitation.text) }
      try await withRelay("gamma") { gamma in
        let error = await #expect(throws: FederationError.self) { try await gamma.peering().accept(invitation.text) }
        #expect(error?.kind == .refused)
        let names = try await gamma.peerNames()
        #expect(names.isEmpty)
      }
      #expect(try await alpha.peerNames() == ["beta active"])
    }
  }

  @Test func `accept may be repeated by the same operator`() async throws {
    try await withRelay("alpha") { alpha in
      try await withRelay("beta") { beta in
        let invitation = try await alpha.peering().invite()
        let first = try await beta.peering().accept(invitation.text)
        let again = try await beta.peering().accept(invitation.text)
        #expect(first == again)
        #expect(try await alpha.peerNames() == ["beta active"])
        #expect(try await beta.peerNames() == ["alpha active"])
      }
    }
  }

  /// An old invitation does not bring back a peer that the operator suspended or removed.
  @Test func `a repeated redemption reactivates nobody`() async throws {
    try await withRelay("alpha") { alpha in
      try await withRelay("beta") { beta in
        let word = try await alpha.peering().invite().text
        _ = try await beta.peering().accept(word)
        #expect(try await alpha.storage.setPeerState(.suspended, of: beta.name))
        await alpha.registry.refresh()
        await #expect(throws: FederationError.self) { try await beta.peering().accept(word) }
        #expect(try await alpha.peerNames() == ["beta suspended"])
        #expect(try await alpha.storage.removePeer(beta.name) == .removed)
        await alpha.registry.refresh()
        await #expect(throws: FederationError.self) { try await beta.peering().accept(word) }
        #expect(try await alpha.peerNames().isEmpty)
      }
    }
  }

  @Test func `an expired invitation is refused by both sides`() async throws {
    try await withRelay("alpha") { alpha in
      try await withRelay("beta") { beta in
        let invitation = try await alpha.peering().invite(validFor: .seconds(-5))
        let error = await #expect(throws: FederationError.self) { try await beta.peering().accept(invitation.text) }
        #expect(error?.kind == .expiredInvitation)
        // A clock that runs behind finds it good; the inviter does not.
        let slow = WallClock { beta.clock.now().adding(.seconds(-60)) }
        let refusal = await #expect(throws: FederationError.self) {
          try await beta.peering(clock: slow).accept(invitation.text)
        }
        #expect(refusal?.kind == .refused)
        #expect(try await alpha.peerNames().isEmpty)
        #expect(try await beta.peerNames().isEmpty)
      }
    }
  }

  @Test func `a man in the middle is noticed`() async throws {
    try await withRelay("alpha") { alpha in
      try await withRelay("mallory") { mallory in
        try await withRelay("beta") { beta in
          let genuine = try await alpha.peering().invite()
          _ = try await mallory.peering().invite()
          let diverted = InvitationCode(
            name: genuine.name, endpoint: mallory.endpoint, fingerprint: genuine.fingerprint, secret: genuine.secret,
            expires: genuine.expires, scopes: genuine.scopes)
          let error = await #expect(throws: FederationError.self) { try await beta.peering().accept(diverted.text) }
          #expect(error?.kind == .wrongFingerprint)
          #expect(try await beta.peerNames().isEmpty)
          #expect(try await mallory.peerNames().isEmpty)
        }
      }
    }
  }

  @Test func `the inviter must prove the name that it invited under`() async throws {
    try await withRelay("alpha") { alpha in
      try await withRelay("beta") { beta in
        let code = try await alpha.peering().invite()
        let renamed = InvitationCode(
          name: try name("delta"), endpoint: code.endpoint, fingerprint: code.fingerprint, secret: code.secret,
          expires: code.expires, scopes: code.scopes)
        let error = await #expect(throws: FederationError.self) { try await beta.peering().accept(renamed.text) }
        #expect(error?.kind == .wrongCertificate)
      }
    }
  }

  @Test func `relays of one name cannot peer`() async throws {
    try await withRelay("local") { one in
      try await withRelay("local") { other in
        let invitation = try await one.peering().invite()
        let error = await #expect(throws: FederationError.self) { try await other.peering().accept(invitation.text) }
        #expect(error?.kind == .nameTaken)
        #expect(try await one.peerNames().isEmpty)
      }
      let own = try await one.peering().invite()
      let error = await #expect(throws: FederationError.self) { try await one.peering().accept(own.text) }
      #expect(error?.kind == .ownInvitation)
    }
  }

  @Test func `a name that another authority holds is refused, and the invitation stays open`() async throws {
    try await withRelay("alpha") { alpha in
      let invitation = try await alpha.peering().invite()
      try await save(TestAuthority("beta"), as: "beta", at: alpha)
      try await withRelay("beta") { beta in
        let error = await #expect(throws: FederationError.self) { try await beta.peering().accept(invitation.text) }
        #expect(error?.kind == .nameTaken)
        #expect(error?.remedy.contains("relay peer remove") == true)
        #expect(try await beta.peerNames().isEmpty)
        #expect(try await alpha.storage.removePeer(name("beta")) == .removed)
        _ = try await beta.peering().accept(invitation.text)
        #expect(try await alpha.peerNames() == ["beta active"])
      }
    }
  }

  @Test func `a stranger may redeem an invitation, and nothing else`() async throws {
    try await withRelay("alpha") { alpha in
      _ = try await alpha.peering().invite()
      let leaf = try TestAuthority("stranger").leaf(relay: "stranger")
      let configuration = try leaf.clientConfiguration(trusting: alpha.ownAuthority)
      try await withClient(to: alpha.endpoint.text, configuration) { client in
        for path in [
          "user_count", "user_tokens/0", "key/+14155550100", "key/+14155550100/*", "attachment/7", "peering",
          "nothing",
        ] {
          #expect(try await client.get("/v1/federation/\(path)").status == 403, "\(path)")
        }
        let message = "/v1/federation/messages/+14155550101/1/+14155550100"
        #expect(try await client.send(.PUT, message, body: #"{"messages":[]}"#).status == 403)
        #expect(alpha.intake.calls.isEmpty)
        let guess = Base64.encodeURLSafe([UInt8](repeating: 0, count: 32))
        let wrong = try await client.send(
          .PUT, "/v1/federation/peering",
          body: #"{"secret":"\#(guess)","name":"stranger","url":"https://127.0.0.1:1"}"#)
        #expect(wrong.status == 403)
        #expect(wrong.text.hasPrefix("invitation-refused"))
        let otherName = try await client.send(
          .PUT, "/v1/federation/peering",
          body: #"{"secret":"\#(guess)","name":"beta","url":"https://127.0.0.1:1"}"#)
        #expect(otherName.text.hasPrefix("peer-refused"))
        #expect(try await alpha.peerNames().isEmpty)
      }
    }
  }

  @Test func `a stranger's chain must hold together`() async throws {
    try await withRelay("alpha") { alpha in
      _ = try await alpha.peering().invite()
      let leaf = try TestAuthority("stranger").leaf(relay: "stranger").presented(with: TestAuthority("other"))
      let configuration = try leaf.clientConfiguration(trusting: alpha.ownAuthority)
      await #expect(throws: (any Error).self) {
        try await withClient(to: alpha.endpoint.text, configuration) { try await $0.get("/v1/federation/peering") }
      }
    }
  }

  @Test func `an inviter that is away is reported as unreachable`() async throws {
    let invitation = try await withRelay("alpha") { try await $0.peering().invite() }
    try await withRelay("beta") { beta in
      let error = await #expect(throws: FederationError.self) { try await beta.peering().accept(invitation.text) }
      #expect(error?.kind == .unreachable)
    }
  }

  /// Scopes that an operator has narrowed stay so, however often the old invitation is redeemed.
  @Test func `a repeated redemption widens nothing`() async throws {
    try await withRelay("alpha") { alpha in
      try await withRelay("beta") { beta in
        let word = try await alpha.peering().invite().text
        _ = try await beta.peering().accept(word)
        #expect(try await alpha.storage.setPeerScopes([.keys], of: beta.name))
        let change = PeerPolicyChange(holdsMessages: true, contacts: PeerPolicy.Contacts.none)
        #expect(try await alpha.storage.changePeerPolicy(change, of: beta.name))
        _ = try await beta.peering().accept(word)
        let peer = try #require(try await alpha.storage.peers().first)
        #expect(peer.scopes == [.keys])
        #expect(peer.policy == PeerPolicy(holdsMessages: true, contacts: .none))
      }
    }
  }

  @Test func `the URL of a peer is fixed at its first redemption`() async throws {
    try await withRelay("alpha") { alpha in
      try await withRelay("beta") { beta in
        let (word, another) = (try await alpha.peering().invite().text, try await alpha.peering().invite().text)
        _ = try await beta.peering().accept(word)
        let elsewhere = beta.peering(at: try endpoint("https://elsewhere.example:9443"))
        for invitation in [word, another] {
          let error = await #expect(throws: FederationError.self) { try await elsewhere.accept(invitation) }
          #expect(error?.kind == .urlFixed)
          #expect(error?.remedy.contains("relay peer set beta --url https://elsewhere.example:9443") == true)
        }
        #expect(try await alpha.storage.peers().map(\.url) == [beta.endpoint.text])
        // The operator's word changes it, and then it is the former one that is refused.
        #expect(try await alpha.storage.setPeerURL("https://elsewhere.example:9443", of: beta.name))
        _ = try await elsewhere.accept(word)
        let error = await #expect(throws: FederationError.self) { try await beta.peering().accept(word) }
        #expect(error?.kind == .urlFixed)
      }
    }
  }

  @Test func `an invitation does not change a peer's URL at the side that accepts`() async throws {
    try await withRelay("alpha") { alpha in
      try await withRelay("beta") { beta in
        _ = try await beta.peering().accept(try await alpha.peering().invite().text)
        let moved = try await alpha.peering(at: try endpoint("https://elsewhere.example:9443")).invite().text
        let error = await #expect(throws: FederationError.self) { try await beta.peering().accept(moved) }
        #expect(error?.remedy.contains("relay peer set alpha --url https://elsewhere.example:9443") == true)
        #expect(try await beta.storage.peers().map(\.url) == [alpha.endpoint.text])
      }
    }
  }

  @Test func `an invitation of a suspended peer does not resume it`() async throws {
    try await withRelay("alpha") { alpha in
      try await withRelay("beta") { beta in
        _ = try await beta.peering().accept(try await alpha.peering().invite().text)
        #expect(try await beta.storage.setPeerState(.suspended, of: alpha.name))
        let another = try await alpha.peering().invite().text
        let error = await #expect(throws: FederationError.self) { try await beta.peering().accept(another) }
        #expect(error?.remedy.contains("relay peer resume alpha") == true)
        #expect(try await beta.peerNames() == ["alpha suspended"])
      }
    }
  }

  @Test func `accepting grants the scopes that both name, and tells the scopes received`() async throws {
    try await withRelay("alpha") { alpha in
      try await withRelay("beta") { beta in
        let word = try await alpha.peering().invite(scopes: [.messages, .keys, .directory]).text
        let offer = try await beta.peering().offer(word, scopes: [.keys, .directory, .lookup])
        #expect(offer.grants == [.keys, .directory] && offer.gets == [.messages, .keys, .directory])
        #expect(try await beta.peerNames().isEmpty)
        #expect(try await alpha.peerNames().isEmpty)
        let accepted = try await beta.peering().accept(offer)
        #expect(accepted.peer.scopes == [.directory, .keys] && accepted.gets == [.directory, .keys, .messages])
        #expect(try await alpha.storage.peers().map(\.scopes) == [[.messages, .keys, .directory]])
        // Again: it keeps what it has, or less, and never more.
        #expect(try await beta.peering().accept(word).scopes == [.directory, .keys])
        #expect(try await beta.peering().accept(word, scopes: [.keys, .messages]).scopes == [.keys])
        #expect(try await beta.peering().accept(word).scopes == [.keys])
        let error = await #expect(throws: FederationError.self) {
          try await beta.peering().offer(word, scopes: [.messages])
        }
        #expect(error?.kind == .nothingGranted)
        #expect(try await beta.storage.peers().map(\.scopes) == [[.keys]])
        // A scope that the inviter takes back meanwhile is told.
        #expect(try await alpha.storage.setPeerScopes([.messages], of: beta.name))
        #expect(try await beta.peering().accept(beta.peering().offer(word)).gets == [.messages])
      }
    }
  }

  @Test func `an invitation covers the scopes that it names, and by default no look-ups alone`() async throws {
    try await withRelay("alpha") { alpha in
      let usual = try await alpha.peering().invite()
      #expect(usual.scopes == [.messages, .keys, .directory, .attachments])
      let narrow = try await alpha.peering().invite(scopes: [.lookup])
      #expect(narrow.scopes == [.lookup])
    }
  }
}
