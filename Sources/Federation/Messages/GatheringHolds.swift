import DequeModule
import RelayCore
import Synchronization

/// Gathers messages for one peer's outbox while others are being stored into the next transaction, which costs much the same
/// for one and for hundreds.
///
/// One transaction at a time, in the order in which the messages came; those of one call stay together.
final class GatheringHolds: Sendable {
  struct Bounds: Sendable {
    /// Of one transaction, unless a single call is larger: time under the peer's lock.
    var messagesMax = 256
    var bytesMax = 4 << 20
    /// Of what waits: beyond it nothing is taken.
    var waitingMax = 4096
    var waitingBytesMax = 16 << 20
  }
  /// - Returns: of each message nil when it is durable, else why it is not held.
  typealias Store = @Sendable ([OutgoingMessage]) async -> [Problem?]

  private struct Call {
    let messages: [OutgoingMessage]
    let byteCount: Int
    let continuation: CheckedContinuation<[Problem?], Never>
  }
  private struct State {
    var calls: Deque<Call> = []
    /// Of `calls`.
    var messageCount = 0
    var byteCount = 0
    var isUnderWay = false
  }

  private let bounds: Bounds
  private let store: Store
  private let state = Mutex(State())

  private static let tooMuch = Problem(
    .peerUnavailable, retryAfter: .seconds(2), reason: "too many messages wait to be held")

  /// - Parameter store: never called twice at once.
  init(bounds: Bounds = Bounds(), store: @escaping Store) {
    self.bounds = bounds
    self.store = store
  }

  /// Messages behind the transaction that is under way.
  var waitingCount: Int { state.withLock { $0.messageCount } }

  /// - Returns: as `Store`.
  func hold(_ messages: [OutgoingMessage]) async -> [Problem?] {
    guard !messages.isEmpty else { return [] }
    return await withCheckedContinuation { continuation in
      let byteCount = messages.reduce(0) { $0 + $1.byteCount }
      let call = Call(messages: messages, byteCount: byteCount, continuation: continuation)
      let (isTaken, isFirst) = state.withLock { state in
        // Who finds nothing waiting is taken, however large.
        guard
          state.calls.isEmpty
            || state.messageCount + messages.count <= bounds.waitingMax
              && state.byteCount + byteCount <= bounds.waitingBytesMax
        else { return (false, false) }
        state.calls.append(call)
        state.messageCount += messages.count
        state.byteCount += byteCount
        defer { state.isUnderWay = true }
        return (true, !state.isUnderWay)
      }
      if !isTaken { continuation.resume(returning: messages.map { _ in Self.tooMuch }) }
      if isFirst { RequestID.ofNobody { await self.storeUntilEmpty() } }
    }
  }

  private func storeUntilEmpty() async {
    while let calls = nextTransaction() {
      var problems = await store(calls.flatMap(\.messages))[...]
      for call in calls {
        call.continuation.resume(returning: Array(problems.prefix(call.messages.count)))
        problems = problems.dropFirst(call.messages.count)
      }
    }
  }

  /// - Returns: nil when nothing waits: the next to come is then the first again.
  private func nextTransaction() -> [Call]? {
    state.withLock { state in
      var calls: [Call] = []
      var (messages, bytes) = (0, 0)
      while let next = state.calls.first {
        messages += next.messages.count
        bytes += next.byteCount
        guard calls.isEmpty || (messages <= bounds.messagesMax && bytes <= bounds.bytesMax) else { break }
        calls.append(next)
        state.calls.removeFirst()
        state.messageCount -= next.messages.count
        state.byteCount -= next.byteCount
      }
      state.isUnderWay = !calls.isEmpty
      return calls.isEmpty ? nil : calls
    }
  }
}
