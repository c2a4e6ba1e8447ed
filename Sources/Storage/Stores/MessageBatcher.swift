// Gathers appends that arrive while others are being written: a durable write costs much the same for one message and
// for hundreds.

package import RelayCore
import Synchronization

/// Hands appends to a store in batches: one under way, and those that arrive meanwhile form the next.
///
/// A lone caller waits for its own write only. The envelopes of one call stay together and in order; calls are
/// written in the order of their arrival.
package final class MessageBatcher: Sendable {
  /// What may gather. Each bound is far above what a store that keeps up lets stand.
  package struct Bounds: Sendable {
    /// Of one batch, unless a single call is larger: time on the wire and under lock.
    package var batchEnvelopesMax = 500
    package var batchBytesMax = 4 << 20
    /// Of all that waits: beyond it an append fails at once, and its sender is told to come back.
    package var waitingEnvelopesMax = 20_000
    package var waitingBytesMax = 64 << 20
    package init() {}
  }

  private let bounds: Bounds
  private let write: @Sendable ([Envelope]) async throws(StoreError) -> Void
  private let queue = Mutex(Queue())

  /// - Parameter write: writes envelopes in their order, all or none, durable on return; never called twice at once.
  package init(
    bounds: Bounds = Bounds(), write: @escaping @Sendable ([Envelope]) async throws(StoreError) -> Void
  ) {
    self.bounds = bounds
    self.write = write
  }

  /// Writes `envelopes`, all or none; durable on return.
  /// - Throws: `.unavailable` also when too much waits already; what the store threw for this call otherwise.
  package func append(_ envelopes: [Envelope]) async throws(StoreError) {
    guard !envelopes.isEmpty else { return }
    let outcome: Outcome = await withCheckedContinuation { continuation in
      let call = Call(envelopes: envelopes, finish: { continuation.resume(returning: $0) })
      switch queue.withLock({ $0.admit(call, within: bounds) }) {
      case .full: call.finish(.failure(.unavailable(reason: "too many messages wait to be stored")))
      case .waits: break
      case .isFirst: RequestID.ofNobody { await self.writeUntilEmpty() }
      }
    }
    try outcome.get()
  }

  private func writeUntilEmpty() async {
    while let batch = queue.withLock({ $0.nextBatch(within: bounds) }) {
      await write(batch)
      queue.withLock { $0.finished(batch) }
    }
  }

  private func write(_ batch: [Call]) async {
    do throws(StoreError) {
      try await write(batch.flatMap(\.envelopes))
      for call in batch { call.finish(.success(())) }
    } catch .corrupted where batch.count > 1 {
      // The store refuses something in it: it fails its own call and not its neighbours'.
      for call in batch { await write([call]) }
    } catch {
      for call in batch { call.finish(.failure(error)) }
    }
  }
}

private typealias Outcome = Result<Void, StoreError>

private struct Call: Sendable {
  let envelopes: [Envelope]
  let byteCount: Int
  let finish: @Sendable (Outcome) -> Void

  init(envelopes: [Envelope], finish: @escaping @Sendable (Outcome) -> Void) {
    self.envelopes = envelopes
    self.finish = finish
    byteCount = envelopes.reduce(0) { $0 + ($1.message?.count ?? 0) + ($1.content?.count ?? 0) + overheadBytes }
  }
}

/// What an envelope weighs beside its bodies.
private let overheadBytes = 128

private struct Queue {
  enum Admission { case full, waits, isFirst }

  private var calls: [Call] = []
  /// Of `calls` and of the batch under way.
  private var envelopeCount = 0
  private var byteCount = 0
  private var isWriting = false

  mutating func admit(_ call: Call, within bounds: MessageBatcher.Bounds) -> Admission {
    // Whoever finds nothing waiting is admitted, however large: it could never be stored otherwise.
    guard
      envelopeCount == 0
        || envelopeCount + call.envelopes.count <= bounds.waitingEnvelopesMax
          && byteCount + call.byteCount <= bounds.waitingBytesMax
    else { return .full }
    envelopeCount += call.envelopes.count
    byteCount += call.byteCount
    calls.append(call)
    defer { isWriting = true }
    return isWriting ? .waits : .isFirst
  }

  /// - Returns: at least one call, or nil when none waits: the next to come is then the first again.
  mutating func nextBatch(within bounds: MessageBatcher.Bounds) -> [Call]? {
    var (envelopes, bytes) = (0, 0)
    let size =
      calls.firstIndex { call in
        envelopes += call.envelopes.count
        bytes += call.byteCount
        return envelopes > bounds.batchEnvelopesMax || bytes > bounds.batchBytesMax
      } ?? calls.count
    guard !calls.isEmpty else {
      isWriting = false
      return nil
    }
    let batch = Array(calls.prefix(max(1, size)))
    calls.removeFirst(batch.count)
    return batch
  }

  mutating func finished(_ batch: [Call]) {
    envelopeCount -= batch.reduce(0) { $0 + $1.envelopes.count }
    byteCount -= batch.reduce(0) { $0 + $1.byteCount }
  }
}
