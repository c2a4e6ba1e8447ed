import Federation
import Foundation
import NIOCore
import NIOHTTP1
import NIOSSL
import RelayCore
import Storage
import SwiftASN1
import TestSupport
import TestTags
import Testing
import X509

/// The right to connect, with a real handshake for each answer.
@Suite(.tags(.stores)) struct HandshakeTests {
  private let count = "/v1/federation/user_count"

  @Test func `the right certificate is served over HTTP/2`() async throws {
    try await withPeer { relay, authority in
      let answer = try await get(relay, authority.leaf(relay: "beta"))
      #expect(answer.status == 200)
      #expect(answer.version == .http2)
      #expect(answer.text == #"{"count":0}"#)
    }
  }

  @Test func `the right certificate is served over HTTP/1.1`() async throws {
    try await withPeer { relay, authority in
      let configuration = try authority.leaf(relay: "beta").clientConfiguration(trusting: relay.ownAuthority)
      let answer = try await withClient(to: relay.endpoint.text, configuration, http1Only: true) {
        try await $0.get(count + "/")
      }
      #expect(answer.status == 200)
      #expect(answer.version == .http1_1)
    }
  }

  @Test func `a connection without a certificate is refused`() async throws {
    try await withPeer { relay, _ in
      let configuration = try TestLeaf.anonymousConfiguration(trusting: relay.ownAuthority)
      await #expect(throws: (any Error).self) {
        try await withClient(to: relay.endpoint.text, configuration) { try await $0.get(count) }
      }
    }
  }

  @Test func `a foreign authority is refused`() async throws {
    try await withPeer { relay, _ in
      try await expectRefusal(relay, TestAuthority("stranger").leaf(relay: "beta"), because: "unknown CA")
    }
  }

  @Test func `a foreign authority of the same name is refused`() async throws {
    try await withPeer { relay, authority in
      // The same subject, another key, with the true CA put behind the forged leaf.
      let forged = try TestAuthority("beta").leaf(relay: "beta").presented(with: authority)
      try await expectRefusal(relay, forged, because: "unknown CA")
    }
  }

  @Test func `an expired certificate is refused`() async throws {
    try await withPeer { relay, authority in
      let leaf = try authority.leaf(relay: "beta", until: Date(timeIntervalSinceNow: -60))
      try await expectRefusal(relay, leaf, because: "expired")
    }
  }

  @Test func `a certificate that is not yet valid is refused`() async throws {
    try await withPeer { relay, authority in
      let leaf = try authority.leaf(relay: "beta", from: Date(timeIntervalSinceNow: 600))
      try await expectRefusal(relay, leaf, because: "not yet valid")
    }
  }

  @Test func `one authority cannot vouch for another peer`() async throws {
    try await withPeer { relay, authority in
      try await save(try TestAuthority("gamma"), as: "gamma", at: relay)
      try await expectRefusal(relay, authority.leaf(relay: "gamma"), because: "wrong name")
      try await expectRefusal(relay, authority.leaf(relay: nil), because: "wrong name")
    }
  }

  @Test func `a certificate for servers alone is refused`() async throws {
    try await withPeer { relay, authority in
      let leaf = try authority.leaf(relay: "beta", usages: [.serverAuth])
      try await expectRefusal(relay, leaf, because: "wrong usage")
    }
  }

  /// By an answer: a handshake that fails would read as a certificate that is not taken.
  @Test func `a suspended peer is told so`() async throws {
    try await withPeer { relay, authority in
      #expect(try await relay.storage.setPeerState(.suspended, of: name("beta")))
      await relay.coordination.publish(.peersChanged)
      try await eventually("the registry has heard") { !relay.registry.peers.contains { $0.isActive } }
      try await expectAnswer(relay, authority.leaf(relay: "beta"))
      // A name that its certificate does not prove is refused as ever.
      let ended = try authority.leaf(relay: "beta", until: Date(timeIntervalSinceNow: -60))
      try await expectRefusal(relay, ended, because: "expired")
      try await expectRefusal(relay, authority.leaf(relay: "gamma"), because: "wrong name")
    }
  }

  /// It is no stranger, and no invitation is for it.
  @Test func `a suspended peer is refused while an invitation is open`() async throws {
    try await withPeer { relay, authority in
      _ = try await relay.peering().invite()
      #expect(try await relay.storage.setPeerState(.suspended, of: name("beta")))
      await relay.coordination.publish(.peersChanged)
      try await eventually("the registry has heard") { !relay.registry.peers.contains { $0.isActive } }
      try await expectAnswer(relay, authority.leaf(relay: "beta"))
      // A stranger is let in, and told so.
      #expect(try await get(relay, TestAuthority("gamma").leaf(relay: "gamma")).status == 403)
    }
  }

  @Test func `another authority under the same subject is not confused`() async throws {
    try await withPeer { relay, authority in
      // Two peers whose CAs have the same subject: each is known by its key.
      let twin = try TestAuthority("beta")
      try await save(twin, as: "twin", at: relay)
      #expect(try await get(relay, twin.leaf(relay: "twin")).status == 200)
      #expect(try await get(relay, authority.leaf(relay: "beta")).status == 200)
      try await expectRefusal(relay, twin.leaf(relay: "beta"), because: "wrong name")
    }
  }

  // MARK: Support

  /// A relay `alpha` that has `beta` as a peer.
  private func withPeer(_ body: @Sendable (TestRelay, TestAuthority) async throws -> Void) async throws {
    try await withRelay("alpha") { relay in
      let authority = try TestAuthority("beta")
      try await save(authority, as: "beta", at: relay)
      try await body(relay, authority)
    }
  }

  private func get(_ relay: TestRelay, _ leaf: TestLeaf) async throws -> RawResponse {
    let configuration = try leaf.clientConfiguration(trusting: relay.ownAuthority)
    return try await withClient(to: relay.endpoint.text, configuration) { try await $0.get(count) }
  }

  /// - Parameter leaf: of a peer that is suspended.
  private func expectAnswer(_ relay: TestRelay, _ leaf: TestLeaf) async throws {
    let answer = try await get(relay, leaf)
    #expect(answer.status == 403)
    #expect(answer.text.contains("peer-refused"))
    try await eventually("the log says so: \(relay.log.all)") { relay.log.contains("the peer beta is suspended") }
  }

  private func expectRefusal(_ relay: TestRelay, _ leaf: TestLeaf, because reason: String) async throws {
    await #expect(throws: (any Error).self) { try await get(relay, leaf) }
    try await eventually("the log says \(reason): \(relay.log.all)") {
      relay.log.contains("handshake refused") && relay.log.contains(reason)
    }
  }
}

func name(_ text: String) throws -> RelayName { try #require(RelayName(text)) }

/// Makes the holder of `authority` a peer without an invitation.
/// - Parameter age: how long ago the two became peers.
func save(
  _ authority: TestAuthority, as text: String, at relay: TestRelay, url: String = "https://127.0.0.1:1",
  scopes: Set<Peer.Scope> = Set(Peer.Scope.allCases), age: Duration = .seconds(3600)
) async throws {
  let peer = Peer(
    name: try name(text), url: url, caCertificate: try authority.der, state: .active, scopes: scopes,
    added: relay.clock.now().adding(.zero - age))
  #expect(try await relay.storage.savePeer(peer))
  await relay.coordination.publish(.peersChanged)
}

extension TestRelay {
  /// The CA that clients of this relay trust, read from its file.
  var ownAuthority: Certificate {
    get throws { try Certificate(pemEncoded: String(contentsOfFile: folder.authorityFile, encoding: .utf8)) }
  }
}
