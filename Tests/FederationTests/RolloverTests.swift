import Foundation
import RelayCore
import Storage
import SwiftASN1
import TestSupport
import TestTags
import Testing
import X509

@testable import Federation

/// The way from one CA to the next.
@Suite(.tags(.stores)) struct RolloverTests {
  private let now = TestRelay.systemClock.now()

  // MARK: The files

  @Test func `the next authority is named and takes over`() async throws {
    try await withFolder { folder, relay in
      let before = try folder.load(for: name("alpha"))
      let next = try folder.beginRollover(for: name("alpha"), now: now)
      #expect(try folder.beginRollover(for: name("alpha"), now: now) == next)
      #expect(try folder.load(for: name("alpha")).fingerprint == before.fingerprint)
      let named = try #require(try folder.loadStatement())
      #expect(named.isSigned(by: before.authority))
      #expect(named.statement.next?.keyFingerprint == next.fingerprint)

      #expect(try folder.finishRollover(for: name("alpha"), at: relay, now: now) == next)
      let after = try folder.load(for: name("alpha"))
      #expect(after.fingerprint == next.fingerprint)
      let own = try #require(try folder.loadStatement())
      #expect(own.isSigned(by: after.authority))
      #expect(own.statement.next == nil)
      #expect(own.statement.sequence > named.statement.sequence)
      #expect(
        try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted() == [
          "authority.json", "ca-former.pem", "ca.key", "ca.pem", "issued.json", "leaf.key", "leaf.pem",
        ])
      #expect(kind { try folder.finishRollover(for: name("alpha"), at: relay, now: now) } == .noRollover)
      // The next leaf is the new CA's, and so on, round after round.
      try folder.renewLeaf(for: name("alpha"), at: relay, now: now)
      _ = try folder.beginRollover(for: name("alpha"), now: now)
      _ = try folder.finishRollover(for: name("alpha"), at: relay, now: now)
      #expect(try folder.load(for: name("alpha")).fingerprint != next.fingerprint)
    }
  }

  @Test func `a rollover can be given up`() async throws {
    try await withFolder { folder, _ in
      #expect(kind { try folder.cancelRollover(for: name("alpha"), now: now) } == .noRollover)
      let first = try folder.beginRollover(for: name("alpha"), now: now)
      try folder.cancelRollover(for: name("alpha"), now: now)
      #expect(try folder.loadStatement()?.statement.next == nil)
      #expect(kind { try folder.rollover() } == .noRollover)
      #expect(try folder.beginRollover(for: name("alpha"), now: now) != first)
    }
  }

  @Test func `a rollover that was killed after any write still serves, and can be repeated`() async throws {
    try await withFolder { folder, relay in
      let former = try folder.load(for: name("alpha")).fingerprint
      let next = try folder.beginRollover(for: name("alpha"), now: now)
      let before = try snapshot(folder)
      _ = try folder.finishRollover(for: name("alpha"), at: relay, now: now)
      let after = try snapshot(folder)
      // The writes of `finish` to the files, in its order.
      let writes: [(inout [String: Data]) -> Void] = [
        { $0["issued.json"] = after["issued.json"] }, { $0["leaf-next.key"] = after["leaf.key"] },
        { $0["leaf.pem"] = after["leaf.pem"] },
        {
          $0["leaf.key"] = after["leaf.key"]
          $0["leaf-next.key"] = nil
        }, { $0["authority.json"] = after["authority.json"] }, { $0["ca-former.pem"] = after["ca-former.pem"] },
        {
          $0["ca.key"] = after["ca.key"]
          $0["ca-next.key"] = nil
        },
        {
          $0["ca.pem"] = after["ca.pem"]
          $0["ca-next.pem"] = nil
        },
      ]
      for count in 0..<writes.count {
        var files = before
        for write in writes[..<count] { write(&files) }
        let isNew = count >= 3

        try restore(files, folder)
        #expect(try folder.load(for: name("alpha")).fingerprint == (isNew ? next.fingerprint : former), "\(count)")
        // A cron job's renewal in between stays with the CA that is presented.
        try folder.renewLeaf(for: name("alpha"), at: relay, now: now)
        #expect(try folder.load(for: name("alpha")).fingerprint == (isNew ? next.fingerprint : former), "\(count)")

        try restore(files, folder)
        #expect(kind { try folder.cancelRollover(for: name("alpha"), now: now) } == (isNew ? .rolloverUnderWay : nil))

        try restore(files, folder)
        #expect(try folder.finishRollover(for: name("alpha"), at: relay, now: now) == next, "\(count)")
        let serving = try folder.load(for: name("alpha"))
        #expect(serving.fingerprint == next.fingerprint, "\(count)")
        #expect(try folder.loadStatement()?.isSigned(by: serving.authority) == true, "\(count)")
        try folder.issueLeaf(for: name("alpha"), at: relay, now: now)
      }
      try restore(after, folder)
      #expect(try folder.load(for: name("alpha")).fingerprint == next.fingerprint)
    }
  }

  @Test func `a reader never meets a mixed state`() async throws {
    try await withFolder { folder, relay in
      try await withThrowingTaskGroup(of: Void.self) { group in
        group.addTask {
          for _ in 0..<20 {
            _ = try folder.beginRollover(for: name("alpha"), now: now)
            _ = try folder.finishRollover(for: name("alpha"), at: relay, now: now)
          }
        }
        group.addTask {
          for _ in 0..<600 { _ = try folder.load(for: name("alpha")) }
        }
        try await group.waitForAll()
      }
    }
  }

  @Test func `commands of two operators at once do not undo each other`() async throws {
    try await withFolder { folder, relay in
      try await withThrowingTaskGroup(of: Void.self) { group in
        for _ in 0..<20 {
          group.addTask { try folder.renewLeaf(for: name("alpha"), at: relay, now: now) }
        }
        try await group.waitForAll()
      }
      #expect(try folder.issuedLeaves(now: now).count == 21)
    }
  }

  // MARK: Between two relays

  @Test func `a peer follows a rollover without a lost request`() async throws {
    try await withPeers { alpha, beta in
      let former = alpha.identity.credentials.fingerprint
      let next = try alpha.folder.beginRollover(for: alpha.name, now: alpha.clock.now())
      try await eventually("the statement is loaded") { alpha.identity.statement != nil }
      let named = alpha.identity.statement
      try await follow(alpha, at: beta)
      #expect(beta.registry.current.byName[alpha.name]?.fingerprints == [former, next.fingerprint])
      try await expectTraffic(alpha, beta)

      let known = beta.registry.peers
      let findings = await RolloverSurvey(
        credentials: alpha.identity.credentials, addresses: alpha.addresses, limits: .patient
      )
      .ask(alpha.registry.peers, about: next.fingerprint)
      #expect(findings == [beta.name: .takenUp])
      #expect(known.count == 1)

      _ = try alpha.folder.finishRollover(for: alpha.name, at: alpha.endpoint, now: alpha.clock.now())
      try await eventually("the new CA is presented, and speaks") {
        alpha.identity.credentials.fingerprint == next.fingerprint
          && alpha.identity.statement != named
      }
      // Before beta has heard that it took over, and after.
      try await expectTraffic(alpha, beta)
      try await follow(alpha, at: beta)
      #expect(beta.registry.current.byName[alpha.name]?.fingerprints == [next.fingerprint])
      try await expectTraffic(alpha, beta)
      // The new CA's words, on both sides.
      let (ours, seen) = (try await alpha.peering().list(), try await beta.peering().list())
      #expect(ours.map(\.ourWords) == [next.words.description] && seen.map(\.theirWords) == [next.words.description])
      #expect(seen.map(\.theirNextWords) == [nil])
    }
  }

  /// Other hosts of the same operator present the former leaf until the new one was copied to them.
  @Test func `until the new authority speaks, peers accept leaves of both`() async throws {
    try await withPeers { alpha, beta in
      let former = alpha.identity.credentials
      let next = try alpha.folder.beginRollover(for: alpha.name, now: alpha.clock.now())
      try await eventually("the statement is loaded") { alpha.identity.statement != nil }
      try await follow(alpha, at: beta)
      let leaf = try alpha.folder.issueNextLeaf(for: alpha.name, at: alpha.endpoint, now: alpha.clock.now())
      #expect(try alpha.folder.issueNextLeaf(for: alpha.name, at: alpha.endpoint, now: alpha.clock.now()) == leaf)
      try await eventually("the new leaf is presented") { alpha.identity.credentials.fingerprint == next.fingerprint }
      #expect(try alpha.folder.load(for: alpha.name).leaf.keyFingerprint == leaf.fingerprint)
      try await follow(alpha, at: beta)
      let known = try #require(beta.registry.current.byName[alpha.name])
      #expect(known.fingerprints == [former.fingerprint, next.fingerprint])
      #expect(known.authority(of: former.leaf) != nil && known.authority(of: alpha.identity.credentials.leaf) != nil)
      try await expectTraffic(alpha, beta)

      _ = try alpha.folder.finishRollover(for: alpha.name, at: alpha.endpoint, now: alpha.clock.now())
      #expect(try alpha.folder.load(for: alpha.name).leaf.keyFingerprint == leaf.fingerprint)
      try await eventually("the new CA speaks") {
        try await follow(alpha, at: beta)
        return beta.registry.current.byName[alpha.name]?.fingerprints == [next.fingerprint]
      }
      try await expectTraffic(alpha, beta)
    }
  }

  @Test func `a peer that has not heard of the rollover is named`() async throws {
    try await withPeers { alpha, beta in
      let next = try alpha.folder.beginRollover(for: alpha.name, now: alpha.clock.now())
      let survey = RolloverSurvey(credentials: alpha.identity.credentials, addresses: alpha.addresses, limits: .patient)
      #expect(await survey.ask(alpha.registry.peers, about: next.fingerprint) == [beta.name: .notYet])
    }
    try await withScriptedPeers(["old"]) { beta, peers in
      peers[0].answer(200, #"{"name":"beta","state":"active"}"#)
      let survey = RolloverSurvey(credentials: beta.identity.credentials, addresses: beta.addresses, limits: .patient)
      try await eventually("the registry has read the peer") { await beta.registry.peer(named: try name("old")) != nil }
      #expect(await survey.ask(beta.registry.peers, about: [1]) == [try name("old"): .cannotTell])
      peers[0].answer(403, "peer-refused: no")
      #expect(
        await survey.ask(beta.registry.peers, about: [1]) == [try name("old"): .silent(reason: "it answered 403")])
    }
  }

  @Test func `a statement without its authority's signature is refused, and told once`() async throws {
    try await withScriptedPeers(["alpha"]) { beta, peers in
      let thief = try CertificateAuthority(for: name("alpha"), now: now)
      let forged = try SignedStatement(
        AuthorityStatement(
          name: name("alpha"), sequence: 9, authority: thief.certificate, next: nil, revokedSerials: []), by: thief)
      peers[0].answer(200, String(decoding: try forged.json(), as: UTF8.self))
      let alpha = try #require(await beta.registry.peer(named: name("alpha")))
      await #expect(throws: TrustFault.self) { try await sync(at: beta).ask(alpha) }
      peers[0].answer(200, "nonsense")
      await #expect(throws: TrustFault.self) { try await sync(at: beta).ask(alpha) }
      peers[0].answer(404)
      try await sync(at: beta).ask(alpha)
      #expect(try await beta.storage.peers().first?.trust == PeerTrust())
    }
  }

  // MARK: Support

  private func sync(at relay: TestRelay) -> TrustSync {
    TrustSync(
      registry: relay.registry, transport: relay.transport, store: relay.storage, signals: relay.coordination,
      logger: relay.log.logger)
  }

  private func follow(_ peer: TestRelay, at relay: TestRelay) async throws {
    try await sync(at: relay).ask(#require(await relay.registry.peer(named: peer.name)))
  }

  private func expectTraffic(_ alpha: TestRelay, _ beta: TestRelay) async throws {
    for (client, server) in [(alpha, beta), (beta, alpha)] {
      let keys = try await client.courier.preKeys(
        of: number("+14155550100"), devices: .all, version: .two, at: server.name)
      #expect(keys == FixedDispenser.keys)
    }
  }

  private func withFolder(_ body: @Sendable (IdentityFolder, PeerEndpoint) async throws -> Void) async throws {
    try await withTemporaryFolder { path in
      let folder = IdentityFolder(path: path + "/federation")
      let relay = try endpoint("https://relay.example")
      try folder.createAuthority(for: name("alpha"), now: now)
      try folder.issueLeaf(for: name("alpha"), at: relay, now: now)
      try await body(folder, relay)
    }
  }

  private func snapshot(_ folder: IdentityFolder) throws -> [String: Data] {
    var files: [String: Data] = [:]
    for file in try FileManager.default.contentsOfDirectory(atPath: folder.path) {
      files[file] = try Data(contentsOf: URL(filePath: "\(folder.path)/\(file)"))
    }
    return files
  }

  private func restore(_ files: [String: Data], _ folder: IdentityFolder) throws {
    for file in try FileManager.default.contentsOfDirectory(atPath: folder.path) {
      try FileManager.default.removeItem(atPath: "\(folder.path)/\(file)")
    }
    for (file, content) in files { try content.write(to: URL(filePath: "\(folder.path)/\(file)")) }
  }

  private func kind(_ body: () throws -> Any) -> FederationError.Kind? {
    do {
      _ = try body()
      return nil
    } catch {
      return (error as? FederationError)?.kind
    }
  }
}
