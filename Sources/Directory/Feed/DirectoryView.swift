package import RelayCore
import Synchronization

/// The directory as this process has it in memory: what look-ups ask, and what `DirectoryFollower` keeps up to date.
package final class DirectoryView: HomeDirectory {
  /// The part of the directory that is kept here; others' tokens are unknown.
  package let part: DirectoryPartition
  /// The relays of the table's entries.
  package let relays = RelayNumbers()
  /// The latest changes.
  package let recent: RecentChanges
  private let current: Mutex<TokenTable>
  private let ready = Atomic(false)
  private let changes = Atomic<UInt64>(0)
  /// Odd while a peer's coming or going is being worked off; rises when that begins and when it ends.
  private let peerWork = Atomic<UInt64>(0)

  /// Empty, and not ready.
  /// - Parameter recentMax: how many tokens' changes are remembered.
  package init(
    part: DirectoryPartition = .whole, recentMax: Int = RecentChanges.tokensMax
  ) throws(TokenTable.OutOfMemory) {
    self.part = part
    recent = RecentChanges(max: recentMax)
    current = Mutex(try TokenTable())
  }

  /// All tokens. Another table takes its place when the directory is read anew: who needs one state throughout keeps
  /// hold of it.
  package var table: TokenTable { current.withLock { $0 } }

  /// Whether `table` holds the directory. Stays so when the store is away: then the directory is as old as
  /// `relay_directory_lag_seconds` says.
  package var isReady: Bool { ready.load(ordering: .acquiring) }

  /// The peer whose entries have the number `relay`.
  /// - Returns: nil for 0, which is this relay.
  package func name(of relay: Int) -> RelayName? { relays.name(of: relay) }

  /// Looks all `tokens` up at once.
  /// - Parameter found: called with the index of each known token and its entry, ascending; a repeated token's each
  ///   time.
  package func withEntries(of tokens: Span<ContactToken>, _ found: (Int, TokenEntry) -> Void) {
    table.lookUp(tokens, found: found)
  }

  package func entry(of token: ContactToken) -> TokenEntry? { table.entry(of: token) }

  package func home(of token: ContactToken) -> ContactHome? {
    guard let entry = entry(of: token) else { return nil }
    // Every entry's relay has a name.
    return entry.relay == 0 ? .here : name(of: entry.relay).map { .peer($0) }
  }

  // MARK: For those who keep it up to date

  /// Shows the table of `following`, which holds all of `part`, from here on.
  /// - Parameters:
  ///   - recent: the last changes, all behind `since`; those of other parts' tokens are passed over.
  func begin(_ following: Following, recent changes: [DirectoryChange], since: DirectoryPlace) {
    let changes = part.isWhole ? changes : changes.filter { $0.subject.concerns(part) }
    // The table first: a place that was read before it is too early at worst.
    current.withLock { $0 = following.table }
    recent.begin(at: since, cursor: following.applied, with: changes)
    ready.store(true, ordering: .releasing)
  }

  /// Tokens are about to be taken out of the table that are to be looked up afterwards.
  func peerWorkBegins() { if restMark != nil { peerWork.add(1, ordering: .sequentiallyConsistent) } }

  /// None of them is left.
  func peerWorkEnded() { if restMark == nil { peerWork.add(1, ordering: .sequentiallyConsistent) } }

  /// nil while tokens are out of the table that are still to be looked up: with a place of before the table is of no
  /// use then. Else a number: as long as it stays the same, there were none.
  var restMark: UInt64? {
    let mark = peerWork.load(ordering: .sequentiallyConsistent)
    return mark % 2 == 0 ? mark : nil
  }

  /// Rises with every change of the table that was noted.
  var changeCount: UInt64 { changes.load(ordering: .relaxed) }

  /// Tokens whose change of that revision is in the table now.
  func noted(_ tokens: [(ContactToken, UInt64)]) {
    guard !tokens.isEmpty else { return }
    recent.note(tokens)
    changes.add(UInt64(tokens.count), ordering: .relaxed)
  }

  /// So many tokens changed at once, up to `revision`, that they are not noted one by one.
  func forgot(_ count: Int, upTo revision: UInt64) {
    recent.forget(upTo: revision)
    changes.add(UInt64(count), ordering: .relaxed)
  }
}

/// Finds the owners of contacts in the store, for a process that has no directory in memory: one look-up of the store
/// for each request that names no relay.
package struct StoredHomes: HomeDirectory {
  private let store: any DirectoryStore

  package init(store: any DirectoryStore) { self.store = store }

  /// The store says itself when it cannot answer.
  package var isReady: Bool { true }

  package func home(of token: ContactToken) async throws(StoreError) -> ContactHome? {
    guard let entry = try await store.entries(for: [token]).first else { return nil }
    return entry.relay.map { .peer($0) } ?? .here
  }
}

extension DirectoryChange.Subject {
  /// A peer's contacts are in every part.
  fileprivate func concerns(_ part: DirectoryPartition) -> Bool {
    switch self {
    case .peer: true
    case .token(let token): part.holds(token)
    }
  }
}
