import Foundation
import RelayCore
import TestSupport
import Testing

@testable import Federation

/// Our CA, leaf and keys on disk.
@Suite struct IdentityFolderTests {
  private let now = TestRelay.systemClock.now()

  @Test func keysAreReadableByTheirOwnerAlone() async throws {
    try await withFolder { folder in
      try folder.createAuthority(for: name("alpha"), now: now)
      try folder.issueLeaf(for: name("alpha"), at: endpoint("https://relay.example:443"), now: now)
      #expect(try mode(folder.path) == 0o700)
      #expect(try mode(folder.authorityKeyFile) == 0o600)
      #expect(try mode(folder.leafKeyFile) == 0o600)
      #expect(
        try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted() == [
          "ca.key", "ca.pem", "leaf.key", "leaf.pem",
        ])
    }
  }

  @Test func aLeafCarriesHostNameAndDates() async throws {
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

  @Test func anAddressInTheURLBecomesAnAddressInTheLeaf() async throws {
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

  @Test func anAuthorityIsNeverOverwrittenUnasked() async throws {
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

  @Test func aMixedPairIsExplained() async throws {
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

  @Test func aLeafOfAFormerAuthorityIsExplained() async throws {
    try await withFolder { folder in
      try folder.createAuthority(for: name("alpha"), now: now)
      try folder.issueLeaf(for: name("alpha"), at: endpoint("https://relay.example"), now: now)
      try folder.createAuthority(for: name("alpha"), replacing: true, now: now)
      #expect(throws: FederationError.self) { try folder.load(for: name("alpha")) }
    }
  }

  @Test func renewingKeepsTheKeyAndMovesTheEnd() async throws {
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

  @Test func missingFilesNameTheCommandThatMakesThem() async throws {
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
