import Synchronization
import TestSupport
import TestTags
import Testing

@testable import RelayWork

/// Work that one process at a time does.
@Suite(.tags(.unit)) struct LeaseTests {
  let clock = ManualClock()
  let store = Turns()

  @Test func `it is renewed while the work takes long, and given up behind it`() async throws {
    let (ours, theirs) = (lease(of: 1), lease(of: 2))
    async let work = ours.hold("work") { await Pause.for(.seconds(20), on: clock) }
    // The work, and the renewal every three seconds.
    for _ in 0..<6 {
      try await clock.advance(by: .seconds(3), whenAsleep: 2)
      try await eventually("it was renewed") { store.end(of: "work") == clock.now.offset + .seconds(10) }
      #expect(try await theirs.hold("work") { true } == nil)
    }
    try await clock.advance(by: .seconds(2), whenAsleep: 2)
    #expect(try await work == true)
    #expect(try await theirs.hold("work") { true } == true)
  }

  @Test func `what is kept stays held until it ends by itself`() async throws {
    #expect(try await lease(of: 1).keep("work") { 7 } == 7)
    #expect(try await lease(of: 2).acquire("work") == false)
    #expect(try await lease(of: 2).acquire("other work"))
    clock.advance(by: .seconds(10))
    #expect(try await lease(of: 2).acquire("work"))
  }

  @Test func `work that has lost its lease is cancelled`() async throws {
    async let work = lease(of: 1).keep("work") { await Pause.for(.seconds(60), on: clock) }
    try await eventually("it works") { clock.sleeperCount == 2 }
    try await lease(of: 1).release("work")
    #expect(try await lease(of: 2).acquire("work"))
    clock.advance(by: .seconds(3))
    #expect(try await work == false)
  }

  @Test func `a store that fails keeps work from beginning, and cancels what has begun`() async throws {
    async let work = lease(of: 1).keep("work") { await Pause.for(.seconds(60), on: clock) }
    try await eventually("it works") { clock.sleeperCount == 2 }
    store.isAway.raise()
    clock.advance(by: .seconds(3))
    #expect(try await work == false)
    await #expect(throws: TestFailure.self) { try await lease(of: 1).keep("work") { true } }
  }

  private func lease(of holder: Int) -> Lease<TestFailure> {
    Lease(lasting: .seconds(10), on: clock) { name, duration throws(TestFailure) in
      try store.take(name, holder, until: clock.now.offset + duration, at: clock.now.offset)
    } giveBack: { name throws(TestFailure) in
      store.giveBack(name, holder)
    }
  }
}

/// The holder of each lease, and until when it has it.
final class Turns: Sendable {
  private let turns = Mutex<[String: (holder: Int, end: Duration)]>([:])
  let isAway = Flag()

  func end(of name: String) -> Duration? { turns.withLock { $0[name]?.end } }

  func take(_ name: String, _ holder: Int, until end: Duration, at now: Duration) throws(TestFailure) -> Bool {
    if isAway.isRaised { throw TestFailure("away") }
    return turns.withLock { turns in
      if let turn = turns[name], turn.holder != holder, turn.end > now { return false }
      turns[name] = (holder, end)
      return true
    }
  }

  func giveBack(_ name: String, _ holder: Int) {
    turns.withLock { turns in
      if turns[name]?.holder == holder { turns[name] = nil }
    }
  }
}
