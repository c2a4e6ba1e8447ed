import Foundation
import RelayCore
import TestSupport
import TestTags
import Testing
import X509

@testable import Federation

/// Our CA, leaf and keys on disk.
@Suite(.tags(.stores)) struct IdentityFolderTests {
  private let now = TestRelay.systemClock.now()

  @Test func `keys are readable by their owner alone`() async throws {
    try await withFolder { folder in
      try folder.createAuthority(for: name("alpha"), now: now)
      try folder.issueLeaf(for: name("alpha"), at: endpoint("https://relay.example:443"), now: now)
      #expect(try mode(folder.path) == 0o700)
      #expect(try mode(folder.authorityKeyFile) == 0o600)
      #expect(try mode(folder.leafKeyFile) == 0o600)
      #expect(
        try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted() == [
          "ca.key", "ca.pem", "issued.json", "leaf.key", "leaf.pem",
        ])
    }
  }

  @Test func `a leaf carries the host name and dates`() async throws {
    try await withFolder { folder in
      try folder.createAuthority(for: name("alpha"), now: now)
      let issued = try folder.issueLeaf(for: name("alpha"), at: endpoint("https://relay.example"), now: now)
      let credentials = try folder.load(for: name("alpha"))
      #expect(try credentials.leaf.relayName == name("alpha"))
      // Certificates know whole seconds.
      #expect(abs(issued.expires.millis - now.millis - 90 * Timestamp.millisPerDay) < 1000)
      #expect(credentials.authorityExpires.millis - now.millis > 3649 * Timestamp.millisPerDay)
      let check = ChainCheck(role: .server(try endpoint("https://relay.example")), now: now)
      try await check.verify(credentials.leaf, by: credentials.authority)
      await #expect(throws: ChainFault.wrongHost("other.example")) {
        try await ChainCheck(role: .server(endpoint("https://other.example")), now: now)
          .verify(credentials.leaf, by: credentials.authority)
      }
      try await ChainCheck(role: .client, now: now).verify(credentials.leaf, by: credentials.authority)
    }
  }

  @Test func `an address in the URL becomes an address in the leaf`() async throws {
    try await withFolder { folder in
      try folder.createAuthority(for: name("alpha"), now: now)
      for url in ["https://127.0.0.1:8443", "https://[::1]:8443"] {
        try folder.issueLeaf(for: name("alpha"), at: endpoint(url), now: now)
        let credentials = try folder.load(for: name("alpha"))
        try await ChainCheck(role: .server(endpoint(url)), now: now)
          .verify(credentials.leaf, by: credentials.authority)
      }
    }
  }

  @Test func `an authority is never overwritten unasked`() async throws {
    try await withFolder { folder in
      let first = try folder.createAuthority(for: name("alpha"), now: now)
      let error = #expect(throws: FederationError.self) { try folder.createAuthority(for: name("alpha"), now: now) }
      #expect(error?.kind == .authorityExists)
      try folder.issueLeaf(for: name("alpha"), at: endpoint("https://relay.example"), now: now)
      #expect(try folder.load(for: name("alpha")).fingerprint == first.fingerprint)
      let second = try folder.createAuthority(for: name("alpha"), replacing: true, now: now)
      #expect(second.fingerprint != first.fingerprint)
    }
  }

  @Test func `a mixed pair is explained`() async throws {
    try await withFolder { folder in
      try folder.createAuthority(for: name("alpha"), now: now)
      try folder.issueLeaf(for: name("alpha"), at: endpoint("https://relay.example"), now: now)
      let key = try String(contentsOfFile: folder.leafKeyFile, encoding: .utf8)
      try folder.issueLeaf(for: name("alpha"), at: endpoint("https://relay.example"), now: now)
      try key.write(toFile: folder.leafKeyFile, atomically: true, encoding: .utf8)
      let error = #expect(throws: FederationError.self) { try folder.load(for: name("alpha")) }
      #expect(error?.kind == .mixedPair)
      #expect(error?.remedy.contains("relay ca issue") == true)
    }
  }

  @Test func `a leaf of a former authority is explained`() async throws {
    try await withFolder { folder in
      try folder.createAuthority(for: name("alpha"), now: now)
      try folder.issueLeaf(for: name("alpha"), at: endpoint("https://relay.example"), now: now)
      try folder.createAuthority(for: name("alpha"), replacing: true, now: now)
      #expect(throws: FederationError.self) { try folder.load(for: name("alpha")) }
    }
  }

  @Test func `renewing keeps the key and moves the expiry`() async throws {
    try await withFolder { folder in
      try folder.createAuthority(for: name("alpha"), now: now)
      let issued = try folder.issueLeaf(for: name("alpha"), at: endpoint("https://relay.example"), now: now)
      let later = now.adding(.seconds(60 * 86_400))
      let renewed = try folder.renewLeaf(for: name("alpha"), at: endpoint("https://relay.example"), now: later)
      #expect(renewed.fingerprint == issued.fingerprint)
      #expect(abs(renewed.expires.millis - issued.expires.millis - 60 * Timestamp.millisPerDay) <= 1000)
      #expect(try folder.load(for: name("alpha")).leafExpires == renewed.expires)
    }
  }

  @Test func `a daily job renews only leaves that expire soon`() async throws {
    try await withFolder { folder in
      let relay = try endpoint("https://relay.example")
      try folder.createAuthority(for: name("alpha"), now: now)
      let issued = try folder.issueLeaf(for: name("alpha"), at: relay, now: now)
      func renewed(afterDays days: Int) throws -> IssuedCertificate? {
        try folder.renewLeaf(
          for: name("alpha"), at: relay, ifWithin: .seconds(30 * 86_400), now: now.adding(.seconds(days * 86_400)))
      }
      #expect(try renewed(afterDays: 59) == nil)
      #expect(try folder.load(for: name("alpha")).leafExpires == issued.expires)
      #expect(try renewed(afterDays: 61)?.expires ?? issued.expires > issued.expires)
      // One that does not belong to the CA is replaced whatever its end.
      try folder.createAuthority(for: name("alpha"), replacing: true, now: now)
      #expect(try renewed(afterDays: 0) != nil)
      _ = try folder.load(for: name("alpha"))
    }
  }

  @Test func `the key of a revoked leaf is not certified again`() async throws {
    try await withFolder { folder in
      let relay = try endpoint("https://relay.example")
      try folder.createAuthority(for: name("alpha"), now: now)
      let stolen = try folder.issueLeaf(for: name("alpha"), at: relay, now: now)
      try folder.revokeLeaf(folder.presentSerial(), of: name("alpha"), now: now)
      let revoked = try folder.presentSerial()
      #expect(kind { try folder.renewLeaf(for: name("alpha"), at: relay, now: now) } == .revokedLeaf)
      // Not even while it lasts for long: there is something to do.
      #expect(try refusal(of: folder, at: relay, ifWithin: .seconds(86_400)) == .revokedLeaf)
      #expect(try refusal(of: folder, at: relay, ifWithin: .seconds(365 * 86_400)) == .revokedLeaf)
      #expect(try folder.presentSerial() == revoked)
      #expect(try folder.issueLeaf(for: name("alpha"), at: relay, now: now).fingerprint != stolen.fingerprint)
      try folder.renewLeaf(for: name("alpha"), at: relay, now: now)
    }
  }

  /// The refusal of a renewal that is asked for `remaining` before the end; nil when it is not refused.
  private func refusal(
    of folder: IdentityFolder, at relay: PeerEndpoint, ifWithin remaining: Duration
  ) throws -> FederationError.Kind? {
    do {
      _ = try folder.renewLeaf(for: name("alpha"), at: relay, ifWithin: remaining, now: now)
      return nil
    } catch let error as FederationError {
      return error.kind
    }
  }

  @Test func `a reader never meets a mixed pair while leaves are issued`() async throws {
    try await withFolder { folder in
      let relay = try endpoint("https://relay.example")
      try folder.createAuthority(for: name("alpha"), now: now)
      try folder.issueLeaf(for: name("alpha"), at: relay, now: now)
      try await withThrowingTaskGroup(of: Void.self) { group in
        group.addTask {
          for _ in 0..<60 { try folder.issueLeaf(for: name("alpha"), at: relay, now: now) }
        }
        group.addTask {
          for _ in 0..<600 { _ = try folder.load(for: name("alpha")) }
        }
        try await group.waitForAll()
      }
      #expect(try folder.issuedLeaves(now: now).count == 61)
    }
  }

  @Test func `if issuing is killed, the pair still serves`() async throws {
    try await withFolder { folder in
      let relay = try endpoint("https://relay.example")
      try folder.createAuthority(for: name("alpha"), now: now)
      try folder.issueLeaf(for: name("alpha"), at: relay, now: now)
      let formerKey = try String(contentsOfFile: folder.leafKeyFile, encoding: .utf8)
      try folder.issueLeaf(for: name("alpha"), at: relay, now: now)
      // Killed before the last step: the leaf is new, its key still has its first name.
      try FileManager.default.moveItem(atPath: folder.leafKeyFile, toPath: folder.nextLeafKeyFile)
      try formerKey.write(toFile: folder.leafKeyFile, atomically: true, encoding: .utf8)
      let leaf = try folder.load(for: name("alpha")).leaf
      // And killed once more in the midst of writing a file.
      try formerKey.write(toFile: folder.leafKeyFile + ".1.2.new", atomically: true, encoding: .utf8)
      // The next step of any kind finishes it first, and leaves no key lying about.
      let renewed = try folder.renewLeaf(for: name("alpha"), at: relay, now: now)
      #expect(renewed.fingerprint == leaf.keyFingerprint)
      #expect(try folder.load(for: name("alpha")).leaf.publicKey == leaf.publicKey)
      #expect(
        try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted() == [
          "ca.key", "ca.pem", "issued.json", "leaf.key", "leaf.pem",
        ])
    }
  }

  @Test func `issued leaves are listed until they end`() async throws {
    try await withFolder { folder in
      let relay = try endpoint("https://relay.example")
      try folder.createAuthority(for: name("alpha"), now: now)
      try folder.issueLeaf(for: name("alpha"), at: relay, now: now)
      let later = now.adding(.seconds(60 * 86_400))
      try folder.renewLeaf(for: name("alpha"), at: relay, now: later)
      let listed = try folder.issuedLeaves(now: later)
      #expect(listed.map(\.made) == [now, later])
      #expect(try listed.last?.serialText == folder.presentSerial())
      #expect(try folder.issuedLeaves(now: now.adding(.seconds(91 * 86_400))).map(\.made) == [later])
    }
  }

  @Test func `the list of issued leaves is bounded, and keeps revoked ones`() throws {
    var issued = IssuedLeaves()
    issued.note(serial: [0xFF], made: now, expires: now)
    let isRevoked = issued.revoke([0xFF])
    #expect(isRevoked)
    for index in 1...(IssuedLeaves.leavesMax + 10) {
      let serial = [UInt8(index >> 8) | 0x80, UInt8(index & 255)] + [UInt8](repeating: 1, count: 18)
      issued.note(serial: serial, made: now, expires: now)
    }
    #expect(issued.leaves.count == IssuedLeaves.leavesMax)
    #expect(issued.revokedSerials == [[0xFF]])
    #expect(issued.json.count <= SecretFile.bytesMax)
    #expect(try IssuedLeaves.decode(issued.json.span.bytes) == issued)
  }

  @Test func `missing files name the command that makes them`() async throws {
    try await withFolder { folder in
      #expect(kind { try folder.load(for: name("alpha")) } == .missingAuthority)
      #expect(
        kind { try folder.issueLeaf(for: name("alpha"), at: endpoint("https://a"), now: now) } == .missingAuthority)
      try folder.createAuthority(for: name("alpha"), now: now)
      #expect(kind { try folder.load(for: name("alpha")) } == .missingLeaf)
      #expect(kind { try folder.renewLeaf(for: name("alpha"), at: endpoint("https://a"), now: now) } == .missingLeaf)
      try folder.issueLeaf(for: name("alpha"), at: endpoint("https://a"), now: now)
      #expect(kind { try folder.load(for: name("beta")) } == .otherName)
      try "nothing".write(toFile: folder.leafKeyFile, atomically: true, encoding: .utf8)
      #expect(kind { try folder.load(for: name("alpha")) } == .unreadableFile)
    }
  }

  private func withFolder(_ body: (IdentityFolder) async throws -> Void) async throws {
    try await withTemporaryFolder { try await body(IdentityFolder(path: $0 + "/deep/federation/")) }
  }

  private func kind(_ body: () throws -> Any) -> FederationError.Kind? {
    do {
      _ = try body()
      return nil
    } catch {
      return (error as? FederationError)?.kind
    }
  }

  private func mode(_ path: String) throws -> Int {
    let attributes = try FileManager.default.attributesOfItem(atPath: path)
    return try #require(attributes[.posixPermissions] as? Int)
  }
}

func endpoint(_ text: String) throws -> PeerEndpoint { try #require(PeerEndpoint(text)) }
