import RelayCore
import Storage
import Synchronization
import TestSupport
import TestTags
import Testing

@testable import Federation

/// How soon and how often the list of peers is read.
@Suite(.tags(.stores)) struct RegistryTests {
  @Test func `look-ups of unknown peers share few readings`() async throws {
    let store = CountingPeers()
    let registry = PeerRegistry(
      store: store, signals: LocalCoordination(clock: TestRelay.systemClock), logger: LogRecorder().logger)
    let start = ContinuousClock.now
    try await withThrowingTaskGroup(of: Void.self) { group in
      for index in 0..<200 {
        group.addTask {
          let found = await registry.peer(named: try name("nobody\(index)"))
          #expect(found == nil)
        }
      }
      try await group.waitForAll()
    }
    let rounds = Int((ContinuousClock.now - start) / PeerRegistry.refreshInterval) + 2
    #expect(store.readings <= rounds)
  }

  @Test func `a peer that is saved is found by the next look-up`() async throws {
    try await withRelay("alpha") { alpha in
      #expect(await alpha.registry.peer(named: try name("beta")) == nil)
      // No signal: the look-up itself has to read the store.
      let peer = Peer(
        name: try name("beta"), url: "https://127.0.0.1:1", caCertificate: try TestAuthority("beta").der,
        state: .active, scopes: [], added: alpha.clock.now())
      #expect(try await alpha.storage.savePeer(peer))
      #expect(await alpha.registry.peer(named: try name("beta"))?.peer == peer)
    }
  }

  @Test func `a caller that does not ask who is reachable is not told`() async throws {
    let store = CountingPeers()
    let registry = PeerRegistry(
      store: store, signals: LocalCoordination(clock: TestRelay.systemClock), logger: LogRecorder().logger)
    let (all, terms) = (Counted(), Counted())
    registry.onChange { _ in all.count() }
    registry.onChange(ofConditions: false) { _ in terms.count() }
    let certificate = try TestAuthority("beta").der
    func peer(_ condition: PeerCondition, _ policy: PeerPolicy) throws -> Peer {
      Peer(
        name: try name("beta"), url: "https://127.0.0.1:1", caCertificate: certificate, state: .active,
        scopes: [], added: Timestamp(millis: 0), policy: policy, condition: condition)
    }
    let away = PeerCondition.unreachable(.network, since: Timestamp(millis: 1))
    store.set([try peer(.reachable, PeerPolicy())])
    await registry.refresh()
    #expect(all.value == 1 && terms.value == 1)
    store.set([try peer(away, PeerPolicy())])
    await registry.refresh()
    #expect(all.value == 2 && terms.value == 1)
    store.set([try peer(away, PeerPolicy(holdsMessages: true))])
    await registry.refresh()
    #expect(all.value == 3 && terms.value == 2)
  }

  @Test func `the last known list stays while the store is away`() async throws {
    let store = CountingPeers()
    let log = LogRecorder()
    let registry = PeerRegistry(
      store: store, signals: LocalCoordination(clock: TestRelay.systemClock), logger: log.logger)
    store.set(
      [
        Peer(
          name: try name("beta"), url: "https://127.0.0.1:1", caCertificate: try TestAuthority("beta").der,
          state: .active, scopes: [], added: Timestamp(millis: 0))
      ])
    await registry.refresh()
    store.set(nil)
    await registry.refresh()
    await registry.refresh()
    #expect(registry.peers.map(\.name.text) == ["beta"])
    #expect(log.all.filter { $0.contains("cannot be read") }.count == 1)
    store.set([])
    await registry.refresh()
    #expect(registry.peers.isEmpty)
    #expect(log.contains("can be read again"))
  }

  @Test func `an authority under two names proves neither`() throws {
    let der = try TestAuthority("twice").der
    let peers = try ["one", "two"].map {
      Peer(
        name: try name($0), url: "https://127.0.0.1:1", caCertificate: der, state: .active, scopes: [],
        added: Timestamp(millis: 0))
    }
    let known = try #require(KnownPeer(peers[0]))
    #expect(PeerTable(peers).peer(fingerprint: known.fingerprint) == nil)
    #expect(PeerTable([peers[0]]).peer(fingerprint: known.fingerprint)?.name.text == "one")
  }

  @Test func `only a changed list is reported`() async throws {
    let store = CountingPeers()
    let registry = PeerRegistry(
      store: store, signals: LocalCoordination(clock: TestRelay.systemClock), logger: LogRecorder().logger)
    let reported = Mutex<[[RelayName]]>([])
    registry.onChange { table in reported.withLock { $0.append(table.byName.keys.sorted()) } }
    let peer = Peer(
      name: try name("alpha"), url: "https://127.0.0.1:1", caCertificate: try TestAuthority("alpha").der,
      state: .active, scopes: [], added: Timestamp(millis: 0))
    for peers in [[], [], [peer], [peer], nil, [peer], []] as [[Peer]?] {
      store.set(peers)
      await registry.refresh()
    }
    #expect(reported.withLock { $0 } == [[], [peer.name], []])
  }

  @Test func `a damaged peer's row is nobody`() throws {
    let peer = Peer(
      name: try name("broken"), url: "https://127.0.0.1:1", caCertificate: [1, 2, 3], state: .active, scopes: [],
      added: Timestamp(millis: 0))
    let table = PeerTable([peer])
    #expect(table.byName.isEmpty)
    #expect(table.unreadable.map(\.text) == ["broken"])
  }
}

