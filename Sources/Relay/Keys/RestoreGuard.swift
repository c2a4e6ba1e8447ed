package import Logging
import Metrics
package import RelayCore
import RelayMetrics
import RelayWork
import ServiceLifecycle
import Synchronization

/// Notices that the store was put back to an older state, so that no one-time prekey is handed out a second time
/// (docs/decisions/2026-11-21-restored-stores.md).
///
/// The store holds an epoch that only rises. Every process raises it every ten seconds, and in each second in which it
/// hands keys out, in the store first and then at the witnesses, who live outside the store: what they remember, the
/// store has held. A store with a lower epoch is an older state of itself. Its one-time keys are dropped then, whoever
/// may have got them, and last resorts serve until clients refill.
package final class RestoreGuard: Service {
  fileprivate struct State {
    /// The highest epoch that this process has written.
    var epoch: Int64 = 0
    /// Whether the store was held against the witnesses' memory since the process began.
    var isCompared: Bool
    /// Calls that failed, and how many of them the last look came after: while the store was away it may have been put
    /// back.
    var failures: UInt64 = 0
    var failuresLookedAfter: UInt64 = 0
    var hasSaidImplausible = false
    var hasSaidHeldBack = false
    /// The last time that keys had been set aside, when keys were first held back; nil before.
    var formerWord: RestoreNotes.Note??
    /// Whether keys were handed out, or are just being handed out, since the last look began.
    var hasDrawn = false
    /// When the last look began that raised the epoch.
    var raised: ContinuousClock.Instant?
    var looking: Task<Void, Never>?
    /// When the peers are to be told next, where Redis is there to be told each time.
    var peersDue = ContinuousClock.now
    var peersTelling: Task<Void, Never>?
    /// How many took the last epoch that they were told.
    var peersTold = 0

    var allowsOneTimeKeys: Bool { isCompared && failures == failuresLookedAfter }
  }

  private let store: any EpochStore
  private let redis: (any EpochWitness)?
  private let peers: (any EpochWitness)?
  private let quickPeers: (any EpochWitness)?
  private let clock: WallClock
  private let began: Timestamp
  private let logger: Logger
  private let state: Mutex<State>
  private let restores = RelayMetric.keys.storeRestores.counter()
  /// How many witnesses took the last epoch.
  private let witnessed = RelayMetric.keys.storeWitnesses.gauge()

  /// Without any witness only a restore under the running process is noticed.
  /// - Parameters:
  ///   - redis: the operator's own memory; nil where nothing outlives the process.
  ///   - peers: asked where that remembers nothing; nil without federation.
  ///   - quickPeers: the same, and waits for them no longer than a request may: told in each second in which keys are
  ///     handed
  ///     out, where there is no Redis.
  package init(
    store: any EpochStore, redis: (any EpochWitness)?, peers: (any EpochWitness)?,
    quickPeers: (any EpochWitness)? = nil,
    clock: WallClock, logger: Logger
  ) {
    self.store = store
    self.redis = redis
    self.peers = peers
    self.quickPeers = quickPeers
    self.clock = clock
    began = clock.now()
    self.logger = logger
    state = Mutex(State(isCompared: redis == nil && peers == nil))
  }

  /// False while the store may be an older state of itself: until a witness has answered, and from a failed call to
  /// the next look.
  package var allowsOneTimeKeys: Bool { state.withLock(\.allowsOneTimeKeys) }

  /// Whether one-time keys may be handed out just now. To be asked before they are drawn.
  /// - Returns: the epoch that the store has reached, which it is to be held against as it draws: it may be put back
  ///   at any moment. Nil when none may be handed out.
  ///
  /// In a second in which nobody has asked yet the epoch is raised first, once for all who ask meanwhile: so whatever
  /// is drawn lies behind an epoch that is witnessed. Otherwise it costs nothing.
  package func permit() async -> Int64? {
    let looking = state.withLock { state -> Task<Void, Never>? in
      guard state.allowsOneTimeKeys else { return nil }
      state.hasDrawn = true
      if let raised = state.raised, .now - raised < Self.drawInterval { return nil }
      return state.look(by: self)
    }
    await looking?.value
    return state.withLock { $0.allowsOneTimeKeys ? $0.epoch : nil }
  }

  /// The keys of a permit are drawn, and the drawing is committed: an epoch is due behind it.
  package func drew() { state.withLock { $0.hasDrawn = true } }

  /// A call of the store failed: whatever answers the next one is looked at first.
  func storeFailed() { state.withLock { $0.failures &+= 1 } }

  /// Compares the store with what the witnesses remember, once, before anything is served. When none answers, `run`
  /// goes on asking.
  package func check() async {
    do throws(StoreError) {
      try await compareOnce()
    } catch {
      storeFailed()
    }
  }

  package func run() async throws {
    await cancelWhenGracefulShutdown { [self] in
      var next = ContinuousClock.now
      for await _ in Periodic(every: Self.retryInterval) {
        if ContinuousClock.now >= next || !allowsOneTimeKeys || state.withLock({ $0.hasDrawn }) {
          await state.withLock { $0.look(by: self) }.value
          next = .now + Self.interval
        }
      }
    }
    if state.withLock({ $0.isCompared && $0.hasDrawn }) { await state.withLock { $0.look(by: self) }.value }
    state.withLock { $0.peersTelling }?.cancel()
  }

  /// While no keys are handed out.
  private static let interval = Duration.seconds(10)
  /// Less than `drawInterval`: so who draws need not wait for a look while others draw as well.
  private static let retryInterval = Duration.milliseconds(800)
  /// How long keys are handed out behind one epoch. A state of the store that is older than that is recognised.
  private static let drawInterval = Duration.seconds(1)
  /// Further ahead than this no other process's clock is.
  private static let clockSkewMillis = Timestamp.millisPerDay
  /// How long before a process began the operator's word may have been given to count for it.
  private static let wordLifeMillis: Int64 = 600_000

  fileprivate func look() async {
    let began = ContinuousClock.now
    defer { state.withLock { $0.looking = nil } }
    do throws(StoreError) {
      try await compareOnce()
      guard state.withLock({ $0.isCompared }) else { return }
      try await raise()
      state.withLock { $0.raised = began }
    } catch {
      storeFailed()
      logger.debug("the store's epoch was not raised", metadata: ["error": "\(error)"])
    }
  }

  // MARK: - At the start

  private func compareOnce() async throws(StoreError) {
    guard !state.withLock({ $0.isCompared }) else { return }
    // Asked before the store is: what they remember by now, a store that was not put back holds.
    let fromRedis = await redis?.witness(epoch: 0) ?? []
    let isRemembered = plausible(fromRedis, own: 0).contains { ($0.epoch ?? 0) > 0 }
    var fromPeers: [EpochTestimony] = []
    if !isRemembered { fromPeers = await peers?.witness(epoch: 0) ?? [] }
    // Read alone: no waiting raises an older state to what they remember.
    let own = try await store.epoch()
    state.withLock { $0.epoch = max($0.epoch, own) }
    switch RestoreVerdict(redis: plausible(fromRedis, own: own), peers: plausible(fromPeers, own: own), own: own) {
    case .unknown(let claim):
      guard try await isDecidedByOperator(over: claim) else { return try await holdBack(claim, own: own) }
    case .newest: try await store.noteRestoreClaim(by: nil, behind: .zero)
    case .older(let newest, let word): try await setAside(newest: newest, own: own, by: word)
    case .claimed(let claim): try await disbelieve(claim.peer, behind: .milliseconds(claim.epoch - own))
    }
    try await store.noteHeldBack(false)
    state.withLock { $0.isCompared = true }
  }

  /// Whether the operator has said of this state of the store that it was put back, since the process holds keys back
  /// or shortly before it began: then what could have been handed out twice is set aside already.
  private func isDecidedByOperator(over claim: RestoreVerdict.Claim?) async throws(StoreError) -> Bool {
    let word = try await store.restoreNotes().setAside
    let former = state.withLock { $0.word(first: word) }
    guard let word, word.word == RestoreWord.command.text,
      word != former || began.millis - word.noted.millis < Self.wordLifeMillis
    else { return false }
    // So that what the peer claims holds no other process back.
    if let claim {
      let (_, epoch) = try await store.advanceEpoch(atLeast: claim.epoch)
      state.withLock { $0.epoch = max($0.epoch, epoch) }
    }
    return true
  }

  private func holdBack(_ claim: RestoreVerdict.Claim?, own: Int64) async throws(StoreError) {
    sayHeldBack(claim?.peer)
    let notes = try await store.restoreNotes()
    if notes.heldBack == nil { try await store.noteHeldBack(true) }
    if let claim, notes.claim?.word != claim.peer.text {
      try await store.noteRestoreClaim(by: claim.peer, behind: .milliseconds(claim.epoch - own))
    }
  }

  /// `answers`, with nil for those that no witness can remember: they are no answers, and hide no others.
  private func plausible(_ answers: [EpochTestimony], own: Int64) -> [EpochTestimony] {
    let limit = max(own, clock.now().millis) + Self.clockSkewMillis
    let believed = answers.map { answer in
      answer.epoch.map { $0 <= limit } ?? true ? answer : EpochTestimony(peer: answer.peer, epoch: nil)
    }
    if own > 0, believed != answers, state.withLock({ $0.sayImplausible() }) {
      logger.warning("a witness remembers an epoch of the store that lies in the future: ignored")
    }
    return believed
  }

  private func disbelieve(_ peer: RelayName, behind: Duration) async throws(StoreError) {
    try await store.noteRestoreClaim(by: peer, behind: behind)
    logger.warning(
      "one peer alone claims that this store is an older state of itself: not believed, one-time prekeys stay",
      metadata: [
        "peer": "\(peer)", "behind-seconds": "\(behind.components.seconds)",
        "remedy": "if the store was put back, run `relay storage restored`; if not, the peer errs or lies",
      ])
  }

  /// - Parameter claimant: the peer that alone claims that the store is an older state.
  private func sayHeldBack(_ claimant: RelayName?) {
    guard state.withLock({ $0.sayHeldBack() }) else { return }
    var metadata: Logger.Metadata = [
      "remedy": """
      bring Redis or a peer back; suspend peers that are gone for good\(claimant.map { ", and \($0) if it lies" } ?? ""); \
      or run `relay storage restored`
      """
    ]
    if let claimant { metadata["claimed-by"] = "\(claimant)" }
    logger.warning(
      "no witness answers who remembers how far the store had come: one-time prekeys are held back, last resorts serve",
      metadata: metadata)
  }

  // MARK: - From then on

  private func raise() async throws(StoreError) {
    let (written, failures) = state.withLock { ($0.epoch, $0.failures) }
    // Asks for the epochs that other processes have written, as `compareOnce` does: before the store is asked.
    let remembered = plausible(await redis?.witness(epoch: 0) ?? [], own: written).compactMap(\.epoch).max() ?? 0
    let known = max(written, remembered)
    // By 1 first, for the same reason.
    var (own, newest) = try await store.advanceEpoch(atLeast: 0)
    if own < known { newest = try await setAside(newest: known, own: own, by: own < written ? .process : .redis) }
    let raised: Int64
    (own, raised) = try await store.advanceEpoch(atLeast: clock.now().millis)
    // It was put back between the two.
    if own < newest { try await setAside(newest: newest, own: own, by: .process) }
    let wasHeldBack = state.withLock { state in
      state.epoch = raised
      state.failuresLookedAfter = failures
      defer { state.hasSaidHeldBack = false }
      return state.hasSaidHeldBack
    }
    if wasHeldBack { logger.notice("one-time prekeys are handed out again") }
    await tell(raised)
  }

  /// Redis each time, the peers every ten seconds and in the background; where there is no Redis, quick peers each
  /// time.
  private func tell(_ epoch: Int64) async {
    let isDue = state.withLock { state in
      guard .now >= state.peersDue else { return false }
      state.peersDue = .now + Self.interval
      return true
    }
    let fromRedis = (await redis?.witness(epoch: epoch) ?? []).count { $0.epoch != nil }
    if let peers, isDue {
      let telling = Task { await self.tell(epoch, peers, beside: fromRedis) }
      state.withLock { $0.peersTelling = telling }
    }
    guard redis == nil, let quickPeers else { return witnessed.record(fromRedis + state.withLock { $0.peersTold }) }
    await tell(epoch, quickPeers, beside: fromRedis)
  }

  private func tell(_ epoch: Int64, _ peers: any EpochWitness, beside others: Int) async {
    let told = (await peers.witness(epoch: epoch)).count { $0.epoch != nil }
    state.withLock { $0.peersTold = told }
    witnessed.record(others + told)
  }

  /// - Returns: what the store has reached at least.
  @discardableResult private func setAside(newest: Int64, own: Int64, by word: RestoreWord) async throws(StoreError)
    -> Int64
  {
    let floor = newest + 1
    let behind = Duration.milliseconds(newest - own)
    try await store.setAsideOneTimePreKeys(epoch: floor, by: word, behind: behind)
    restores.increment()
    logger.warning(
      "the store was put back to an older state: its one-time prekeys are set aside until clients refill",
      metadata: ["behind-seconds": "\(behind.components.seconds)", "by": "\(word.text)"])
    return floor
  }
}

extension RestoreGuard.State {
  /// - Returns: the look that is under way, begun now if there was none.
  fileprivate mutating func look(by restores: RestoreGuard) -> Task<Void, Never> {
    if let looking { return looking }
    hasDrawn = false
    let task = Task { await restores.look() }
    looking = task
    return task
  }

  /// - Returns: what was the last word when this was first asked.
  fileprivate mutating func word(first: RestoreNotes.Note?) -> RestoreNotes.Note? {
    if let formerWord { return formerWord }
    formerWord = .some(first)
    return first
  }

  /// - Returns: whether it is the first time.
  fileprivate mutating func sayImplausible() -> Bool {
    defer { hasSaidImplausible = true }
    return !hasSaidImplausible
  }

  fileprivate mutating func sayHeldBack() -> Bool {
    defer { hasSaidHeldBack = true }
    return !hasSaidHeldBack
  }
}
