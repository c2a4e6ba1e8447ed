import Synchronization
import TestSupport
import TestTags
import Testing

@testable import RelayWork

/// Loops that come round, and readers that are woken.
@Suite(.tags(.unit)) struct PeriodicTests {
  let clock = ManualClock()
  /// When turns began, in seconds.
  let turns = TurnLog()

  @Test func `the first turn comes at once, and an interval lies behind each`() async throws {
    let task = Task {
      for await _ in Periodic(every: .seconds(2), on: clock) { turns.add(clock.now) }
    }
    for _ in 0..<3 { try await clock.advance(by: .seconds(2), whenAsleep: 1) }
    try await eventually("four turns") { turns.seconds == [0, 2, 4, 6] }
    task.cancel()
    await task.value
    #expect(turns.seconds == [0, 2, 4, 6])
  }

  @Test func `the first turn may come behind an interval`() async throws {
    let task = Task {
      for await _ in Periodic(every: .seconds(2), from: .afterInterval, on: clock) { turns.add(clock.now) }
    }
    for _ in 0..<2 { try await clock.advance(by: .seconds(2), whenAsleep: 1) }
    try await eventually("two turns") { turns.seconds == [2, 4] }
    task.cancel()
    await task.value
  }

  @Test func `a turn that takes long moves the next one`() async throws {
    let task = Task {
      for await _ in Periodic(every: .seconds(2), on: clock) {
        turns.add(clock.now)
        await Pause.for(.seconds(5), on: clock)
      }
    }
    for pause in [5, 2, 5, 2] { try await clock.advance(by: .seconds(pause), whenAsleep: 1) }
    try await eventually("three turns") { turns.seconds == [0, 7, 14] }
    task.cancel()
    await task.value
  }

  @Test(arguments: [Periodic<ManualClock>.Beginning.atOnce, .afterInterval])
  func `no turn begins in a cancelled task`(beginning: Periodic<ManualClock>.Beginning) async throws {
    let task = Task {
      withUnsafeCurrentTask { $0?.cancel() }
      for await _ in Periodic(every: .seconds(2), from: beginning, on: clock) { turns.add(clock.now) }
    }
    await task.value
    #expect(turns.seconds == [])
  }

  @Test func `a turn that has begun when its task is cancelled is the last`() async throws {
    let task = Task {
      for await _ in Periodic(every: .seconds(2), on: clock) {
        withUnsafeCurrentTask { $0?.cancel() }
        turns.add(clock.now)
      }
    }
    await task.value
    #expect(turns.seconds == [0])
  }

  @Test func `a beat does not drift by what turns take`() async throws {
    let beat = Beat(every: .seconds(2), on: clock)
    let task = Task {
      for await _ in beat {
        turns.add(clock.now)
        await Pause.for(.seconds(1), on: clock)
      }
    }
    for pause in [2, 1, 1, 1, 1] { try await clock.advance(by: .seconds(pause), whenAsleep: 1) }
    try await eventually("three turns") { turns.seconds == [2, 4, 6] }
    task.cancel()
    await task.value
  }

  @Test func `a beat that is late goes on from there`() async throws {
    let beat = Beat(every: .seconds(2), on: clock)
    let task = Task {
      for await _ in beat {
        turns.add(clock.now)
        if turns.seconds.count == 1 { await Pause.for(.seconds(7), on: clock) }
      }
    }
    for pause in [2, 7, 2] { try await clock.advance(by: .seconds(pause), whenAsleep: 1) }
    try await eventually("three turns, none made up for") { turns.seconds == [2, 9, 11] }
    task.cancel()
    await task.value
  }

  @Test func `calls between two looks are one, and none is lost`() async throws {
    let nudge = Nudge()
    nudge.wake()
    nudge.wake()
    let looks = Mutex(0)
    let task = Task {
      for await _ in nudge { looks.withLock { $0 += 1 } }
    }
    try await eventually("one look") { looks.withLock { $0 } == 1 }
    nudge.wake()
    try await eventually("another") { looks.withLock { $0 } == 2 }
    task.cancel()
    await task.value
    #expect(looks.withLock { $0 } == 2)
  }

  @Test func `a nudge that is due is read without a call, and a group wakes all`() async throws {
    var due = Nudge(isDue: true).makeAsyncIterator()
    #expect(await due.next() != nil)
    let (group, first, second) = (NudgeGroup(), Nudge(), Nudge())
    group.add(first)
    group.add(second)
    group.wake()
    var (one, other) = (first.makeAsyncIterator(), second.makeAsyncIterator())
    #expect(await one.next() != nil)
    #expect(await other.next() != nil)
  }

  @Test func `a nudge is woken every so often until the task is cancelled`() async throws {
    let nudge = Nudge()
    let task = Task { await nudge.wake(every: .milliseconds(1), from: .afterInterval) }
    var reader = nudge.makeAsyncIterator()
    for _ in 0..<3 { #expect(await reader.next() != nil) }
    task.cancel()
    await task.value
  }
}
