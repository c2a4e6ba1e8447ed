import RelayCore
import VOPRF

/// The knowledge of the one process that takes care of the outputs.
struct ObliviousIndexing: Sendable {
  let key: ObliviousKey
  /// As it stands in the store.
  fileprivate(set) var progress: ObliviousProgress
  /// The place from which the feed is read next.
  fileprivate(set) var place: FeedPlace
  fileprivate(set) var work: ObliviousWork
  /// When the last reading of the feed began that reached its end.
  fileprivate var followed: Timestamp

  fileprivate init(_ key: ObliviousKey, _ progress: ObliviousProgress) {
    self.key = key
    self.progress = progress
    followed = progress.followed
    place = FeedPlace(at: progress.place)
    work = ObliviousWork(rangesDone: progress.rangesDone, isSwept: progress.isSwept)
  }

  /// The progress that the next writing remembers. Peers that are still to be gone through are known to this process
  /// alone: until they are, another one would have to begin where they came.
  fileprivate var next: ObliviousProgress {
    ObliviousProgress(
      key: key.id, place: work.hasWalks ? progress.place : place.settled, rangesDone: work.rangesDone,
      isSwept: work.isSwept, followed: followed, step: progress.step + 1)
  }

  /// Whether the time that stands in the store says too little; also when the clock was put back.
  fileprivate var isOld: Bool {
    !(progress.followed...progress.followed.adding(ObliviousIndex.progressLife)).contains(followed)
  }

  fileprivate var isUnwritten: Bool {
    let next = next
    return next.place != progress.place || next.rangesDone != progress.rangesDone || next.isSwept != progress.isSwept
      || isOld
  }
}

/// Brings the outputs in line with the directory, step by step.
///
/// The result of each step is in the store together with the progress. After a failure the state in memory is worth
/// nothing: `begin` reads it again.
struct ObliviousIndex: Sendable {
  let store: any ObliviousIndexer.Store
  let metrics: ObliviousMetrics
  let threads: ObliviousThreads
  let clock: WallClock

  /// Changes of one page.
  private static let pageMax = 500
  /// Pages of one call.
  private static let pagesMax = 4
  /// Ranges that one call looks at.
  private static let rangesAtOnce = 16
  /// A divisor of 256.
  private static let rangesRemembered = 16
  /// Tokens that the store is asked for at once.
  private static let askedAtOnce = 1_000
  /// Without anything to do the progress is remembered as often as this: by far sooner than the feed forgets the
  /// place, and than pages take it for old (`ObliviousPages.ageMax`).
  fileprivate static let progressLife = Duration.seconds(60)
  /// Contacts that are evaluated in one turn of a thread: some hundredths of a second.
  private static let slice = 250

  /// Goes on where the last process stopped; begins anew where there was none, or the key is another.
  func begin(with key: ObliviousKey) async throws(FollowFailure) -> ObliviousIndexing {
    let former = try await FollowFailure.storing { () async throws(StoreError) in try await store.obliviousProgress() }
    if let former, former.key == key.id { return ObliviousIndexing(key, former) }
    return try await beginAnew(with: key, over: former)
  }

  /// Looks at every contact again, since changes that were not seen are forgotten, or the key is another.
  func beginAnew(
    with key: ObliviousKey, over former: ObliviousProgress?
  ) async throws(FollowFailure) -> ObliviousIndexing {
    let now = clock.now()
    let place = try await FollowFailure.storing { () async throws(StoreError) in try await store.directoryPlace() }
    let progress = ObliviousProgress(
      key: key.id, place: place, rangesDone: 0, isSwept: false, followed: now, step: (former?.step ?? 0) + 1)
    try await write(ObliviousChange(), progress, over: former?.step)
    return ObliviousIndexing(key, progress)
  }

  /// Reads the feed to its end, or some pages where it is long.
  /// - Returns: whether it was read to its end.
  func follow(_ indexing: inout ObliviousIndexing) async throws(FollowFailure) -> Bool {
    for _ in 0..<Self.pagesMax {
      let (from, began) = (indexing.place.next, clock.now())
      let page = try await FollowFailure.storing { () async throws(StoreError) in
        try await store.directoryChanges(after: from, limit: Self.pageMax)
      }
      guard let page else { throw .forgotten }
      try await take(page, &indexing)
      guard !page.isPartial else { continue }
      indexing.followed = began
      if indexing.isOld { try await write(ObliviousChange(), &indexing) }
      return true
    }
    return false
  }

  /// Does some of what is still to be done: steps for as many contacts as one evaluates, so that the ranges of a small
  /// directory take few rounds.
  func work(_ indexing: inout ObliviousIndexing) async throws(FollowFailure) {
    var (contactsLeft, rangesLeft) = (ObliviousWork.stepMax, Self.rangesAtOnce)
    while contactsLeft > 0, rangesLeft > 0, let step = indexing.work.step {
      try await work(step, &indexing)
      switch step {
      case .tokens(let tokens): contactsLeft -= tokens.count
      case .range: rangesLeft -= 1
      case .page, .sweep: return
      }
    }
  }

