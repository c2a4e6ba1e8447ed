import Synchronization
import TestSupport
import TestTags
import Testing

@testable import RelayWork

@Suite(.tags(.unit)) struct WaiterTests {
  let clock = ManualClock()

  @Test func `a value is had, whether it comes before the wait or behind it`() async throws {
    let early = Waiter<Int>()
    early.end(with: 1)
    early.end(with: 2)
    #expect(await early.value() == 1)
    let late = Waiter<Int>()
    async let value = late.value(until: ManualClock.Instant(.seconds(9)), on: clock)
    try await eventually("it waits") { clock.sleeperCount == 1 }
    late.end(with: 3)
    #expect(await value == 3)
    try await eventually("no countdown is left") { clock.sleeperCount == 0 }
  }

  @Test func `behind the deadline there is no value`() async throws {
    let waiter = Waiter<Int>()
    async let value = waiter.value(until: ManualClock.Instant(.seconds(9)), on: clock)
    try await clock.advance(by: .seconds(9), whenAsleep: 1)
    #expect(await value == nil)
    waiter.end(with: 1)
  }

  @Test func `who is cancelled has no value but one that is there`() async throws {
    let waiter = Waiter<Int>()
    let task = Task { await waiter.value(until: ManualClock.Instant(.seconds(9)), on: clock) }
    try await eventually("it waits") { clock.sleeperCount == 1 }
    task.cancel()
    #expect(await task.value == nil)
    let told = Waiter<Int>()
    told.end(with: 1)
    let cancelled = Task {
      withUnsafeCurrentTask { $0?.cancel() }
      return await told.value()
    }
    #expect(await cancelled.value == 1)
    let untold = Waiter<Int>()
    let first = Task {
      withUnsafeCurrentTask { $0?.cancel() }
      return await untold.value()
    }
    #expect(await first.value == nil)
  }

  @Test func `all that wait are told, but those that have left`() async throws {
    var waiters = Waiters<Int>()
    let (stays, leaves) = (waiters.add(), waiters.add())
    waiters.remove(leaves)
    let all = waiters.takeAll()
    #expect(all.count == 1 && waiters.isEmpty)
    all.end(with: 5)
    #expect(await stays.value() == 5)
    let none = Task {
      withUnsafeCurrentTask { $0?.cancel() }
      return await leaves.value()
    }
    #expect(await none.value == nil)
  }
}
