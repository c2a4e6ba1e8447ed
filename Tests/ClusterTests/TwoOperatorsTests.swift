import ChildProcesses
import Foundation
import RelayClient
import TestSupport
import TestTags
import Testing

/// Two operators, peered by their commands while both serve.
@Suite(.tags(.processes)) struct TwoOperatorsTests {
  enum Kind: Sendable, CaseIterable, CustomTestStringConvertible {
    case embedded
    case servers(Cluster.Servers)

    static let allCases: [Kind] = [.embedded] + Cluster.Servers.allCases.map(Kind.servers)

    var testDescription: String {
      switch self {
      case .embedded: "embedded"
      case .servers(let servers): "servers: \(servers)"
      }
    }
  }

  @Test(arguments: Kind.allCases)
  func `peered relays pass keys, messages and contacts; a suspended peer is refused at once in both directions`(
    kind: Kind
  ) async throws {
    try await Self.with("alpha", on: kind) { alpha in
      try await Self.with("beta", on: kind) { beta in
        let (a, b) = (alpha.relays[0], beta.relays[0])
        try await expectPeering(alpha, beta)

        let ann = try await RelayClient(url: a.url).register(try #require(PhoneNumber(TestDevice.freshNumber())))
        let number = try #require(PhoneNumber(TestDevice.freshNumber()))
        let bob = try await RelayClient(url: b.url).register(number)
        try await Self.expectDirectory(ann, finds: number, at: "beta")
        try await Self.expectMessage(from: ann, to: bob, number, at: "beta", as: "alpha")

        // Each process of an operator, the one that peers do not reach included, goes by the same list.
        for relay in alpha.relays {
          let other = try RelayClient(url: relay.url, credentials: ann.client.credentials)
          #expect(try await other.drawPreKeys(of: number, at: "beta").count == 1)
        }
        try await expectSuspension(alpha, beta, ann, bob, number)
      }
    }
  }

  /// By both sides' commands: suspended here or there, nothing passes, in either direction.
  private func expectSuspension(
    _ alpha: Site, _ beta: Site, _ ann: RegisteredDevice, _ bob: RegisteredDevice, _ bobs: PhoneNumber
  ) async throws {
    let anns = try #require(ann.client.credentials).device.number
    for (one, peer) in [(alpha, "beta"), (beta, "alpha")] {
      try await one.site.relay("peer", "suspend", peer)
      #expect(try await one.peers().map(\.state) == ["suspended"])
      // The command tells the running processes nothing but through the store: they look every second.
      try await eventually("refused from here to there", within: .seconds(20)) {
        try await Self.status { try await ann.client.drawPreKeys(of: bobs, at: "beta") } != 200
      }
      try await eventually("refused from there to here", within: .seconds(20)) {
        try await Self.status { try await bob.client.drawPreKeys(of: anns, at: "alpha") } != 200
      }
      let message = OutgoingMessage(body: [1])
      #expect(
        [403, 404, 503].contains(try await Self.status { try await ann.client.send([message], to: bobs, at: "beta") }))
      #expect(
        [403, 404, 503].contains(try await Self.status { try await bob.client.send([message], to: anns, at: "alpha") }))
      try await one.site.relay("peer", "resume", peer)
      try await eventually("passing again", within: .seconds(60)) {
        let there = try await Self.status { try await ann.client.drawPreKeys(of: bobs, at: "beta") }
        let back = try await Self.status { try await bob.client.drawPreKeys(of: anns, at: "alpha") }
        return there == 200 && back == 200
      }
    }
    #expect(try await bob.client.fetchMessages().messages.isEmpty)
  }

  /// Signed prekeys, receipts and attachments of the other operator, and every rule that needs a peer.
  @Test(arguments: Kind.allCases)
  func `the whole client API works across peers`(kind: Kind) async throws {
    try await Self.with("alpha", on: kind) { alpha in
      try await Self.with("beta", on: kind) { beta in
        try await expectPeering(alpha, beta)
        let (a, b) = (alpha.relays[0], beta.relays[0])
        let (anns, bobs) = (
          try #require(PhoneNumber(TestDevice.freshNumber())), try #require(PhoneNumber(TestDevice.freshNumber()))
        )
        let ann = try await RelayClient(url: a.url).register(anns).client
        let bob = try await RelayClient(url: b.url).register(bobs).client
        try await Self.expectSignedKeys(of: bob, bobs, drawnBy: ann)
        try await Self.expectReceipts(from: bob, bobs, to: ann, anns)

        let slot = try await bob.newAttachment()
        let blob = (0..<70_000).map { UInt8(truncatingIfNeeded: $0 &* 31) }
        try await bob.upload(blob, to: slot)
        #expect(try await ann.attachment(slot.id, at: "beta", bytesMax: 1 << 20) == blob)

        let result = try await alpha.site.run(
          ["conformance", "--target", a.url, "--relay", "beta", "--filter", "relay"], within: .seconds(120))
        #expect(result.exit == .code(0), "\(result.output.suffix(2000)) \(result.errors)")
        #expect(result.output.split(separator: "\n").count { $0.hasPrefix("ok ") } >= 3, "\(result.output)")
      }
    }
  }

  private static func expectSignedKeys(of bob: RelayClient, _ number: PhoneNumber, drawnBy ann: RelayClient)
    async throws
  {
    let identity = try IdentityKeys()
    let publicKey = try IdentityKeys().publicKey
    let signed = SignedPublicPreKey(
      keyID: 9, publicKey: publicKey, signature: try identity.signature(of: publicKey))
    let oneTime = PublicPreKey(keyID: 1, publicKey: publicKey)
    let last = PublicPreKey(keyID: 16_777_215, publicKey: publicKey)
    try await bob.upload(
      SignedPreKeyBundle(identityKey: identity.publicKey, oneTimeKeys: [oneTime], lastResort: last, signed: signed))
    for expected in [oneTime, last] {
      let drawn = try await ann.drawKeys(of: number, at: "beta")
      #expect(drawn.map(\.preKey) == [expected])
      #expect(drawn.map(\.signed) == [signed] && drawn.map(\.identityKey) == [identity.publicKey])
    }
  }

  /// One that an acknowledgement makes, one that is sent by itself, and none for what never arrived.
  private static func expectReceipts(
    from bob: RelayClient, _ bobs: PhoneNumber, to ann: RelayClient, _ anns: PhoneNumber
  ) async throws {
    for time in [Int64(1111), 2222] {
      try await ann.send([OutgoingMessage(body: [1])], to: bobs, at: "beta", timestamp: time)
    }
    let received = try await bob.fetchMessages().messages
    #expect(received.map(\.timestamp) == [1111, 2222] && received.map(\.relay) == ["alpha", "alpha"])
    try await bob.acknowledge(try #require(received.first))
    try await bob.sendReceipt(for: 2222, to: anns, at: "alpha")
    let receipts = try await eventually("both receipts have crossed") {
      let page = try await ann.fetchMessages().messages
      return page.count == 2 ? page : nil
    }
    #expect(Set(receipts.map(\.timestamp)) == [1111, 2222])
    #expect(receipts.allSatisfy { $0.type == 5 && $0.relay == "beta" && $0.source.number == bobs && $0.body.isEmpty })
    #expect(try await status { try await bob.sendReceipt(for: 3333, to: anns, at: "alpha") } == 404)
  }

  /// Draws gather on their way: at each process of the asking operator, in requests between the two, and in the store.
  @Test(arguments: Kind.allCases)
  func `of all who draw keys at once, here and at a peer, each gets keys of his own`(kind: Kind) async throws {
    try await Self.with("alpha", on: kind) { alpha in
      try await Self.with("beta", on: kind) { beta in
        try await expectPeering(alpha, beta)
        let supply = 120
        var owners: [PhoneNumber] = []
        for _ in 0..<4 {
          let number = try #require(PhoneNumber(TestDevice.freshNumber()))
          try await Self.refill(
            try await RelayClient(url: beta.relays[0].url).register(number).client, with: supply)
          owners.append(number)
        }
        // Peers' clients, and the owners' relay's own.
        let ann = try await RelayClient(url: alpha.relays[0].url).register(
          try #require(PhoneNumber(TestDevice.freshNumber())))
        let cat = try await RelayClient(url: beta.relays[0].url).register(
          try #require(PhoneNumber(TestDevice.freshNumber())))
        let theirs = try alpha.relays.map { try RelayClient(url: $0.url, credentials: ann.client.credentials) }
        let ours = try beta.relays.map { try RelayClient(url: $0.url, credentials: cat.client.credentials) }
        try await eventually("alpha's processes reach beta") {
          for client in theirs {
            let nobody = try #require(PhoneNumber(TestDevice.freshNumber()))
            guard try await Self.status({ try await client.drawPreKeys(of: nobody, at: "beta") }) == 404 else {
              return false
            }
          }
          return true
        }
        let draws = (0..<supply).flatMap { turn in owners.map { (turn: turn, owner: $0) } }
        let drawn = try await withThrowingTaskGroup(of: (PhoneNumber, Int64).self) { group in
          var waiting = draws[...]
          func begin() {
            guard let (turn, owner) = waiting.popFirst() else { return }
            let isPeers = turn % 4 != 0
            let client = isPeers ? theirs[turn % theirs.count] : ours[turn % ours.count]
            group.addTask {
              let keys = try await client.drawPreKeys(of: owner, at: isPeers ? "beta" : nil)
              return (owner, try #require(keys.first).preKey.keyID)
            }
          }
          for _ in 0..<48 { begin() }
          var drawn: [(PhoneNumber, Int64)] = []
          for try await key in group {
            drawn.append(key)
            begin()
          }
          return drawn
        }
        for owner in owners {
          // All of them, and none twice.
          #expect(drawn.filter { $0.0 == owner }.map(\.1).sorted() == (0..<Int64(supply)).map { $0 })
          #expect(try await theirs[0].drawPreKeys(of: owner, at: "beta").map(\.preKey.keyID) == [16_777_215])
        }
      }
    }
  }

  private static func refill(_ client: RelayClient, with count: Int) async throws {
    let (identity, publicKey) = (try IdentityKeys(), try IdentityKeys().publicKey)
    try await client.upload(
      PreKeyBundle(
        identityKey: identity.publicKey,
        oneTimeKeys: (0..<Int64(count)).map { PublicPreKey(keyID: $0, publicKey: publicKey) },
        lastResort: PublicPreKey(keyID: 16_777_215, publicKey: publicKey)))
  }

  @Test func `a removed peer and its contacts are gone`() async throws {
    try await Self.with("alpha", on: .embedded) { alpha in
      try await Self.with("beta", on: .embedded) { beta in
        try await expectPeering(alpha, beta)
        let ann = try await RelayClient(url: alpha.relays[0].url).register(
          try #require(PhoneNumber(TestDevice.freshNumber())))
        let number = try #require(PhoneNumber(TestDevice.freshNumber()))
        _ = try await RelayClient(url: beta.relays[0].url).register(number)
        try await Self.expectDirectory(ann, finds: number, at: "beta")
        try await alpha.site.relay("peer", "remove", "beta")
        #expect(try await alpha.peers().isEmpty)
        try await eventually("the contact is gone") {
          try await ann.client.lookUp(token: ContactTokens.token(for: number)) == nil
        }
        try await eventually("the relay is unknown", within: .seconds(20)) {
          try await Self.status { try await ann.client.drawPreKeys(of: number, at: "beta") } == 404
        }
      }
    }
  }

  @Test func `an invitation makes one peering only`() async throws {
    try await Self.with("alpha", on: .embedded) { alpha in
      try await Self.with("beta", on: .embedded) { beta in
        let word = try await expectPeering(alpha, beta)
        // The same relay again: an answer may have been lost.
        try await beta.site.relay("peer", "accept", word)
        try await Self.with("gamma", on: .embedded) { gamma in
          let result = try await gamma.site.run(["peer", "accept", word])
          #expect(result.exit == .code(1))
          #expect(result.errors.contains("Error: "), "\(result.errors)")
          #expect(try await gamma.peers().isEmpty)
          #expect(try await alpha.peers().map(\.name) == ["beta"])
        }
      }
    }
  }

  // MARK: - Steps

  /// - Returns: the invitation, used.
  @discardableResult
  private func expectPeering(_ alpha: Site, _ beta: Site) async throws -> String {
    let invited = try await alpha.site.relay("peer", "invite").split(separator: "\n")
    let word = String(try #require(invited.last))
    try await beta.site.relay("peer", "accept", word)
    let (ours, theirs) = (try await alpha.peers(), try await beta.peers())
    #expect(ours.map(\.name) == ["beta"] && theirs.map(\.name) == ["alpha"])
    #expect(ours.map(\.state) == ["active"] && theirs.map(\.state) == ["active"])
    #expect(ours.map(\.ourWords) == theirs.map(\.theirWords) && ours.map(\.theirWords) == theirs.map(\.ourWords))
    #expect(ours.first?.ourWords.split(separator: " ").count == 10 && ours.first?.ourWords != ours.first?.theirWords)
    #expect(ours.first?.url == "https://127.0.0.1:\(beta.site.federationPort)")
    return word
  }

  private static func expectDirectory(_ ann: RegisteredDevice, finds number: PhoneNumber, at relay: String) async throws
  {
    let token = ContactTokens.token(for: number)
    try await eventually("the contact appears") {
      try await ann.client.lookUpInClear([token]) == [Contact(token: token, relay: relay)]
    }
  }

  private static func expectMessage(
    from ann: RegisteredDevice, to bob: RegisteredDevice, _ number: PhoneNumber, at relay: String, as origin: String
  ) async throws {
    let sender = try #require(ann.client.credentials).device
    let key = try #require(try await ann.client.drawPreKeys(of: number, at: relay).first)
    #expect(key.registrationID == bob.attributes.registrationID)
    #expect(try await bob.client.preKeyCount() == 99)
    let box = try SealedBox.seal(Array("hello".utf8), to: key, of: number, from: sender)
    let message = OutgoingMessage(deviceID: 1, registrationID: key.registrationID, body: box)
    // Repeated, as after a lost answer.
    for _ in 0..<2 { try await ann.client.send([message], to: number, at: relay, timestamp: 1234) }
    let page = try await bob.client.fetchMessages()
    #expect(page.messages.count == 1)
    let received = try #require(page.messages.first)
    #expect(received.relay == origin && received.timestamp == 1234 && received.source == sender)
    let text = try bob.keys.open(received.body, from: received.source, to: Correspondent(number))
    #expect(text == Array("hello".utf8))
    try await bob.client.acknowledge(received)

    // The far relay's word on devices comes back as it is.
    let stale = OutgoingMessage(deviceID: 1, registrationID: key.registrationID % 16383 + 1, body: [1])
    await #expect(throws: RelayClientError.staleDevices([1])) {
      try await ann.client.send([stale], to: number, at: relay)
    }
    await #expect(throws: RelayClientError.mismatchedDevices(missing: [1], extra: [2])) {
      try await ann.client.send([OutgoingMessage(deviceID: 2, body: [1])], to: number, at: relay)
    }
    let nobody = try #require(PhoneNumber(TestDevice.freshNumber()))
    #expect(try await status { try await ann.client.send([message], to: nobody, at: relay) } == 404)
    #expect(try await status { try await ann.client.drawPreKeys(of: nobody, at: relay) } == 404)
  }

  /// The status of a call's answer: 200 when it succeeds.
  private static func status(_ call: () async throws -> some Any) async throws -> Int {
    do {
      _ = try await call()
      return 200
    } catch let error as RelayClientError {
      guard let status = error.status else { throw error }
      return status
    }
  }

  // MARK: - Operators

  struct Site: Sendable {
    let site: RelayOperator
    let relays: [RelayProcess]

    struct Listed: Decodable {
      let name: String
      let url: String
      let state: String
      let ourWords: String
      let theirWords: String
      let leafExpires: String?
      let authorityExpires: String
    }

    func peers() async throws -> [Listed] {
      try JSONDecoder().decode([Listed].self, from: Data(try await site.relay("peer", "list", "--json").utf8))
    }
  }

  /// An operator with certificates, serving clients and peers: one process, or two on servers.
  private static func with(
    _ name: String, on kind: Kind, _ body: @escaping @Sendable (Site) async throws -> Void
  ) async throws {
    let settings = Cluster.unlimited.merging(["RELAY_FEDERATION_DIRECTORY_INTERVAL": "0.2"]) { $1 }
    let run = { @Sendable (site: RelayOperator, count: Int) in
      try await site.relay("ca", "init")
      try await site.relay("ca", "issue")
      var relays: [RelayProcess] = []
      do {
        // Peers reach the first; the others listen too, as they would behind a balancer.
        for index in 0..<count {
          let port = index == 0 ? site.federationPort : try Loopback.freePorts(1)[0]
          relays.append(try await site.serve(["RELAY_FEDERATION_PORT": "\(port)"]))
        }
        try await body(Site(site: site, relays: relays))
        for relay in relays { #expect(await relay.terminate() == .code(0), "\(relay.log().suffix(1000))") }
      } catch {
        for relay in relays { await relay.kill9() }
        throw error
      }
    }
    switch kind {
    case .embedded: try await RelayOperator.with(name, settings: settings) { try await run($0, 1) }
    case .servers(let servers):
      try await Cluster.with(name, on: servers, settings: settings) { try await run($0.site, 2) }
    }
  }
}
