import RelayCore
import RelayWork
import Synchronization

/// The addresses that peers come from, by this process's own experience: those that connections which proved a peer
/// came from, and those that peers' URLs lead to. Bounded for each peer, so that none has more of them than its share.
final class PeerSources: Sendable {
  private struct State {
    /// The latest last.
    var seen: [RelayName: [HandshakePlaces.Source]] = [:]
    var named: [RelayName: [HandshakePlaces.Source]] = [:]
    /// Of both.
    var all: Set<HandshakePlaces.Source> = []
    var peers: [KnownPeer] = []

    mutating func gather() { all = Set(seen.values.joined()).union(named.values.joined()) }
  }

  /// Addresses that one peer comes from, and that its URL leads to.
  static let perPeerMax = 16
  static let lookUpInterval = Duration.seconds(300)

  private let addresses: PeerAddresses
  private let state = Mutex(State())
  private let changes = Nudge()

  init(addresses: PeerAddresses) { self.addresses = addresses }

  func contains(_ source: HandshakePlaces.Source) -> Bool { state.withLock { $0.all.contains(source) } }

  /// A connection from `source` has proven `peer`.
  func came(_ peer: RelayName, from source: HandshakePlaces.Source) {
    state.withLock { state in
      var sources = state.seen[peer] ?? []
      if sources.last == source { return }
      sources.removeAll { $0 == source }
      sources.append(source)
      state.seen[peer] = sources.suffix(Self.perPeerMax)
      state.gather()
    }
  }

  /// A relay that is no active peer any more has no place reserved.
  func tableChanged(_ table: PeerTable) {
    let active = table.byName.values.filter(\.isActive)
    state.withLock { state in
      state.peers = active
      for name in Set(state.seen.keys).union(state.named.keys) where table.byName[name]?.isActive != true {
        state.seen[name] = nil
        state.named[name] = nil
      }
      for peer in active {
        if let address = ClientAddress(text: peer.endpoint.host) { state.named[peer.name] = [Array(address.customer)] }
      }
      state.gather()
    }
    changes.wake()
  }

  /// Keeps the addresses of peers' URLs current until cancelled.
  func run() async {
    await withTaskGroup(of: Void.self) { group in
      group.addTask {
        for await _ in self.changes { await self.lookUp() }
      }
      group.addTask { await self.changes.wake(every: Self.lookUpInterval, from: .afterInterval) }
    }
  }

  /// One host after the other; what has no answer now keeps what it had.
  private func lookUp() async {
    for peer in state.withLock({ $0.peers }) where !peer.endpoint.isIPAddress && !Task.isCancelled {
      do throws(PeerFailure) {
        let found = try await addresses.lookUp(peer.endpoint.host).compactMap { ClientAddress(text: $0) }
        state.withLock { state in
          guard state.peers.contains(where: { $0.name == peer.name && $0.endpoint == peer.endpoint }) else { return }
          state.named[peer.name] = found.prefix(Self.perPeerMax).map { Array($0.customer) }
          state.gather()
        }
      } catch {}
    }
  }
}
