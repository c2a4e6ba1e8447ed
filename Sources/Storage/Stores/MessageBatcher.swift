// Gathers appends that arrive while others are being written: a durable write costs much the same for one message and
// for hundreds.

package import RelayCore
import RelayWork

/// Hands appends to a store in batches: one under way, and those that arrive meanwhile form the next.
///
/// A lone caller waits for its own write only. The envelopes of one call stay together and in order; calls are
/// written in the order of their arrival.
package final class MessageBatcher: Sendable {
  /// The bounds of what may gather. Each is far above what a store that keeps up lets stand.
  package struct Bounds: Sendable {
    /// Envelopes in one batch, unless a single call is larger: time on the wire and under lock.
    package var batchEnvelopesMax = 500
    package var batchBytesMax = 4 << 20
    /// Envelopes that wait in all. Beyond it an append fails at once, and its sender is told to come back.
    package var waitingEnvelopesMax = 20_000
    package var waitingBytesMax = 64 << 20
    package init() {}
  }

  private typealias Calls = BatchedCalls<Append, Result<Void, StoreError>>

  private struct Append: Sendable {
    let envelopes: [Envelope]
    let byteCount: Int

    init(_ envelopes: [Envelope]) {
      self.envelopes = envelopes
      byteCount = envelopes.reduce(0) { $0 + ($1.message?.count ?? 0) + ($1.content?.count ?? 0) + Self.overheadBytes }
    }

    /// The weight of an envelope beside its bodies.
    private static let overheadBytes = 128
  }

  private let calls: Calls

  /// - Parameter write: writes envelopes in their order, all or none, durable on return; never called twice at once.
  package init(
    bounds: Bounds = Bounds(), write: @escaping @Sendable ([Envelope]) async throws(StoreError) -> Void
  ) {
    calls = BatchedCalls(
      bounds: .init(
        batch: .init(items: bounds.batchEnvelopesMax, bytes: bounds.batchBytesMax),
        waiting: .init(items: bounds.waitingEnvelopesMax, bytes: bounds.waitingBytesMax), countsUnderWay: true),
      size: { .init(items: $0.envelopes.count, bytes: $0.byteCount) },
      run: { await Self.write($0, by: write) })
  }

  /// Writes `envelopes`, all or none; durable on return.
  /// - Throws: `.unavailable` also when too much waits already; what the store threw for this call otherwise.
  package func append(_ envelopes: [Envelope]) async throws(StoreError) {
    guard !envelopes.isEmpty else { return }
    guard let outcome = await calls.outcome(of: Append(envelopes)) else {
      throw .unavailable(reason: "too many messages wait to be stored")
    }
    try outcome.get()
  }

  private static func write(
    _ batch: [Calls.Member], by write: @Sendable ([Envelope]) async throws(StoreError) -> Void
  ) async {
    do throws(StoreError) {
      try await write(batch.flatMap(\.call.envelopes))
      for member in batch { member.end(with: .success(())) }
    } catch .corrupted where batch.count > 1 {
      // The store refuses something in it: it fails its own call and not its neighbours'.
      for member in batch { await self.write([member], by: write) }
    } catch {
      for member in batch { member.end(with: .failure(error)) }
    }
  }
}
