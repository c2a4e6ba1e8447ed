import RelayCore

/// The work left for the outputs, apart from following the feed. It is done for some contacts at a time, so that a
/// registration never waits for a peer's millions.
struct ObliviousWork: Sendable {
  /// The next thing to do.
  enum Step: Sendable, Equatable {
    /// Bring these in line with the directory.
    case tokens([ContactToken])
    /// Find out which contacts of this range have no output.
    case range(DirectoryRange)
    /// Find out which tokens of `peer` behind `after` have none.
    case page(of: RelayName, after: ContactToken?)
    /// Remove outputs behind `after` whose contacts are not registered any more.
    case sweep(after: ContactToken?)
  }

  private struct Walk {
    let peer: RelayName
    var after: ContactToken?
  }

  /// The source of `tokens`, which decides what follows when they are done.
  private enum Source {
    case range
    /// The last token of the page; nil when it was the peer's last one.
    case page(of: RelayName, last: ContactToken?)
  }

  /// Of `DirectoryRange.all`.
  private(set) var rangesDone: Int
  private(set) var isSwept: Bool
  private var walks: [Walk] = []
  private var swept: ContactToken?
  /// Taken from the end.
  private var tokens: [ContactToken] = []
  private var source: Source?

  /// How many contacts one step evaluates and writes: some hundredths of a second of computing.
  static let stepMax = 500

  init(rangesDone: Int, isSwept: Bool) {
    self.rangesDone = rangesDone
    self.isSwept = isSwept
  }

  /// Whether peers are still to be gone through, of which the store's progress says nothing.
  var hasWalks: Bool { !walks.isEmpty }
  /// Contacts that are known to be without an output.
  var pending: Int { tokens.count }

  /// The contacts of `peer` have become part of the directory.
  mutating func came(_ peer: RelayName) {
    forget(peer)
    walks.append(Walk(peer: peer, after: nil))
  }

  /// The contacts of `peer` are no part of the directory any more: what was theirs alone is to go.
  mutating func went(_ peer: RelayName) {
    forget(peer)
    (isSwept, swept) = (false, nil)
  }

  private mutating func forget(_ peer: RelayName) {
    walks.removeAll { $0.peer == peer }
    if case .page(peer, _) = source { (tokens, source) = ([], nil) }
  }

  /// nil when nothing is left to do. Peers go before ranges, of which there are many only at first; what is to go
  /// comes last: it does nobody harm.
  var step: Step? {
    if !tokens.isEmpty { return .tokens(Array(tokens.suffix(Self.stepMax))) }
    if let walk = walks.first { return .page(of: walk.peer, after: walk.after) }
    if rangesDone < DirectoryRange.all.count { return .range(DirectoryRange.all[rangesDone]) }
    return isSwept ? nil : .sweep(after: swept)
  }

  /// The present step found these contacts without an output.
  /// - Parameters:
  ///   - missing: possibly none.
  ///   - last: of a page that was full, its last token; nil after a peer's last page, and for ranges.
  mutating func found(_ missing: [ContactToken], last: ContactToken? = nil) {
    switch step {
    case .range: source = .range
    case .page(let peer, _): source = .page(of: peer, last: last)
    case .tokens, .sweep, nil: return
    }
    tokens = missing
    if tokens.isEmpty { sourceEnded() }
  }

  /// The tokens of the present step are in line.
  mutating func aligned() {
    tokens.removeLast(min(tokens.count, Self.stepMax))
    if tokens.isEmpty { sourceEnded() }
  }

  /// - Parameter last: the last token that was looked at; nil past the end.
  mutating func sweptUpTo(_ last: ContactToken?) {
    swept = last
    if last == nil { isSwept = true }
  }

  private mutating func sourceEnded() {
    switch source {
    case .range: rangesDone += 1
    case .page(let peer, let last):
      guard let index = walks.firstIndex(where: { $0.peer == peer }) else { break }
      if let last { walks[index].after = last } else { walks.remove(at: index) }
    case nil: break
    }
    source = nil
  }
}
