import Synchronization
import TestSupport

/// When turns began, in seconds.
final class TurnLog: Sendable {
  private let times = Mutex<[ManualClock.Instant]>([])
  var seconds: [Int64] { times.withLock { $0.map(\.offset.components.seconds) } }
  func add(_ time: ManualClock.Instant) { times.withLock { $0.append(time) } }
}

final class Flag: Sendable {
  private let state = Atomic(false)
  var isRaised: Bool { state.load(ordering: .acquiring) }
  func raise() { state.store(true, ordering: .releasing) }
}
