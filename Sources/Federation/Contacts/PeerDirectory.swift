package import Logging
package import RelayCore
import Synchronization

/// Finds contacts of peers whose listings are not copied, by asking them (docs/federation.md, "Asking instead of
/// copying").
///
/// Peers are asked side by side. An answer is remembered for 60 s, in memory alone, and forgotten when the peer is
/// not to be asked any more. The store remembers which peer has a contact.
package final class PeerDirectory: ContactFinder {
  private struct Entry {
    let asker: PeerAsker
    /// A relay that takes over the name of a removed peer begins anew.
    let fingerprint: [UInt8]
  }

  private let registry: PeerRegistry
  private let transport: PeerTransport
  private let clock: WallClock
  private let timeout: Duration
  private let logger: Logger
  private let judge: ClaimJudge
  private let entries = Mutex<[RelayName: Entry]>([:])

  /// - Parameters:
  ///   - claimsMax: how many claims of one peer are remembered.
  ///   - timeout: after it, a peer is passed over.
  package init(
    registry: PeerRegistry, transport: PeerTransport, store: any ContactClaimStore, claimsMax: Int = 5_000_000,
    clock: WallClock, timeout: Duration = .seconds(2), logger: Logger
  ) {
    judge = ClaimJudge(store: store, claimsMax: claimsMax, logger: logger)
    self.registry = registry
    self.transport = transport
    self.clock = clock
    self.timeout = timeout
    self.logger = logger
  }

  /// To be told of what changes, by whatever process: a number that proves itself here is no peer's from then on.
  package func heard(_ event: SignalEvent) { judge.heard(event) }

  package var hasPeers: Bool { registry.peers.contains(where: \.isQueried) }

  /// Returns for each token the entry of the peer that has it (`ClaimJudge`).
  package func find(_ tokens: [ContactToken]) async -> [DirectoryEntry] {
    let asked = await ask(Set(tokens))
    guard !asked.claims.isEmpty else { return [] }
    return await judge.owners(of: asked.contacts).compactMap { token, owner in
      guard let account = asked.claims[token]?[owner] else { return nil }
      return DirectoryEntry(token: token, relay: owner, supportsSMS: account.supportsSMS, voice: account.voice)
    }
  }

  /// Finds the peer that has `token`, for a request that is to go there. A peer that does not answer has the contacts
  /// that it is remembered to have. The courier decides about a request for a peer that is away.
  /// - Throws: `.unavailable` if the store cannot say which peer it remembers.
  func home(of token: ContactToken) async throws(Problem) -> AskedHome {
    let asked = await ask([token])
    let claimants = asked.claims[token].map { $0.keys.sorted() } ?? []
    if !claimants.isEmpty, let owner = await judge.owners(of: asked.contacts)[token] { return .peer(owner) }
    guard !claimants.isEmpty || !asked.silent.isEmpty else { return .unknown }
    guard let holder = try await judge.holder(of: token) else { return claimants.count > 1 ? .contested : .unknown }
    return asked.silent.contains(holder) ? .peer(holder) : .unknown
  }

  /// Asks all that are to be asked, side by side.
  private func ask(_ tokens: Set<ContactToken>) async -> AskedPeers {
    let askers = tokens.isEmpty ? [] : currentAskers()
    let timeout = timeout
    var asked = AskedPeers()
    await withTaskGroup(of: (RelayName, PeerAsker.Findings).self) { group in
      for (name, asker) in askers { group.addTask { (name, await asker.find(tokens, within: timeout)) } }
      for await (name, found) in group {
        for account in found.known { asked.claims[account.token, default: [:]][name] = account }
        asked.unanswered.formUnion(found.unanswered)
        if !found.unanswered.isEmpty { asked.silent.insert(name) }
      }
    }
    return asked
  }

  /// The askers of the peers that are to be asked now. The answers of other peers are forgotten.
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

/// The holder of a contact that peers were asked for.
enum AskedHome: Sendable, Equatable {
  case unknown
  /// Several claim it, and nobody is remembered.
  case contested
  case peer(RelayName)
}

/// The answers of the peers.
private struct AskedPeers {
  var claims: [ContactToken: [RelayName: ListedAccount]] = [:]
  /// The tokens about which not all peers have said something.
  var unanswered: Set<ContactToken> = []
  /// The peers that have not answered for every token.
  var silent: Set<RelayName> = []

  var contacts: [AskedContact] {
    claims.map { token, accounts in
      AskedContact(token: token, claimants: accounts.keys.sorted(), isWhole: !unanswered.contains(token))
    }
  }
}
