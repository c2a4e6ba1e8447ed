import RelayCore
import RelayWork

/// Gathers messages for one peer's outbox while others are being stored into the next transaction, which costs much
/// the same for one and for hundreds.
///
/// One transaction at a time, in the order in which the messages came; those of one call stay together.
final class GatheringHolds: Sendable {
  struct Bounds: Sendable {
    /// Bounds of one transaction, unless a single call is larger: they limit the time under the peer's lock.
    var messagesMax = 256
    var bytesMax = 4 << 20
    /// Bounds of the messages that wait: beyond them nothing is taken.
    var waitingMax = 4096
    var waitingBytesMax = 16 << 20
  }
  /// - Returns: of each message nil when it is durable, else why it is not held.
  typealias Store = @Sendable ([PeerSubmission]) async -> [Problem?]

  private let calls: BatchedCalls<[PeerSubmission], [Problem?]>

  private static let tooMuch = Problem(
    .peerUnavailable, retryAfter: .seconds(2), reason: "too many messages wait to be held")

  /// - Parameter store: never called twice at once.
  init(bounds: Bounds = Bounds(), store: @escaping Store) {
    calls = BatchedCalls(
      bounds: .init(
        batch: .init(items: bounds.messagesMax, bytes: bounds.bytesMax),
        waiting: .init(items: bounds.waitingMax, bytes: bounds.waitingBytesMax)),
      size: { .init(items: $0.count, bytes: $0.reduce(0) { $0 + $1.byteCount }) },
      run: { batch in
        var problems = await store(batch.flatMap(\.call))[...]
        for member in batch {
          member.end(with: Array(problems.prefix(member.call.count)))
          problems = problems.dropFirst(member.call.count)
        }
      })
  }

  /// Messages behind the transaction that is under way.
  var waitingCount: Int { calls.waiting.items }

  /// - Returns: as `Store`.
  func hold(_ messages: [PeerSubmission]) async -> [Problem?] {
    guard !messages.isEmpty else { return [] }
    return await calls.outcome(of: messages) ?? messages.map { _ in Self.tooMuch }
  }
}
