import RelayCore
import Storage
import SwiftASN1
import TestSupport
import TestTags
import Testing
import X509

@testable import Federation

/// Certificates are replaced under a running relay.
@Suite(.tags(.stores)) struct CertificateReloadTests {
  @Test func `a renewed leaf is presented, and open connections live on`() async throws {
    try await withRelay("alpha") { alpha in
      let authority = try TestAuthority("beta")
      try await save(authority, as: "beta", at: alpha)
      let configuration = try authority.leaf(relay: "beta").clientConfiguration(trusting: alpha.ownAuthority)
      try await withClient(to: alpha.endpoint.text, configuration) { client in
        #expect(try await client.get("/v1/federation/user_count").status == 200)
        let before = try await presented(alpha)
        try alpha.folder.renewLeaf(for: alpha.name, at: alpha.endpoint, now: alpha.clock.now())
        try await eventually("new connections see the new leaf") {
          try await presented(alpha).serialNumber != before.serialNumber
        }
        // Presented by the same key: the same open connection still serves.
        #expect(try await client.get("/v1/federation/user_count").status == 200)
      }
    }
  }

  @Test func `our new leaf is used towards peers`() async throws {
    try await withPeers { alpha, beta in
      let keys = { @Sendable in
        try await beta.courier.preKeys(of: number("+14155550100"), devices: .all, version: .two, at: name("alpha"))
      }
      #expect(try await keys() == FixedDispenser.keys)
      let before = beta.identity.credentials.leaf
      try beta.folder.issueLeaf(for: beta.name, at: beta.endpoint, now: beta.clock.now())
      try await eventually("the new leaf is loaded") { beta.identity.credentials.leaf != before }
      #expect(try await keys() == FixedDispenser.keys)
    }
  }

  @Test func `a broken pair is reported, and the former one stays`() async throws {
    try await withRelay("alpha") { alpha in
      let before = alpha.identity.credentials.leaf
      try alpha.folder.createAuthority(for: alpha.name, replacing: true, now: alpha.clock.now())
      try await eventually("the log says so") { alpha.log.contains("the former content stays") }
      #expect(alpha.identity.credentials.leaf == before)
      try alpha.folder.issueLeaf(for: alpha.name, at: alpha.endpoint, now: alpha.clock.now())
      try await eventually("the whole pair is taken up") { alpha.identity.credentials.leaf != before }
    }
  }

  private func presented(_ relay: TestRelay) async throws -> Certificate {
    try #require(try await CertificateProbe.presentedChain(by: .own(relay.endpoint), timeout: .seconds(30)).first)
  }
}
