import RelayCore
import RelayWork
import Synchronization

/// Has what peers leave without an answer noted meanwhile. One timer is there for all requests under way: nearly all
/// are answered before it ends, and a timer for each would cost more than the rest of its note.
final class UnansweredNotes: Sendable {
  typealias Ticket = UInt64

  private struct Entry {
    let due: ContinuousClock.Instant
    let note: @Sendable () async -> Void
    /// The writing, once it has begun.
    var writing: Task<Void, Never>?
  }

  private struct State {
    var entries: [Ticket: Entry] = [:]
    var lastTicket: Ticket = 0
    var isWatching = false
  }

  private let state = Mutex(State())

  /// - Parameter note: called once, when `ended` is not in time.
  func began(_ note: @escaping @Sendable () async -> Void) -> Ticket {
    let (ticket, isFirst) = state.withLock { state in
      state.lastTicket += 1
      state.entries[state.lastTicket] = Entry(due: .now + Self.patience, note: note)
      defer { state.isWatching = true }
      return (state.lastTicket, !state.isWatching)
    }
    if isFirst { Task.ofNobody { await self.watch() } }
    return ticket
  }

  /// - Returns: the writing of the note, where it has begun.
  func ended(_ ticket: Ticket) -> Task<Void, Never>? {
    state.withLock { $0.entries.removeValue(forKey: ticket)?.writing }
  }

  /// As long as any request is under way.
  private func watch() async {
    // The task is never cancelled, so sleeping does not throw.
    for await _ in Periodic(every: Self.tick, from: .afterInterval) {
      let now = ContinuousClock.now
      let isNeeded = state.withLock { state in
        for (ticket, entry) in state.entries where entry.writing == nil && entry.due <= now {
          state.entries[ticket]?.writing = Task { await entry.note() }
        }
        state.isWatching = !state.entries.isEmpty
        return state.isWatching
      }
      guard isNeeded else { return }
    }
  }

  /// A peer that is well answers within it.
  private static let patience = Duration.milliseconds(50)
  private static let tick = Duration.milliseconds(25)
}
