import DequeModule
import RelayCore
import Synchronization

/// Gathers what comes while a call is under way into the next one: a call costs much the same for one item and for
/// hundreds.
///
/// One call at a time, in the order in which the items came. Whoever adds an item does not wait for its call.
package final class Gathering<Item: Sendable>: Sendable {
  private struct State {
    var waiting: Deque<Item> = []
    var isUnderWay = false
  }

  private let state = Mutex(State())
  private let batchMax: Int
  private let waitingMax: Int
  private let call: @Sendable ([Item]) async -> [Item]

  /// - Parameters:
  ///   - batchMax: items of one call.
  ///   - waitingMax: items that wait for the next calls; what comes on top is not taken. With a batch that is to be tried
  ///     again at most `batchMax` more wait.
  ///   - call: is given 1 to `batchMax` items; never called twice at once.
  package convenience init(batchMax: Int, waitingMax: Int, call: @escaping @Sendable ([Item]) async -> Void) {
    self.init(retryingBatchesOf: batchMax, waitingMax: waitingMax) { items in
      await call(items)
      return []
    }
  }

  /// - Parameter call: what it returns goes into a later call, behind all that waits.
  package init(retryingBatchesOf batchMax: Int, waitingMax: Int, call: @escaping @Sendable ([Item]) async -> [Item]) {
    self.batchMax = batchMax
    self.waitingMax = waitingMax
    self.call = call
  }

  /// - Returns: whether it was taken.
  @discardableResult
  package func add(_ item: Item) -> Bool { add(contentsOf: CollectionOfOne(item)) == 1 }

  /// - Returns: how many were taken, the first ones.
  @discardableResult
  package func add(contentsOf items: some Collection<Item>) -> Int {
    guard !items.isEmpty else { return 0 }
    let (taken, isFirst) = state.withLock { state in
      // A failed batch goes back into a queue that may have filled up meanwhile, and makes it longer than `waitingMax`.
      let taken = min(items.count, max(0, waitingMax - state.waiting.count))
      state.waiting.append(contentsOf: items.prefix(taken))
      defer { state.isUnderWay = state.isUnderWay || taken > 0 }
      return (taken, taken > 0 && !state.isUnderWay)
    }
    if isFirst { RequestID.ofNobody { await self.callUntilEmpty() } }
    return taken
  }

  private func callUntilEmpty() async {
    while let batch = nextBatch() {
      let again = await call(batch)
      // Taken before: they have their place.
      if !again.isEmpty { state.withLock { $0.waiting.append(contentsOf: again) } }
    }
  }

  /// - Returns: nil when nothing waits: the next to come is then the first again.
  private func nextBatch() -> [Item]? {
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

  private var isIdle: Bool { state.withLock { !$0.isUnderWay } }

  /// Waits until nothing waits and nothing is under way, for at most until `deadline`. For the end of the process alone:
  /// it looks again and again.
  package func settle(until deadline: ContinuousClock.Instant) async {
    while !isIdle, .now < deadline {
      // Whoever cancels this wants no more of it.
      do { try await Task.sleep(for: .milliseconds(5)) } catch { return }
    }
  }
}
