public import Synchronization

/// Calls that are made in batches, and whose callers wait for the outcome of their own: a batch costs much the same
/// for one call and for hundreds.
///
/// One batch at a time, and what comes meanwhile forms the next. A lone caller waits for its own call only. Calls keep
/// the order in which they came. Batches run in tasks of their own, which inherit nothing of the caller's: one that
/// gives up takes no others along.
public final class BatchedCalls<Call: Sendable, Outcome: Sendable>: Sendable {
  /// A call of a batch. A class: copies of a generic structure cost several times as much.
  public final class Member: Sendable {
    public let call: Call
    @usableFromInline let caller: CheckedContinuation<Outcome?, Never>

    @inlinable
    init(call: Call, caller: CheckedContinuation<Outcome?, Never>) {
      self.call = call
      self.caller = caller
    }

    /// Tells its caller. To be called once for each member.
    @inlinable
    public func end(with outcome: Outcome) { caller.resume(returning: outcome) }
  }

  @usableFromInline let queue: Mutex<BatchQueue<Member>>
  @usableFromInline let run: @Sendable ([Member]) async -> Void

  /// - Parameters:
  ///   - size: of a call.
  ///   - run: is given at least one member, and ends each; never called twice at once.
  @inlinable
  public init(
    bounds: BatchQueue<Member>.Bounds, size: @escaping @Sendable (Call) -> BatchQueue<Member>.Size,
    run: @escaping @Sendable ([Member]) async -> Void
  ) {
    queue = Mutex(BatchQueue(bounds: bounds) { size($0.call) })
    self.run = run
  }

  /// The size of the calls behind the batch that is under way.
  public var waiting: BatchQueue<Member>.Size { queue.withLock { $0.waiting } }

  /// Waits also when the caller is cancelled: the call is under way.
  /// - Returns: nil, with nothing done, when too much waits already.
  @inlinable
  @discardableResult
  public func outcome(of call: Call) async -> Outcome? {
    await withCheckedContinuation { caller in
      let member = Member(call: call, caller: caller)
      switch queue.withLock({ $0.admit(member) }) {
      case .full: caller.resume(returning: nil)
      case .waits: break
      case .isFirst: Task.ofNobody { await self.runUntilEmpty() }
      }
    }
  }

  @inlinable
  func runUntilEmpty() async {
    while let batch = queue.withLock({ $0.next() }) { await run(batch) }
  }
}
