import Synchronization
import TestSupport
import TestTags
import Testing

@testable import RelayWork

/// Waiting for time to pass, and doing something when it has.
@Suite(.tags(.unit)) struct PauseTests {
  let clock = ManualClock()

  @Test func `a pause lasts as long as it is to`() async throws {
    async let isOver = Pause.for(.seconds(3), on: clock)
    try await clock.advance(by: .milliseconds(2999), whenAsleep: 1)
    #expect(clock.sleeperCount == 1)
    clock.advance(by: .milliseconds(1))
    #expect(await isOver)
    #expect(await Pause.until(clock.now, on: clock))
  }

  @Test func `a pause ends with its task, and says so`() async throws {
    let task = Task { await Pause.for(.seconds(3), on: clock) }
    try await eventually("it waits") { clock.sleeperCount == 1 }
    task.cancel()
    #expect(await task.value == false)
    #expect(clock.sleeperCount == 0)
    let cancelled = Task {
      withUnsafeCurrentTask { $0?.cancel() }
      return await Pause.for(.seconds(3), on: clock)
    }
    #expect(await cancelled.value == false)
  }

  @Test func `what waits for cancellation waits for nothing else`() async throws {
    let isOver = Flag()
    let task = Task {
      await Pause.untilCancelled()
      isOver.raise()
    }
    for _ in 0..<100 { await Task.yield() }
    #expect(!isOver.isRaised)
    task.cancel()
    await task.value
    #expect(isOver.isRaised)
  }

  @Test func `a condition is asked at once and after each interval until it holds`() async throws {
    let asked = Mutex(0)
    async let holds = Pause.poll(every: .seconds(1), until: ManualClock.Instant(.seconds(60)), on: clock) {
      asked.withLock { asked in
        asked += 1
        return asked == 3
      }
    }
    for _ in 0..<2 { try await clock.advance(by: .seconds(1), whenAsleep: 1) }
    #expect(await holds)
    #expect(asked.withLock { $0 } == 3)
  }

  @Test func `a condition that holds is found though the deadline has passed, and none is asked behind it`()
    async throws
  {
    clock.advance(by: .seconds(5))
    #expect(await Pause.poll(every: .seconds(1), until: ManualClock.Instant(), on: clock) { true })
    let asked = Mutex(0)
    async let holds = Pause.poll(every: .seconds(2), until: ManualClock.Instant(.seconds(6)), on: clock) {
      asked.withLock { $0 += 1 }
      return false
    }
    try await clock.advance(by: .seconds(2), whenAsleep: 1)
    #expect(await !holds)
    #expect(asked.withLock { $0 } == 2)
  }

  @Test func `a condition that fails ends the asking`() async throws {
    await #expect(throws: TestFailure.self) {
      try await Pause.poll(every: .seconds(1), until: ManualClock.Instant(.seconds(60)), on: clock) {
        throw TestFailure("no")
      }
    }
  }

  @Test func `a countdown acts once its time has come`() async throws {
    let acts = Mutex(0)
    let countdown = Countdown(of: .seconds(3), on: clock) { acts.withLock { $0 += 1 } }
    try await clock.advance(by: .seconds(2), whenAsleep: 1)
    #expect(acts.withLock { $0 } == 0)
    clock.advance(by: .seconds(1))
    try await eventually("it acts") { acts.withLock { $0 } == 1 }
    countdown.cancel()
    #expect(acts.withLock { $0 } == 1)
  }

  @Test func `a countdown that is cancelled never acts`() async throws {
    let acts = Mutex(0)
    let countdown = Countdown(of: .seconds(3), on: clock) { acts.withLock { $0 += 1 } }
    try await eventually("it waits") { clock.sleeperCount == 1 }
    countdown.cancel()
    try await eventually("it has ended") { clock.sleeperCount == 0 }
    clock.advance(by: .seconds(60))
    for _ in 0..<100 { await Task.yield() }
    #expect(acts.withLock { $0 } == 0)
  }

  @Test func `work within its limit has its value`() async {
    #expect(await TimeLimit.run(.seconds(1), on: clock) { 7 } == 7)
  }

  @Test func `work beyond its limit is cancelled and left`() async throws {
    let isCancelled = Flag()
    async let value = TimeLimit.run(.seconds(1), on: clock) {
      await Pause.untilCancelled()
      isCancelled.raise()
      return 7
    }
    try await clock.advance(by: .seconds(1), whenAsleep: 1)
    #expect(await value == nil)
    try await eventually("it was cancelled") { isCancelled.isRaised }
  }

  @Test func `a caller that is cancelled waits for no work`() async throws {
    let task = Task {
      await TimeLimit.run(.seconds(1), on: clock) {
        await Pause.untilCancelled()
        return 7
      }
    }
    try await eventually("it waits") { clock.sleeperCount == 1 }
    task.cancel()
    #expect(await task.value == nil)
  }
}
