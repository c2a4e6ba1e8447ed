package import Logging
package import RelayCore
import Synchronization

/// Finds contacts at the peers of which no copy is kept, by asking them (docs/federation.md, "Asking instead of copying").
///
/// Peers are asked side by side. What a peer says is remembered for 60 s, in memory alone, and forgotten when the peer is
/// not to be asked any more.
package final class PeerDirectory: ContactFinder {
  private struct Entry {
    let asker: PeerAsker
    /// Whoever takes over the name of a removed peer begins anew.
    let fingerprint: [UInt8]
  }

  private let registry: PeerRegistry
  private let transport: PeerTransport
  private let clock: WallClock
  private let timeout: Duration
  private let logger: Logger
  private let entries = Mutex<[RelayName: Entry]>([:])

  /// - Parameter timeout: after it, a peer is passed over.
  package init(
    registry: PeerRegistry, transport: PeerTransport, clock: WallClock, timeout: Duration = .seconds(2), logger: Logger
  ) {
    self.registry = registry
    self.transport = transport
    self.clock = clock
    self.timeout = timeout
    self.logger = logger
  }

  package var hasPeers: Bool { registry.peers.contains(where: \.isQueried) }

  /// Of several peers that know a token, the one whose name sorts first has it: of what is only asked for, nobody knows
  /// who came first.
  package func find(_ tokens: [ContactToken]) async -> [DirectoryEntry] {
    let askers = currentAskers()
    let wanted = Set(tokens)
    guard !askers.isEmpty, !wanted.isEmpty else { return [] }
    let timeout = timeout
    var found: [DirectoryEntry] = []
    await withTaskGroup(of: (RelayName, [ListedAccount]).self) { group in
      for (name, asker) in askers { group.addTask { (name, await asker.find(wanted, within: timeout)) } }
      for await (name, accounts) in group {
        found += accounts.map {
          DirectoryEntry(token: $0.token, relay: name, supportsSMS: $0.supportsSMS, voice: $0.voice)
        }
      }
    }
    let firsts = Dictionary(found.map { ($0.token, $0) }) { a, b in
      guard let first = a.relay, let second = b.relay else { return a }
      return first < second ? a : b
    }
    return Array(firsts.values)
  }

  /// Those of the peers that are to be asked now; what others have said is forgotten.
  private func currentAskers() -> [(RelayName, PeerAsker)] {
    let peers = registry.peers.filter(\.isQueried)
    return entries.withLock { entries in
      let former = entries
      entries = [:]
      for peer in peers {
        if let entry = former[peer.name], entry.fingerprint == peer.fingerprint {
          entries[peer.name] = entry
        } else {
          let asker = PeerAsker(
            name: peer.name, registry: registry, transport: transport, clock: clock, logger: logger)
          entries[peer.name] = Entry(asker: asker, fingerprint: peer.fingerprint)
        }
      }
      return entries.map { ($0.key, $0.value.asker) }
    }
  }
}
