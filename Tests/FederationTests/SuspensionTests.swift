import Foundation
import NIOCore
import NIOHTTP1
import NIOSSL
import RelayCore
import Storage
import Synchronization
import TestSupport
import TestTags
import Testing
import X509

@testable import Federation

/// The end of connections, and its time (docs/federation.md, "Suspending and removing").
@Suite(.tags(.stores)) struct SuspensionTests {
  private let count = "/v1/federation/user_count"

  @Test func `suspension closes open connections within seconds`() async throws {
    try await withPeer { relay, authority in
      try await save(try TestAuthority("gamma"), as: "gamma", at: relay)
      let connection = try await open(relay, authority.leaf(relay: "beta"))
      // No signal: the poll of the revision has to find it.
      try await expectClosed(connection) {
        try await suspend(relay)
      }
      #expect(relay.log.contains("connection closed"))
      #expect(try await relay.storage.setPeerState(.active, of: name("beta")))
      await relay.coordination.publish(.peersChanged)
      try await eventually("resumed") { relay.registry.peers.contains { $0.name.text == "beta" && $0.isActive } }
      try await open(relay, authority.leaf(relay: "beta")).close()
    }
  }

  @Test func `a suspension ends by itself at its time`() async throws {
    try await withPeer { relay, authority in
      let now = Mutex(Timestamp(millis: 1_000_000))
      let ends = SuspensionEnds(
        store: relay.storage, registry: relay.registry, signals: relay.coordination,
        clock: WallClock { now.withLock { $0 } }, logger: relay.log.logger)
      let end = Timestamp(millis: 2_000_000)
      #expect(
        try await relay.storage.setPeerState(
          .suspended, of: name("beta"), PeerSuspension(reason: "spam", until: end)))
      await relay.registry.refresh()
      func isActive() -> Bool { relay.registry.peers.contains { $0.name.text == "beta" && $0.isActive } }
      await ends.resumeDue()
      await relay.registry.refresh()
      #expect(!isActive())
      now.withLock { $0 = end }
      await ends.resumeDue()
      try await eventually("resumed") { isActive() }
      try await open(relay, authority.leaf(relay: "beta")).close()
    }
  }

  @Test func `removal closes open connections and no others`() async throws {
    try await withPeer { relay, authority in
      let other = try TestAuthority("gamma")
      try await save(other, as: "gamma", at: relay)
      let kept = try await open(relay, other.leaf(relay: "gamma"))
      let connection = try await open(relay, authority.leaf(relay: "beta"))
      try await expectClosed(connection) {
        let removal = try await relay.storage.removePeer(name("beta"))
        #expect(removal == .removed)
      }
      #expect(try await kept.get(count).hasPrefix("HTTP/1.1 200"))
      try await kept.close()
    }
  }

  @Test func `a revoked leaf loses its connections, and another leaf keeps them`() async throws {
    try await withPeer { relay, authority in
      let (stolen, fresh) = (try authority.leaf(relay: "beta"), try authority.leaf(relay: "beta"))
      let connection = try await open(relay, stolen)
      let kept = try await open(relay, fresh)
      let trust = PeerTrust(revokedSerials: [stolen.certificate.serial], sequence: 1)
      let authorityDER = try authority.der
      try await expectClosed(connection) {
        let isTaken = try await relay.storage.setPeerTrust(
          trust, caCertificate: authorityDER, replacing: authorityDER, of: name("beta"))
        #expect(isTaken)
      }
      #expect(try await kept.get(count).hasPrefix("HTTP/1.1 200"))
      try await kept.close()
      await #expect(throws: (any Error).self) { try await open(relay, stolen) }
    }
  }

  @Test func `requests under way have two seconds`() async throws {
    try await withPeer { relay, authority in
      let (quick, stuck) = (
        try await open(relay, authority.leaf(relay: "beta")), try await open(relay, authority.leaf(relay: "beta"))
      )
      relay.intake.hold(true)
      let message = "PUT /v1/federation/messages/+14155550177/1/+14155550100"
      quick.send(message, body: #"{"messages":[]}"#)
      try await eventually("it is under way") { relay.intake.calls.count == 1 }
      try await suspend(relay)
      await relay.coordination.publish(.peersChanged)
      try await eventually("the connection is to be closed") { relay.log.contains("connection closed") }
      relay.intake.hold(false)
      try await eventually("it is answered, and then closed") { quick.text.contains("HTTP/1.1 200 OK\r\n") }
      try await eventually("both are closed") { !quick.isOpen && !stuck.isOpen }
    }
    try await withPeer { relay, authority in
      let stuck = try await open(relay, authority.leaf(relay: "beta"))
      relay.intake.hold(true)
      stuck.send("PUT /v1/federation/messages/+14155550177/1/+14155550100", body: #"{"messages":[]}"#)
      try await eventually("it is under way") { relay.intake.calls.count == 1 }
      try await expectClosed(stuck) {
        try await suspend(relay)
        await relay.coordination.publish(.peersChanged)
      }
      relay.intake.hold(false)
    }
  }

  /// A renewed leaf is shown by the next connection.
  @Test func `a connection ends with its certificate`() async throws {
    let offset = Mutex<Int64>(0)
    let clock = WallClock { Timestamp(millis: TestRelay.systemClock.now().millis + offset.withLock { $0 }) }
    try await withRelay("alpha", clock: clock) { relay in
      let authority = try TestAuthority("beta")
      try await save(authority, as: "beta", at: relay)
      let short = try await open(relay, authority.leaf(relay: "beta"))
      let long = try await open(
        relay, authority.leaf(relay: "beta", until: Date(timeIntervalSinceNow: 80_000)))
      try await expectClosed(short) { offset.withLock { $0 = 2 * 3_600_000 } }
      #expect(try await long.get(count).hasPrefix("HTTP/1.1 200"))
      try await long.close()
    }
  }

  @Test func `strangers stay while an invitation is open`() async throws {
    try await withRelay("alpha") { alpha in
      try await withRelay("beta") { beta in
        let invitation = try await alpha.peering().invite()
        let stranger = try await OpenConnection.open(to: alpha, as: TestAuthority("gamma").leaf(relay: "gamma"))
        #expect(try await stranger.get(count).hasPrefix("HTTP/1.1 403"))
        _ = try await beta.peering().accept(invitation.text)
        try await eventually("no invitation is open any more") { !stranger.isOpen }
        #expect(try await beta.transport.send(.get(count), to: try #require(beta.registry.peers.first)).status == 200)
      }
    }
  }

  @Test func `one peer cannot take all connections`() async throws {
    try await withPeer { relay, authority in
      let leaf = try authority.leaf(relay: "beta")
      let most = FederationListenerConfiguration(host: "", port: 0).connectionsPerPeerMax
      var connections: [OpenConnection] = []
      for _ in 1...most { connections.append(try await open(relay, leaf)) }
      let refused = try await OpenConnection.open(to: relay, as: leaf)
      refused.send("GET \(count)")
      try await eventually("the newest is refused") { !refused.isOpen }
      // Behind the close.
      try await eventually("it is said why") { relay.log.contains("too many connections of one holder") }
      #expect(try await connections[0].get(count).hasPrefix("HTTP/1.1 200"))
      let other = try TestAuthority("gamma")
      try await save(other, as: "gamma", at: relay)
      try await open(relay, other.leaf(relay: "gamma")).close()
      // Room comes back.
      try await connections.removeLast().close()
      try await eventually("there is room again") {
        let next = try await OpenConnection.open(to: relay, as: leaf)
        defer { connections.append(next) }
        return (try? await next.get(count))?.hasPrefix("HTTP/1.1 200") == true
      }
      for connection in connections { try await connection.close() }
    }
  }

  // MARK: The rules alone

  @Test func `the table says once which connections end`() throws {
    let (beta, stranger) = (try TestAuthority("beta"), try TestAuthority("gamma"))
    let now = TestRelay.systemClock.now()
    let start = ContinuousClock.now
    func table(_ state: Peer.State = .active, revoked: [[UInt8]] = []) throws -> PeerTable {
      PeerTable([
        Peer(
          name: try name("beta"), url: "https://127.0.0.1:1", caCertificate: try beta.der, state: state, scopes: [],
          added: now, trust: PeerTrust(revokedSerials: revoked, sequence: 1))
      ])
    }
    let leaf = try beta.leaf(relay: "beta")
    let known = try #require(ConnectionIdentity(NIOSSL.ValidatedCertificateChain(leaf.chain)))
    let unknown = try #require(
      ConnectionIdentity(NIOSSL.ValidatedCertificateChain(stranger.leaf(relay: "gamma").chain)))
    var connections = ConnectionTable(perHolderMax: 2)
    func ends(
      _ peers: PeerTable, after wait: Duration = .zero, hasInvitation: Bool = true, date: Timestamp? = nil
    ) -> [ConnectionTable.End] {
      var copy = connections
      let ends = copy.review(against: peers, hasInvitation: hasInvitation, at: start + wait, date: date ?? now)
      let again = copy.review(against: peers, hasInvitation: hasInvitation, at: start + wait, date: date ?? now)
      #expect(again.isEmpty)
      return ends.map(\.end).sorted { $0.rawValue < $1.rawValue }
    }
    #expect(connections.opened(known, among: try table(), at: start) != nil)
    #expect(connections.opened(unknown, among: try table(), at: start) != nil)
    #expect(connections.hasStrangers)
    #expect(ends(try table(), after: .seconds(60)) == [])
    #expect(ends(try table(), after: .seconds(61)) == [.lingering])
    #expect(ends(try table(), hasInvitation: false) == [.noInvitation])
    #expect(ends(try table(.suspended)) == [.notAPeer])
    #expect(ends(try table(revoked: [leaf.certificate.serial])) == [.notAPeer])
    #expect(ends(PeerTable()) == [.notAPeer])
    #expect(ends(try table(), date: Timestamp(millis: known.validUntil.millis + 1)) == [.expired, .expired])
    let second = connections.opened(known, among: try table(), at: start)
    #expect(second != nil)
    #expect(connections.opened(known, among: try table(), at: start) == nil)
    if let second { connections.closed(second) }
    #expect(connections.opened(known, among: try table(), at: start) != nil)
  }

  @Test func `a peer that connects while suspended is told so, and has little time`() throws {
    let beta = try TestAuthority("beta")
    let now = TestRelay.systemClock.now()
    let start = ContinuousClock.now
    func table(_ state: Peer.State) throws -> PeerTable {
      PeerTable([
        Peer(
          name: try name("beta"), url: "https://127.0.0.1:1", caCertificate: try beta.der, state: state, scopes: [],
          added: now)
      ])
    }
    let identity = try #require(
      ConnectionIdentity(NIOSSL.ValidatedCertificateChain(beta.leaf(relay: "beta").chain)))
    var connections = ConnectionTable(perHolderMax: 2)
    #expect(try connections.opened(identity, among: table(.suspended), at: start) != nil)
    #expect(try connections.opened(identity, among: table(.suspended), at: start) != nil)
    #expect(try connections.opened(identity, among: table(.suspended), at: start) == nil)
    #expect(!connections.hasStrangers, "it takes nothing from those who come with an invitation")
    func ends(_ state: Peer.State, after wait: Duration) throws -> [ConnectionTable.End] {
      var copy = connections
      return copy.review(against: try table(state), hasInvitation: false, at: start + wait, date: now).map(\.end)
    }
    #expect(try ends(.suspended, after: .seconds(5)) == [])
    #expect(try ends(.suspended, after: .seconds(6)) == [.suspended, .suspended])
    #expect(try ends(.active, after: .seconds(6)) == [], "it was resumed")
  }

  @Test func `refusals are told once a minute, with their number`() {
    let start = ContinuousClock.now
    var tally = RefusalTally()
    let key = RefusalTally.Key(remote: "192.0.2.1", reason: "expired")
    #expect(tally.count(key, at: start) == 1)
    for second in 1...59 { #expect(tally.count(key, at: start + .seconds(second)) == nil) }
    #expect(tally.count(RefusalTally.Key(remote: "192.0.2.1", reason: "unknown"), at: start) == 1)
    #expect(tally.count(key, at: start + .seconds(60)) == 60)
    #expect(tally.count(key, at: start + .seconds(61)) == nil)
    // From more addresses than are remembered: one line for all.
    var lines = 0
    for address in 0..<5000 {
      let key = RefusalTally.Key(remote: "address \(address)", reason: "expired")
      if tally.count(key, at: start + .seconds(61)) != nil { lines += 1 }
    }
    #expect(lines <= RefusalTally.keysMax)
  }

  // MARK: Support

  private func withPeer(_ body: @Sendable (TestRelay, TestAuthority) async throws -> Void) async throws {
    try await withRelay("alpha") { relay in
      let authority = try TestAuthority("beta")
      try await save(authority, as: "beta", at: relay)
      try await body(relay, authority)
    }
  }

  private func suspend(_ relay: TestRelay) async throws {
    #expect(try await relay.storage.setPeerState(.suspended, of: name("beta")))
  }

  /// A connection that has been served.
  private func open(_ relay: TestRelay, _ leaf: TestLeaf) async throws -> OpenConnection {
    let connection = try await OpenConnection.open(to: relay, as: leaf)
    #expect(try await connection.get(count).hasPrefix("HTTP/1.1 200"))
    return connection
  }

  /// Checks the promise to operators.
  private func expectClosed(_ connection: OpenConnection, after change: () async throws -> Void) async throws {
    let start = ContinuousClock.now
    try await change()
    try await eventually("the connection is closed") { !connection.isOpen }
    // Five seconds are promised, and each step of the test takes some time.
    #expect(ContinuousClock.now - start < MachineSpeed.allow(.seconds(20)))
  }
}