/// Counts readings of the list, and can be away.
final class CountingPeers: PeerStore {
  private let state = Mutex<(peers: [Peer]?, readings: Int)>(([], 0))

  var readings: Int { state.withLock { $0.readings } }
  /// - Parameter peers: nil for a store that is away.
  func set(_ peers: [Peer]?) { state.withLock { $0.peers = peers } }

  func peers() async throws(StoreError) -> [Peer] {
    let peers = state.withLock { state in
      state.readings += 1
      return state.peers
    }
    guard let peers else { throw .unavailable(reason: "away") }
    return peers
  }

  func peersRevision() async throws(StoreError) -> Int64 { 0 }
  func savePeer(_ peer: Peer) async throws(StoreError) -> Bool { false }
  func setPeerState(
    _ state: Peer.State, of name: RelayName, _ suspension: PeerSuspension?
  ) async throws(StoreError) -> Bool { false }
  func resumePeers(endedBy now: Timestamp) async throws(StoreError) -> [RelayName] { [] }
  func removePeer(_ name: RelayName) async throws(StoreError) -> PeerRemoval { .unknown }
  func setPeerURL(_ url: String, of name: RelayName) async throws(StoreError) -> Bool { false }
  func setPeerScopes(_ scopes: Set<Peer.Scope>, of name: RelayName) async throws(StoreError) -> Bool { false }
  func changePeerPolicy(_ change: PeerPolicyChange, of name: RelayName) async throws(StoreError) -> Bool { false }
  func noteAttachmentMark(_ mark: AttachmentMark, of name: RelayName) async throws(StoreError) -> Bool { false }
  func setPeerTrust(
    _ trust: PeerTrust, caCertificate: [UInt8], replacing former: [UInt8], of name: RelayName
  ) async throws(StoreError) -> Bool { false }
  func setPeerCondition(_ condition: PeerCondition, of name: RelayName) async throws(StoreError) -> Bool { false }
  func saveInvitation(_ invitation: Invitation) async throws(StoreError) {}
  func hasOpenInvitation(now: Timestamp) async throws(StoreError) -> Bool { false }
  func invitations(now: Timestamp) async throws(StoreError) -> [IssuedInvitation] { [] }
  func withdrawInvitation(secretHash: [UInt8]) async throws(StoreError) -> Bool { false }
  func redeemableInvitation(
    secretHash: [UInt8], caFingerprint: [UInt8], now: Timestamp
  ) async throws(StoreError) -> Invitation? { nil }
  func redeemInvitation(
    secretHash: [UInt8], caFingerprint: [UInt8], adding peer: Peer?, judgedAt revision: Int64, now: Timestamp
  ) async throws(StoreError) -> Redemption { .refused }
}

private final class Counted: Sendable {
  private let counted = Mutex(0)
  var value: Int { counted.withLock { $0 } }
  func count() { counted.withLock { $0 += 1 } }
}