  /// Does the next step of what is still to be done.
  private func work(_ step: ObliviousWork.Step, _ indexing: inout ObliviousIndexing) async throws(FollowFailure) {
    switch step {
    case .tokens(let tokens):
      let change = try await change(for: tokens, under: indexing.key)
      indexing.work.aligned()
      try await write(change, &indexing)
    case .range(let range):
      let entries = try await FollowFailure.storing { () async throws(StoreError) in
        try await store.directoryEntries(in: range)
      }
      indexing.work.found(try await missing(of: entries.map(\.token), under: indexing.key))
    case .page(let peer, let after):
      let tokens = try await FollowFailure.storing { () async throws(StoreError) in
        try await store.contactTokens(of: peer, after: after, limit: Self.askedAtOnce)
      }
      let missing = try await missing(of: tokens, under: indexing.key)
      indexing.work.found(missing, last: tokens.count == Self.askedAtOnce ? tokens.last : nil)
    case .sweep(let after):
      let tokens = try await FollowFailure.storing { () async throws(StoreError) in
        try await store.tokensWithOutput(after: after, limit: Self.askedAtOnce)
      }
      let known = try await known(of: tokens)
      indexing.work.sweptUpTo(tokens.count == Self.askedAtOnce ? tokens.last : nil)
      try await write(ObliviousChange(removed: tokens.filter { !known.contains($0) }), &indexing)
    }
    // The progress has moved even if nothing was missing. Ranges without anything to do are remembered several at
    // once; the last one always is.
    guard indexing.work.rangesDone.isMultiple(of: Self.rangesRemembered) else { return }
    try await write(ObliviousChange(), &indexing)
  }

  private func take(_ page: DirectoryChanges, _ indexing: inout ObliviousIndexing) async throws(FollowFailure) {
    // Not to be remembered before the whole page is worked off: the place is put in with the last of its tokens.
    var place = indexing.place
    let fresh = place.received(page)
    var (peers, tokens): (Set<RelayName>, Set<ContactToken>) = ([], [])
    for change in fresh {
      switch change.subject {
      case .peer(let name): peers.insert(name)
      case .token(let token): tokens.insert(token)
      }
    }
    if !peers.isEmpty { try await take(peers, &indexing) }
    var rest = Array(tokens)
    while !rest.isEmpty {
      let part = Array(rest.suffix(ObliviousWork.stepMax))
      rest.removeLast(part.count)
      let change = try await change(for: part, under: indexing.key)
      if rest.isEmpty { indexing.place = place }
      try await write(change, &indexing)
    }
    indexing.place = place
    guard !fresh.isEmpty else { return }
    try await write(ObliviousChange(), &indexing)
  }

  private func take(_ names: Set<RelayName>, _ indexing: inout ObliviousIndexing) async throws(FollowFailure) {
    let peers = try await FollowFailure.storing { () async throws(StoreError) in try await store.peers() }
    let copied = Set(peers.lazy.filter { $0.state == .active && $0.policy.contacts == .copy }.map(\.name))
    for name in names.sorted() {
      if copied.contains(name) { indexing.work.came(name) } else { indexing.work.went(name) }
    }
  }

  /// The change that makes the outputs of `tokens` agree with the directory as it is now.
  private func change(
    for tokens: [ContactToken], under key: ObliviousKey
  ) async throws(FollowFailure) -> ObliviousChange {
    let known = try await known(of: tokens)
    let missing = try await missing(of: Array(known), under: key)
    let outputs = try await outputs(of: missing, under: key)
    metrics.evaluated(outputs.count)
    return ObliviousChange(added: outputs, removed: tokens.filter { !known.contains($0) })
  }

  private func outputs(
    of tokens: [ContactToken], under key: ObliviousKey
  ) async throws(FollowFailure) -> [ContactOutput] {
    var outputs: [ContactOutput] = []
    outputs.reserveCapacity(tokens.count)
    while outputs.count < tokens.count {
      let part = Array(tokens[outputs.count..<min(tokens.count, outputs.count + Self.slice)])
      let result = await threads.run(.later) { () -> Result<[ContactOutput], VOPRFFailure> in
        do throws(VOPRFFailure) { return .success(try key.outputs(of: part)) } catch { return .failure(error) }
      }
      switch result {
      case .success(let more): outputs += more
      case .failure: throw .store(.corrupted(reason: "an output could not be computed"))
      case nil: throw .store(.unavailable(reason: "the process is ending"))
      }
    }
    return outputs
  }

  /// The ones among `tokens` that are part of the directory.
  private func known(of tokens: [ContactToken]) async throws(FollowFailure) -> Set<ContactToken> {
    let entries = try await FollowFailure.storing { () async throws(StoreError) in
      try await store.entries(for: tokens)
    }
    return Set(entries.map(\.token))
  }

  private func missing(
    of tokens: [ContactToken], under key: ObliviousKey
  ) async throws(FollowFailure) -> [ContactToken] {
    var missing: [ContactToken] = []
    for first in stride(from: 0, to: tokens.count, by: Self.askedAtOnce) {
      let part = Array(tokens[first..<min(tokens.count, first + Self.askedAtOnce)])
      missing += try await FollowFailure.storing { () async throws(StoreError) in
        try await store.tokensWithoutOutput(among: part, under: key.id)
      }
    }
    return missing
  }

  /// Writes `change` and how far all has come; nothing where both are as they stand.
  private func write(_ change: ObliviousChange, _ indexing: inout ObliviousIndexing) async throws(FollowFailure) {
    guard change != ObliviousChange() || indexing.isUnwritten else { return }
    let next = indexing.next
    try await write(change, next, over: indexing.progress.step)
    indexing.progress = next
  }

  private func write(
    _ change: ObliviousChange, _ progress: ObliviousProgress, over step: Int64?
  ) async throws(FollowFailure) {
    let isWritten = try await FollowFailure.storing { () async throws(StoreError) in
      try await store.writeOutputs(change, progress, over: step)
    }
    guard isWritten else { throw .overtaken }
  }
}
