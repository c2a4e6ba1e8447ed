import RelayCore
import RelayWork

/// The state of the directory as read so far, held by the one task that writes its table.
struct Following: Sendable {
  let table: TokenTable
  var place: FeedPlace
  var work = PeerWork()
  /// Everything before it is in the table.
  private(set) var applied: DirectoryPlace

  init(_ table: TokenTable, at place: DirectoryPlace) {
    self.table = table
    self.place = FeedPlace(at: place)
    applied = place
  }

  /// A reading has ended. While a peer's tokens are still to be looked up, what it changed is not in the table.
  mutating func readingEnded() {
    if work.isEmpty { applied = place.settled }
  }
}

/// The result of a reading of the feed.
struct Brought: Sendable {
  /// Whether the feed was read to its end.
  var isWhole = false
  var count = 0
  var ranges: Set<UInt8> = []
  var hasPeers = false
}

/// Follows the feed from page to page: asks the store for what has changed, and writes it to the table.
///
/// Each method leaves `Following` as it was where it fails, but for what is harmless to do again.
struct DirectoryReader: Sendable {
  let store: any DirectoryFeedStore & PeerStore
  let view: DirectoryView
  private var part: DirectoryPartition { view.part }

  /// Changes of one page.
  var pageMax = 5_000
  /// Pages of one call.
  private static let pagesMax = 20
  /// So many tokens of a peer that came or went are noted one by one; of more it is forgotten what changed before.
  private static let notedMax = 20_000

  private var resolver: TokenResolver { TokenResolver(store: store, relays: view.relays) }

  /// Reads the whole directory, or the part of it that is kept here, into a new table.
  func readWhole() async throws(FollowFailure) -> Following {
    let load = try DirectoryLoad(relays: view.relays, part: part)
    let place = try await FollowFailure.storing { () async throws(StoreError) in
      try await store.readDirectory(part.firstBytes) { load.take($0) }
    }
    if let contested = try load.finish() {
      try await resolver.resolve(contested, in: load.table)
    } else {
      try await resolvePeers(in: load.table)
    }
    return Following(load.table, at: place)
  }

  /// Looks up every token that is a peer's, some at a time.
  private func resolvePeers(in table: TokenTable) async throws(FollowFailure) {
    var scan = table.scan()
    var isMore = true
    while isMore {
      var part: [ContactToken] = []
      isMore = scan.next(pageMax) { token, entry in if entry.relay != 0 { part.append(token) } }
      try await resolver.resolve(part, in: table)
    }
  }

  /// Whether the feed still goes back to `place`.
  func goesBack(to place: DirectoryPlace) async throws(FollowFailure) -> Bool {
    try await FollowFailure.storing { () async throws(StoreError) in
      try await store.directoryChanges(after: place, limit: 1)
    } != nil
  }

  /// Reads the feed to its end, or some pages where it is long: then it is to be called again.
  func follow(_ following: inout Following) async throws(FollowFailure) -> Brought {
    var brought = Brought()
    for _ in 0..<Self.pagesMax where !brought.isWhole {
      var place = following.place
      let page = try await FollowFailure.storing { () async throws(StoreError) in
        try await store.directoryChanges(after: place.next, limit: pageMax)
      }
      guard let page else { throw .forgotten }
      try await take(place.received(page), &following, &brought)
      following.place = place
      brought.isWhole = !page.isPartial
    }
    following.readingEnded()
    if following.work.isEmpty { view.peerWorkEnded() }
    return brought
  }

  private func take(
    _ changes: [DirectoryChange], _ following: inout Following, _ brought: inout Brought
  ) async throws(FollowFailure) {
    guard !changes.isEmpty else { return }
    var peers: [RelayName: UInt64] = [:]
    var tokens: [ContactToken: UInt64] = [:]
    for change in changes {
      switch change.subject {
      case .peer(let name): peers[name] = change.revision
      case .token(let token): if part.holds(token) { tokens[token] = change.revision }
      }
    }
    if !peers.isEmpty { try await take(peers, &following) }
    try await resolver.resolve(Array(tokens.keys), in: following.table)
    view.noted(tokens.map { ($0, $1) })
    brought.count += changes.count
    brought.ranges.formUnion(tokens.keys.lazy.map(\.firstByte))
    brought.hasPeers = brought.hasPeers || !peers.isEmpty
  }

  /// Peers came or went: what went is out of the table at once, the rest is left as work.
  private func take(_ peers: [RelayName: UInt64], _ following: inout Following) async throws(FollowFailure) {
    let known = try await FollowFailure.storing { () async throws(StoreError) in try await store.peers() }
    // Until all is looked up: a file of the table and the place before would leave out what is still to be looked up.
    view.peerWorkBegins()
    let copied = Set(known.lazy.filter { $0.state == .active && $0.policy.contacts == .copy }.map(\.name))
    for (name, revision) in peers.sorted(by: { $0.key < $1.key }) {
      guard !copied.contains(name) else {
        following.work.came(name, holding: await held(of: name, following.table), revision: revision)
        continue
      }
      let removed = view.relays.known(name).map { following.table.removeAll(of: $0) } ?? []
      note(removed, revision: revision)
      // If there is no other peer, no other peer can have the contacts that this one had. A peer that is still there
      // keeps its claims. Claims that rest from now on uncover other peers' contacts; claims of a peer that is asked
      // from now on cover them.
      let hasClaims = !copied.isEmpty && known.contains { $0.name == name }
      following.work.went(name, leaving: copied.isEmpty ? [] : removed, hasClaims: hasClaims, revision: revision)
    }
  }

  /// - Returns: the tokens that `table` has of `peer`, in no order; none when the process is ending.
  private func held(of peer: RelayName, _ table: TokenTable) async -> [ContactToken] {
    guard let number = view.relays.known(peer) else { return [] }
    let held = await BlockingWork.run {
      var tokens: [ContactToken] = []
      table.forEach { token, entry in if entry.relay == number { tokens.append(token) } }
      return tokens
    }
    return held ?? []
  }

  /// Does one step of what is left to do.
  func work(_ following: inout Following) async throws(FollowFailure) {
    guard let step = following.work.step else { return }
    switch step {
    case .tokens(let tokens, let revision):
      try await resolver.resolve(tokens, in: following.table)
      note(tokens, revision: revision)
      following.work.done(step, last: nil)
    case .page(let peer, let after, let revision):
      let tokens = try await FollowFailure.storing { () async throws(StoreError) in
        try await store.contactTokens(of: peer, after: after, limit: PeerWork.stepMax)
      }
      let ours = part.isWhole ? tokens : tokens.filter(part.holds)
      try await resolver.resolve(ours, in: following.table)
      note(ours, revision: revision)
      following.work.done(step, last: tokens.count < PeerWork.stepMax ? nil : tokens.last)
    }
    if following.work.isEmpty { view.peerWorkEnded() }
  }

  private func note(_ tokens: [ContactToken], revision: UInt64) {
    guard !tokens.isEmpty else { return }
    if tokens.count > Self.notedMax {
      view.forgot(tokens.count, upTo: revision)
    } else {
      view.noted(tokens.map { ($0, revision) })
    }
  }
}

extension ContactToken {
  var firstByte: UInt8 { UInt8(truncatingIfNeeded: high >> 56) }
}
