public import DequeModule
public import Synchronization

/// Gathers what comes while a batch is under way into the next one: a batch costs much the same for one item and for
/// hundreds. One who adds an item does not wait for its batch, and so a batch may wait for more items (`gathering`).
///
/// One batch at a time, in the order in which the items came. Batches run in tasks of their own, which inherit nothing
/// of the task that added an item, and which nobody cancels.
public final class Batcher<Item: Sendable>: Sendable {
  @usableFromInline
  struct State {
    @usableFromInline var waiting: Deque<Item> = []
    @usableFromInline var isUnderWay = false
    @inlinable init() {}
  }

  /// Times in which no batch runs.
  public struct Rest: Sendable {
    /// Before each batch, so that more gathers. A batch that is full already does not wait.
    public var gathering: Duration
    /// Behind a batch of which something is to be tried again.
    public var beforeRetry: Duration

    public init(gathering: Duration = .zero, beforeRetry: Duration = .zero) {
      self.gathering = gathering
      self.beforeRetry = beforeRetry
    }
  }

  @usableFromInline let state = Mutex(State())
  @usableFromInline let batchMax: Int
  @usableFromInline let waitingMax: Int
  @usableFromInline let rest: Rest
  private let clock: any Clock<Duration>
  @usableFromInline let run: @Sendable ([Item]) async -> [Item]

  /// - Parameters:
  ///   - batchMax: items of one batch.
  ///   - waitingMax: items that wait for the next ones; what comes on top is not taken. With a batch that is to be
  ///     tried
  ///     again at most `batchMax` more wait.
  ///   - run: is given 1 to `batchMax` items; never called twice at once.
  public convenience init(batchMax: Int, waitingMax: Int, run: @escaping @Sendable ([Item]) async -> Void) {
    self.init(retryingBatchesOf: batchMax, waitingMax: waitingMax) { items in
      await run(items)
      return []
    }
  }

  /// - Parameter run: what it returns goes into a later batch, behind all that waits.
  public init(
    retryingBatchesOf batchMax: Int, waitingMax: Int, rest: Rest = Rest(),
    on clock: any Clock<Duration> = ContinuousClock(), run: @escaping @Sendable ([Item]) async -> [Item]
  ) {
    self.batchMax = batchMax
    self.waitingMax = waitingMax
    self.rest = rest
    self.clock = clock
    self.run = run
  }

  /// - Returns: whether it was taken.
  @inlinable
  @discardableResult
  public func add(_ item: Item) -> Bool { add(contentsOf: CollectionOfOne(item)) == 1 }

  /// - Returns: how many were taken, the first ones.
  @inlinable
  @discardableResult
  public func add(contentsOf items: some Collection<Item>) -> Int {
    guard !items.isEmpty else { return 0 }
    let (taken, isFirst) = state.withLock { state in
      // A failed batch goes back into a queue that may have filled up meanwhile, and makes it longer than `waitingMax`.
      let taken = min(items.count, max(0, waitingMax - state.waiting.count))
      state.waiting.append(contentsOf: items.prefix(taken))
      defer { state.isUnderWay = state.isUnderWay || taken > 0 }
      return (taken, taken > 0 && !state.isUnderWay)
    }
    if isFirst { Task.ofNobody { await self.runUntilEmpty() } }
    return taken
  }

  @inlinable
  func runUntilEmpty() async {
    await gather()
    while let batch = nextBatch() {
      let again = await run(batch)
      if !again.isEmpty {
        await pause(rest.beforeRetry)
        // Taken before: they have their place.
        state.withLock { $0.waiting.append(contentsOf: again) }
      }
      await gather()
    }
  }

  /// Nothing waits for more where nothing waits.
  @inlinable
  func gather() async {
    guard rest.gathering > .zero else { return }
    let waiting = state.withLock { $0.waiting.count }
    if waiting > 0, waiting < batchMax { await pause(rest.gathering) }
  }

  /// - Returns: nil when nothing waits: the next to come is then the first again.
  @inlinable
  func nextBatch() -> [Item]? {
    state.withLock { state in
      guard !state.waiting.isEmpty else {
        state.isUnderWay = false
        return nil
      }
      let batch = Array(state.waiting.prefix(batchMax))
      state.waiting.removeFirst(batch.count)
      return batch
    }
  }

  @usableFromInline
  func pause(_ duration: Duration) async {
    if duration > .zero { await Pause.for(duration, on: clock) }
  }

  /// Waits until nothing waits and nothing is under way, for at most until `deadline`. For the end of the process
  /// alone: it looks again and again.
  public func settle(until deadline: ContinuousClock.Instant) async {
    await Pause.poll(every: .milliseconds(5), until: deadline) { state.withLock { !$0.isUnderWay } }
  }
}
