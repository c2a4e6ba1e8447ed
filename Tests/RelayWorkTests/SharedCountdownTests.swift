import Synchronization
import TestSupport
import TestTags
import Testing

@testable import RelayWork

/// One timer for many.
@Suite(.tags(.unit)) struct SharedCountdownTests {
  @Test func `one that is ended before does nothing`() {
    let countdown = SharedCountdown(of: .seconds(3600))
    let isDone = Flag()
    let ticket = countdown.begin { isDone.raise() }
    #expect(countdown.end(ticket) && !countdown.end(ticket) && !isDone.isRaised)
  }

  @Test func `others do it once, in the order in which they began`() async throws {
    let countdown = SharedCountdown(of: .milliseconds(20))
    let done = Mutex<[Int]>([])
    var tickets: [SharedCountdown.Ticket] = []
    for index in 0..<100 { tickets.append(countdown.begin { done.withLock { $0.append(index) } }) }
    try await eventually("all have") { done.withLock { $0.count } == 100 }
    #expect(done.withLock { $0 } == Array(0..<100))
    #expect(tickets.allSatisfy { !countdown.end($0) })
    // Behind a pause, when nobody watches any more.
    _ = countdown.begin { done.withLock { $0.append(100) } }
    try await eventually("it has too") { done.withLock { $0.last } == 100 }
  }
}
