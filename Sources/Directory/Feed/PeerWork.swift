import RelayCore

/// The tokens to look up anew because a peer came, or went while others are copied. They are looked up some at a
/// time, between readings of the feed, so that a registration never waits for a peer's millions.
struct PeerWork: Sendable {
  /// The next thing to do.
  enum Step: Sendable, Equatable {
    /// Read tokens of `peer` behind `after`, and look them up.
    case page(of: RelayName, after: ContactToken?, revision: UInt64)
    /// Look these up.
    case tokens([ContactToken], revision: UInt64)
  }

  private struct Walk {
    let peer: RelayName
    var after: ContactToken?
    let revision: UInt64
  }

  private struct Orphans {
    /// The peer that their entries still name; nil if they were taken out of the table.
    let holder: RelayName?
    /// Taken from the end.
    var tokens: [ContactToken]
    let revision: UInt64
  }

  private var walks: [Walk] = []
  private var orphans: [Orphans] = []

  /// How many tokens one step takes.
  static let stepMax = 5_000

  var isEmpty: Bool { walks.isEmpty && orphans.isEmpty }

  /// The contacts of `peer` have become part of the directory.
  /// - Parameter tokens: those that the table has of it already. It may have been away unseen: then nothing tells
  ///   which of them it lists no longer.
  mutating func came(_ peer: RelayName, holding tokens: [ContactToken], revision: UInt64) {
    forget(peer)
    if !tokens.isEmpty { orphans.append(Orphans(holder: peer, tokens: tokens, revision: revision)) }
    walks.append(Walk(peer: peer, after: nil, revision: revision))
  }

  /// The contacts of `peer` are no part of the directory any more.
  /// - Parameters:
  ///   - tokens: those that were taken out with it and may be somebody else's; possibly none.
  ///   - hasClaims: whether it may have claims that it did not show, and that covered other peers' or cover them from
  ///     now on.
  mutating func went(_ peer: RelayName, leaving tokens: [ContactToken], hasClaims: Bool = false, revision: UInt64) {
    forget(peer)
    if !tokens.isEmpty { orphans.append(Orphans(holder: nil, tokens: tokens, revision: revision)) }
    if hasClaims { walks.append(Walk(peer: peer, after: nil, revision: revision)) }
  }

  /// The work for `peer` begins anew, or is done with.
  private mutating func forget(_ peer: RelayName) {
    walks.removeAll { $0.peer == peer }
    orphans.removeAll { $0.holder == peer }
  }

  /// nil when nothing is left to do. Removals go first, because they are fewer.
  var step: Step? {
    if let orphans = orphans.first {
      return .tokens(Array(orphans.tokens.suffix(Self.stepMax)), revision: orphans.revision)
    }
    return walks.first.map { .page(of: $0.peer, after: $0.after, revision: $0.revision) }
  }

  /// `step` has been done.
  /// - Parameter last: the last token of a page that was full; nil after the last page, and for tokens.
  mutating func done(_ step: Step, last: ContactToken?) {
    switch step {
    case .tokens(let tokens, _):
      guard !orphans.isEmpty else { return }
      orphans[0].tokens.removeLast(tokens.count)
      if orphans[0].tokens.isEmpty { orphans.removeFirst() }
    case .page(let peer, _, _):
      guard let index = walks.firstIndex(where: { $0.peer == peer }) else { return }
      if let last { walks[index].after = last } else { walks.remove(at: index) }
    }
  }
}
