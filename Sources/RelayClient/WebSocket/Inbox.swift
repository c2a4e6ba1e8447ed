import NIOCore
import Synchronization

/// Elements that an event loop has for tasks to take: bounded by asking the event loop to pause, not by dropping.
///
/// The bound is soft: what the event loop has read already is taken in still. Safe to use from many tasks, each
/// element goes to one of them.
package final class Inbox<Element: Sendable>: Sendable {
  /// Elements, and their bytes together, at which the event loop should pause.
  package struct Bounds: Sendable {
    package var count: Int
    package var bytes: Int
    package init(count: Int, bytes: Int) {
      self.count = count
      self.bytes = bytes
    }
  }

  private typealias Taken = Result<Element?, ConnectionEnd>
  private typealias Waiter = CheckedContinuation<Taken, Never>
  private struct State {
    var elements = CircularBuffer<(element: Element, bytes: Int)>()
    var bytes = 0
    var waiters: [(id: UInt64, continuation: Waiter)] = []
    var nextWaiter: UInt64 = 0
    var end: ConnectionEnd?
    /// The event loop was told to pause.
    var isFull = false
    /// A field and not a mutex's whole value: Swift wraps a function that a generic owner hands out once more each
    /// time.
    var whenRoom: (@Sendable () -> Void)?
  }

  private let bounds: Bounds
  private let state = Mutex(State())

  package init(bounds: Bounds) { self.bounds = bounds }

  /// Nothing is there to be taken just now.
  package var isEmpty: Bool { state.withLock { $0.elements.isEmpty } }

  /// Has `handler` called whenever there is room again after there was none.
  package func whenRoom(_ handler: @escaping @Sendable () -> Void) { state.withLock { $0.whenRoom = handler } }

  /// - Returns: false when no more should come until there is room.
  package func offer(_ element: Element, bytes: Int) -> Bool {
    let waiter = state.withLock { state -> Waiter? in
      guard state.waiters.isEmpty else { return state.waiters.removeFirst().continuation }
      state.elements.append((element, bytes))
      state.bytes += bytes
      if state.elements.count >= bounds.count || state.bytes >= bounds.bytes { state.isFull = true }
      return nil
    }
    if let waiter {
      waiter.resume(returning: .success(element))
      return true
    }
    return state.withLock { !$0.isFull }
  }

  /// No more comes. Elements that are there can still be taken, unless the client itself has ended it.
  package func finish(_ end: ConnectionEnd) {
    let waiters = state.withLock { state -> [Waiter] in
      guard state.end == nil else { return [] }
      state.end = end
      if end == .closedHere { state.elements.removeAll() }
      defer { state.waiters = [] }
      return state.waiters.map(\.continuation)
    }
    for waiter in waiters { waiter.resume(returning: Self.last(end)) }
  }

  /// The next element, when there is one. - Returns: nil once the client has ended it, or the task is cancelled.
  /// - Throws: any other end.
  package func next() async throws(ConnectionEnd) -> Element? {
    let id = state.withLock { state in
      state.nextWaiter += 1
      return state.nextWaiter
    }
    return try await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in take(id, continuation) }
    } onCancel: {
      let waiter = state.withLock { state -> Waiter? in
        state.waiters.firstIndex { $0.id == id }.map { state.waiters.remove(at: $0).continuation }
      }
      waiter?.resume(returning: .success(nil))
    }.get()
  }

  private func take(_ id: UInt64, _ continuation: Waiter) {
    let (taken, madeRoom) = state.withLock { state -> (Taken?, Bool) in
      if let (element, bytes) = state.elements.popFirst() {
        state.bytes -= bytes
        // Half of it: the event loop is not stopped and started for each element.
        let hasRoom = state.isFull && state.elements.count <= bounds.count / 2 && state.bytes <= bounds.bytes / 2
        if hasRoom { state.isFull = false }
        return (.success(element), hasRoom)
      }
      if let end = state.end { return (Self.last(end), false) }
      // Under the same lock as the handler's: either it finds the waiter, or this finds the task cancelled.
      if Task.isCancelled { return (.success(nil), false) }
      state.waiters.append((id, continuation))
      return (nil, false)
    }
    if let taken { continuation.resume(returning: taken) }
    if madeRoom { state.withLock { $0.whenRoom }?() }
  }

  private static func last(_ end: ConnectionEnd) -> Taken { end == .closedHere ? .success(nil) : .failure(end) }
}
