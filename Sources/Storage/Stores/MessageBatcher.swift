// Gathers appends that arrive while others are being written: a durable write costs much the same for one message and
// for hundreds.

package import RelayCore
import RelayWork
import Synchronization

/// Hands appends to a store in batches: one under way, and those that arrive meanwhile form the next.
///
/// A lone caller waits for its own write only. The envelopes of one call stay together and in order; calls are
/// written in the order of their arrival, and their watches are told in that order, before the next batch is written.
package final class MessageBatcher: Sendable {
  /// The bounds of what may gather. Each is far above what a store that keeps up lets stand.
  package struct Bounds: Sendable {
    /// Envelopes in one batch, unless a single call is larger: time on the wire and under lock.
    package var batchEnvelopesMax = 500
    package var batchBytesMax = 4 << 20
    /// Envelopes that wait in all. Beyond it an append fails at once, and its sender is told to come back.
    package var waitingEnvelopesMax = 20_000
    package var waitingBytesMax = 64 << 20
    /// The parts of it that envelopes of one peer, and of all of them, may take. A peer without anything there may have
    /// one call all the same.
    package var (peerShare, peersShare) = (0.25, 0.75)
    package init() {}
  }

  private typealias Calls = BatchedCalls<Append, Result<Void, StoreError>>

  /// Writes envelopes in their order, all or none, durable on return.
  /// - Parameter watched: the mailboxes whose places somebody wants to know.
  /// - Returns: the places of envelopes in these mailboxes, by index; not of one that was not stored again.
  package typealias Write =
    @Sendable (_ envelopes: [Envelope], _ watched: Set<DeviceAddress>) async throws(StoreError) -> [Int: AppendedPlace]

  private struct Append: Sendable {
    let envelopes: [Envelope]
    let watch: (any AppendWatch)?
    let byteCount: Int

    init(_ envelopes: [Envelope], _ watch: (any AppendWatch)?) {
      self.envelopes = envelopes
      self.watch = watch
      byteCount = envelopes.reduce(0) { $0 + $1.byteCount + Self.overheadBytes }
    }

    /// The mailboxes that its watch wants to know the places of.
    var watched: [DeviceAddress] {
      guard let watch else { return [] }
      return envelopes.lazy.map(\.destination).filter { watch.watches($0) }
    }

    /// - Parameters:
    ///   - places: of all envelopes of its batch.
    ///   - start: the index of its first one.
    func tell(_ places: [Int: AppendedPlace], from start: Int) {
      watch?.stored(envelopes.enumerated().map { AppendedEnvelope($1, at: places[start + $0]) })
    }

    /// The weight of an envelope beside its bodies.
    private static let overheadBytes = 128
  }

  private let calls: Calls
  private typealias Size = BatchQueue<Calls.Member>.Size
  private let peerMax: Size
  private let peersMax: Size
  private let waitingOfPeers = Mutex<(each: [RelayName: Size], all: Size)>(([:], Size(items: 0)))

  /// - Parameter write: never called twice at once.
  package init(bounds: Bounds = Bounds(), write: @escaping Write) {
    calls = BatchedCalls(
      bounds: .init(
        batch: .init(items: bounds.batchEnvelopesMax, bytes: bounds.batchBytesMax),
        waiting: .init(items: bounds.waitingEnvelopesMax, bytes: bounds.waitingBytesMax), countsUnderWay: true),
      size: { .init(items: $0.envelopes.count, bytes: $0.byteCount) },
      run: { await Self.write($0, by: write) })
    func part(_ share: Double) -> Size {
      Size(
        items: Int(Double(bounds.waitingEnvelopesMax) * share), bytes: Int(Double(bounds.waitingBytesMax) * share))
    }
    (peerMax, peersMax) = (part(bounds.peerShare), part(bounds.peersShare))
  }

  /// Writes `envelopes`, all or none; durable on return.
  /// - Throws: `.unavailable` also when too much waits already; what the store threw for this call otherwise.
  package func append(_ envelopes: [Envelope], watch: (any AppendWatch)? = nil) async throws(StoreError) {
    guard let first = envelopes.first else { return }
    let append = Append(envelopes, watch)
    let size = Size(items: envelopes.count, bytes: append.byteCount)
    // The envelopes of one call come from one relay.
    guard takesShare(of: first.relay, size) else { throw Self.tooMany }
    defer { leaveShare(of: first.relay, size) }
    guard let outcome = await calls.outcome(of: append) else { throw Self.tooMany }
    try outcome.get()
  }

  private static let tooMany = StoreError.unavailable(reason: "too many messages wait to be stored")

  /// - Returns: false when so much of the peer's, or of all peers', waits already.
  private func takesShare(of peer: RelayName?, _ size: Size) -> Bool {
    guard let peer else { return true }
    return waitingOfPeers.withLock { waiting in
      let all = waiting.all + size
      let own = waiting.each[peer].map { $0 + size }
      if let own, !own.fits(peerMax) || !all.fits(peersMax) { return false }
      waiting.each[peer] = own ?? size
      waiting.all = all
      return true
    }
  }

  private func leaveShare(of peer: RelayName?, _ size: Size) {
    guard let peer else { return }
    waitingOfPeers.withLock { waiting in
      let rest = waiting.each[peer].map { $0 - size }
      waiting.each[peer] = (rest?.items ?? 0) > 0 ? rest : nil
      waiting.all = waiting.all - size
    }
  }

  private static func write(_ batch: [Calls.Member], by write: Write) async {
    do throws(StoreError) {
      let places = try await write(batch.flatMap(\.call.envelopes), Set(batch.lazy.flatMap(\.call.watched)))
      var start = 0
      for member in batch {
        // Before its caller goes on: a later append must not be told of first.
        member.call.tell(places, from: start)
        start += member.call.envelopes.count
        member.end(with: .success(()))
      }
    } catch {
      guard error.isOfPart, batch.count > 1 else {
        for member in batch { member.end(with: .failure(error)) }
        return
      }
      // The store refuses something in it: it fails its own call and not its neighbours'.
      for member in batch { await self.write([member], by: write) }
    }
  }
}
