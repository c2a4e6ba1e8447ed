package import Logging
import Metrics
package import RelayCore
import ServiceLifecycle
import Synchronization

/// Notices that the store was put back to an older state, so that no one-time prekey is handed out a second time
/// (docs/decisions/2026-11-21-restored-stores.md).
///
/// The store holds an epoch that only rises. Every process raises it every ten seconds, in the store first and then at
/// the witnesses, who live outside the store: what they remember, the store has held. A store with a lower epoch is an
/// older state of itself. Its one-time keys are dropped then, whoever may have got them, and last resorts serve until
/// clients refill.
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
  }

  private let store: any EpochStore
  private let witnesses: [any EpochWitness]
  private let clock: WallClock
  private let logger: Logger
  private let state: Mutex<State>
  private let restores = Counter(label: "relay_store_restores_total")
  /// How many witnesses took the last epoch.
  private let witnessed = Gauge(label: "relay_store_witnesses")

  /// - Parameter witnesses: without any, only a restore under the running process is noticed.
  package init(store: any EpochStore, witnesses: [any EpochWitness], clock: WallClock, logger: Logger) {
    self.store = store
    self.witnesses = witnesses
    self.clock = clock
    self.logger = logger
    state = Mutex(State(isCompared: witnesses.isEmpty))
  }

  /// False while the store may be an older state of itself: until a witness has answered, and from a failed call to
  /// the next look.
  package var allowsOneTimeKeys: Bool { state.withLock { $0.isCompared && $0.failures == $0.failuresLookedAfter } }

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
      while !Task.isCancelled {
        if ContinuousClock.now >= next || !allowsOneTimeKeys {
          await look()
          next = .now + Self.interval
        }
        // Only cancellation throws here, and the loop's condition sees it.
        try? await Task.sleep(for: Self.retryInterval)
      }
    }
  }

  /// How old a backup may at most be without being recognised.
  private static let interval = Duration.seconds(10)
  private static let retryInterval = Duration.seconds(1)
  /// Further ahead than this no other process's clock is.
  private static let clockSkewMillis = Timestamp.millisPerDay

  private func look() async {
    do throws(StoreError) {
      try await compareOnce()
      guard state.withLock({ $0.isCompared }) else { return }
      try await raise()
    } catch {
      storeFailed()
      logger.debug("the store's epoch was not raised", metadata: ["error": "\(error)"])
    }
  }

  // MARK: - At the start

  private func compareOnce() async throws(StoreError) {
    guard !state.withLock({ $0.isCompared }) else { return }
    // Asked before the store is: what they remember by now, a store that was not put back holds.
    let answers = await ask(0)
    // Without the store's own epoch nothing is known to be implausible. It is read when the answers may decide something,
    // and only then again: no waiting raises an older state to what they remember.
    let known = state.withLock { $0.epoch }
    guard Self.isConclusive(known > 0 ? plausible(answers, own: known) : answers) else { return sayHeldBack() }
    // By 1 alone: should this process end here, the next one sees what it would have seen.
    let (own, raised) = try await store.advanceEpoch(atLeast: 0)
    state.withLock { $0.epoch = max($0.epoch, raised) }
    let believed = plausible(answers, own: own)
    guard Self.isConclusive(believed) else { return sayHeldBack() }
    let remembered = believed.compactMap(\.self).max() ?? 0
    if remembered > own { try await setAside(newest: remembered, own: own) }
    state.withLock { $0.isCompared = true }
  }

  /// Some witness remembers an epoch, or none does that could. One that has lost its memory says nothing while another
  /// is away.
  private static func isConclusive(_ answers: [Int64?]) -> Bool {
    answers.contains { ($0 ?? 0) > 0 } || !answers.contains(nil)
  }

  /// `answers`, with nil for those that no witness can remember: they are no answers, and hide no others.
  private func plausible(_ answers: [Int64?], own: Int64) -> [Int64?] {
    let limit = max(own, clock.now().millis) + Self.clockSkewMillis
    let believed = answers.map { answer in answer.flatMap { $0 <= limit ? $0 : nil } }
    if believed != answers, state.withLock({ $0.sayImplausible() }) {
      logger.warning("a witness remembers an epoch of the store that lies in the future: ignored")
    }
    return believed
  }

  private func sayHeldBack() {
    guard state.withLock({ $0.sayHeldBack() }) else { return }
    logger.warning(
      "no witness answers who remembers how far the store had come: one-time prekeys are held back, last resorts serve",
      metadata: ["remedy": "bring Redis or a peer back; suspend peers that are gone for good"])
  }

  // MARK: - From then on

  private func raise() async throws(StoreError) {
    let (known, failures) = state.withLock { ($0.epoch, $0.failures) }
    // By 1 first, for the same reason.
    var (own, newest) = try await store.advanceEpoch(atLeast: 0)
    if own < known { newest = try await setAside(newest: known, own: own) }
    let raised: Int64
    (own, raised) = try await store.advanceEpoch(atLeast: clock.now().millis)
    // It was put back between the two.
    if own < newest { try await setAside(newest: newest, own: own) }
    let wasHeldBack = state.withLock { state in
      state.epoch = raised
      state.failuresLookedAfter = failures
      defer { state.hasSaidHeldBack = false }
      return state.hasSaidHeldBack
    }
    if wasHeldBack { logger.notice("one-time prekeys are handed out again") }
    witnessed.record(await ask(raised).count { $0 != nil })
  }

  /// - Returns: what the store has reached at least.
  @discardableResult private func setAside(newest: Int64, own: Int64) async throws(StoreError) -> Int64 {
    let floor = newest + 1
    try await store.setAsideOneTimePreKeys(epoch: floor)
    restores.increment()
    logger.warning(
      "the store was put back to an older state: its one-time prekeys are set aside until clients refill",
      metadata: ["behind-seconds": "\((newest - own) / 1000)"])
    return floor
  }

  /// - Returns: the answers of all witnesses, in no order.
  private func ask(_ epoch: Int64) async -> [Int64?] {
    await withTaskGroup(of: [Int64?].self) { group in
      for witness in witnesses { group.addTask { await witness.witness(epoch: epoch) } }
      return await group.reduce(into: []) { $0 += $1 }
    }
  }
}

extension RestoreGuard.State {
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
