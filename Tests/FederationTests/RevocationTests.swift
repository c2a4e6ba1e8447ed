import Foundation
import RelayCore
import Storage
import SwiftASN1
import TestSupport
import TestTags
import Testing
import X509

@testable import Federation

/// Leaves that their CA withdraws, and leaves that overlap.
@Suite(.tags(.stores)) struct RevocationTests {
  private let count = "/v1/federation/user_count"

  @Test func `a revoked leaf is reported as revoked`() async throws {
    try await withRelay("alpha") { alpha in
      let now = alpha.clock.now()
      let first = try alpha.folder.presentSerial()
      try alpha.folder.revokeLeaf(first.uppercased(), of: alpha.name, now: now)
      try alpha.folder.revokeLeaf("00" + first, of: alpha.name, now: now)
      try await eventually("the operator is told") { alpha.log.contains("our certificate is revoked") }
      let statement = try #require(try alpha.folder.loadStatement()).statement
      #expect(statement.revokedSerials.map(\.hex) == [first])
      #expect(try alpha.folder.issuedLeaves(now: now).map(\.isRevoked) == [true])
      for unknown in ["", "zz", "01", String(repeating: "f", count: 100)] {
        let error = #expect(throws: FederationError.self) {
          try alpha.folder.revokeLeaf(unknown, of: alpha.name, now: now)
        }
        #expect(error?.kind == .unknownSerial)
      }
      // A roll-over keeps it revoked, and so does the loss of the list.
      _ = try alpha.folder.beginRollover(for: alpha.name, now: now)
      #expect(try alpha.folder.loadStatement()?.statement.revokedSerials.map(\.hex) == [first])
      try FileManager.default.removeItem(atPath: alpha.folder.issuedFile)
      try alpha.folder.cancelRollover(for: alpha.name, now: now)
      #expect(try alpha.folder.loadStatement()?.statement.revokedSerials.map(\.hex) == [first])
      // So does a backup of it from before.
      let older = IssuedLeaves()
      try alpha.folder.save(older)
      _ = try alpha.folder.beginRollover(for: alpha.name, now: now)
      #expect(try alpha.folder.loadStatement()?.statement.revokedSerials.map(\.hex) == [first])
      try alpha.folder.cancelRollover(for: alpha.name, now: now)
      // And a clock that is ahead, beyond the leaf's end: it is right again some day.
      let ahead = now.adding(.seconds(100 * 86_400))
      try alpha.folder.issueLeaf(for: alpha.name, at: alpha.endpoint, now: ahead)
      _ = try alpha.folder.beginRollover(for: alpha.name, now: ahead)
      #expect(try alpha.folder.loadStatement()?.statement.revokedSerials.map(\.hex) == [first])
      try alpha.folder.cancelRollover(for: alpha.name, now: ahead)
      // One that ended long ago need not be named any more.
      let late = now.adding(.seconds(181 * 86_400))
      try alpha.folder.issueLeaf(for: alpha.name, at: alpha.endpoint, now: late)
      _ = try alpha.folder.beginRollover(for: alpha.name, now: late)
      #expect(try alpha.folder.loadStatement()?.statement.revokedSerials.isEmpty == true)
    }
  }

  @Test func `a peer's revoked leaf is refused, and its others are served`() async throws {
    try await withRelay("alpha") { alpha in
      let authority = try TestAuthority("beta")
      try await save(authority, as: "beta", at: alpha)
      let (stolen, other) = (try authority.leaf(relay: "beta"), try authority.leaf(relay: "beta"))
      // Two that overlap are both served.
      #expect(try await status(stolen, at: alpha) == 200)
      #expect(try await status(other, at: alpha) == 200)
      try await revoke(stolen.certificate, of: "beta", authority, at: alpha)
      await #expect(throws: (any Error).self) { try await status(stolen, at: alpha) }
      try await eventually("the log says so") { alpha.log.contains("revoked: its CA has withdrawn") }
      #expect(try await status(other, at: alpha) == 200)
    }
  }

  @Test func `an open connection of a revoked leaf is served no more`() async throws {
    try await withRelay("alpha") { alpha in
      let authority = try TestAuthority("beta")
      try await save(authority, as: "beta", at: alpha)
      let leaf = try authority.leaf(relay: "beta")
      let configuration = try leaf.clientConfiguration(trusting: alpha.ownAuthority)
      try await withClient(to: alpha.endpoint.text, configuration) { client in
        #expect(try await client.get(count).status == 200)
        try await revoke(leaf.certificate, of: "beta", authority, at: alpha)
        try await eventually("it is closed") {
          do {
            return try await client.get(count).status == 403
          } catch {
            return true  // Closed, and a new one is refused in the handshake.
          }
        }
      }
    }
  }

  @Test func `a server with a revoked leaf is not spoken to`() async throws {
    try await withPeers { alpha, beta in
      let stolen = alpha.identity.credentials.leaf
      #expect(try await keys(of: alpha, for: beta) == FixedDispenser.keys)
      let trust = PeerTrust(revokedSerials: [stolen.serial], sequence: 1)
      let authority = try alpha.identity.credentials.authority.der
      #expect(
        try await beta.storage.setPeerTrust(trust, caCertificate: authority, replacing: authority, of: alpha.name))
      await beta.coordination.publish(.peersChanged)
      try await eventually("beta refuses") {
        do {
          _ = try await keys(of: alpha, for: beta)
          return false
        } catch {
          return true
        }
      }
      try alpha.folder.issueLeaf(for: alpha.name, at: alpha.endpoint, now: alpha.clock.now())
      try await eventually("the new leaf is loaded") { alpha.identity.credentials.leaf != stolen }
      try await eventually("beta speaks to it again") {
        do {
          return try await keys(of: alpha, for: beta) == FixedDispenser.keys
        } catch {
          return false  // It has not been probed yet.
        }
      }
    }
  }

  @Test func `two processes with the old and the new leaf are both peers`() async throws {
    try await withPeers { alpha, beta in
      // A second process of beta's, on another host, that still has the files of before.
      let old = IdentityFolder(path: beta.folder.path + "-old")
      try FileManager.default.copyItem(atPath: beta.folder.path, toPath: old.path)
      try beta.folder.issueLeaf(for: beta.name, at: beta.endpoint, now: beta.clock.now())
      try await eventually("the first has the new leaf") {
        try beta.identity.credentials.leaf.serial.hex == beta.folder.presentSerial()
      }
      let second = try FederationIdentity(folder: old, name: beta.name, logger: beta.log.logger)
      #expect(second.credentials.leaf != beta.identity.credentials.leaf)
      let peer = try #require(await beta.registry.peer(named: alpha.name))
      for credentials in [second.credentials, beta.identity.credentials] {
        let client = try PeerClient(
          way: .own(peer.endpoint), authorities: peer.authorities, credentials: credentials, limits: .patient)
        #expect(try await client.send(.get(count)).status == 200)
        client.retire()
      }
    }
  }

  // MARK: Support

  private func status(_ leaf: TestLeaf, at relay: TestRelay) async throws -> Int {
    let configuration = try leaf.clientConfiguration(trusting: relay.ownAuthority)
    return try await withClient(to: relay.endpoint.text, configuration) { try await Int($0.get(count).status) }
  }

  private func keys(of server: TestRelay, for client: TestRelay) async throws -> [DrawnPreKey] {
    try await client.courier.preKeys(of: number("+14155550100"), devices: .all, version: .two, at: server.name)
  }

  private func revoke(
    _ leaf: Certificate, of text: String, _ authority: TestAuthority, at relay: TestRelay
  ) async throws {
    let trust = PeerTrust(revokedSerials: [leaf.serial], sequence: 1)
    #expect(
      try await relay.storage.setPeerTrust(
        trust, caCertificate: authority.der, replacing: authority.der, of: name(text)))
    await relay.coordination.publish(.peersChanged)
    try await eventually("the registry has heard") {
      relay.registry.peers.contains { $0.isRevoked(leaf.serial) }
    }
  }
}
