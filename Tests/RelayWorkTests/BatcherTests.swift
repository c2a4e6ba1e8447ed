import Synchronization
import TestSupport
import TestTags
import Testing

@testable import RelayWork

/// Items that gather while a batch is under way, for callers that do not wait for it.
@Suite(.tags(.unit)) struct BatcherTests {
  @TaskLocal private static var request: Int?

  @Test func `work to be done again comes after waiting work`() async throws {
    let batches = Mutex<[[Int]]>([])
    let batcher = Batcher<Int>(retryingBatchesOf: 2, waitingMax: 10) { batch in
      batches.withLock { $0.append(batch) }
      return batch.filter { $0 == 1 }.map { $0 + 10 }
    }
    #expect(batcher.add(contentsOf: [1, 2, 3, 4]) == 4)
    await batcher.settle(until: .now + .seconds(60))
    #expect(batches.withLock { $0 } == [[1, 2], [3, 4], [11]])
  }

  @Test func `items that come during a call go in the next, in order, one call at a time`() async throws {
    let calls = Mutex<(batches: [[Int]], underWay: Int)>(([], 0))
    let batcher = Batcher<Int>(batchMax: 10, waitingMax: 1000) { batch in
      calls.withLock {
        $0.underWay += 1
        #expect($0.underWay == 1)
      }
      await Task.yield()
      calls.withLock {
        $0.batches.append(batch)
        $0.underWay -= 1
      }
    }
    for item in 0..<500 { #expect(batcher.add(item)) }
    try await eventually("all items are taken") { calls.withLock { $0.batches.joined().count } == 500 }
    let batches = calls.withLock { $0.batches }
    #expect(Array(batches.joined()) == Array(0..<500))
    #expect(batches.allSatisfy { (1...10).contains($0.count) })
    await batcher.settle(until: .now + .seconds(60))
    #expect(batcher.add(500))
    try await eventually("it begins anew") { calls.withLock { $0.batches.last } == [500] }
  }

  @Test func `an item that does not fit is not taken`() async throws {
    let hasBegun = Flag()
    let isOpen = Flag()
    let taken = Mutex<[Int]>([])
    let batcher = Batcher<Int>(batchMax: 2, waitingMax: 3) { batch in
      hasBegun.raise()
      while !isOpen.isRaised { await Task.yield() }
      taken.withLock { $0 += batch }
    }
    #expect(batcher.add(0))
    try await eventually("the first call is under way") { hasBegun.isRaised }
    #expect(batcher.add(contentsOf: [1, 2, 3]) == 3)
    #expect(!batcher.add(4))
    #expect(batcher.add(contentsOf: [5, 6]) == 0)
    isOpen.raise()
    await batcher.settle(until: .now + .seconds(60))
    #expect(taken.withLock { $0 } == [0, 1, 2, 3])
  }

  @Test func `a failed batch that comes back into a full queue keeps its place, and what comes on top is not taken`()
    async throws
  {
    let gate = Mutex((hasBegun: false, isOpen: false))
    let taken = Mutex<[Int]>([])
    let batcher = Batcher<Int>(retryingBatchesOf: 2, waitingMax: 3) { batch in
      let isFirst = gate.withLock { gate in
        defer { gate.hasBegun = true }
        return !gate.hasBegun
      }
      guard isFirst else {
        taken.withLock { $0 += batch }
        return []
      }
      while !gate.withLock({ $0.isOpen }) { await Task.yield() }
      return batch
    }
    #expect(batcher.add(0))
    try await eventually("the first call is under way") { gate.withLock { $0.hasBegun } }
    #expect(batcher.add(contentsOf: [1, 2, 3]) == 3)
    gate.withLock { $0.isOpen = true }
    // Until the queue has room again, adding takes nothing; it never ends the process.
    var added = 0
    try await eventually("there is room again") {
      if batcher.add(4) { added += 1 }
      return added == 1
    }
    await batcher.settle(until: .now + .seconds(60))
    #expect(taken.withLock { Set($0) } == [0, 1, 2, 3, 4])
    #expect(taken.withLock { $0.count } == 5)
  }

  @Test func `a batch waits for more, and one that is to be tried again rests first`() async throws {
    let clock = ManualClock()
    let batches = Mutex<[[Int]]>([])
    let rest = Batcher<Int>.Rest(gathering: .seconds(1), beforeRetry: .seconds(5))
    let batcher = Batcher<Int>(retryingBatchesOf: 9, waitingMax: 10, rest: rest, on: clock) { batch in
      batches.withLock { $0.append(batch) }
      return batch.filter { $0 == 1 }.map { $0 + 10 }
    }
    batcher.add(0)
    try await eventually("it gathers") { clock.sleeperCount == 1 }
    batcher.add(1)
    #expect(batches.withLock { $0.isEmpty })
    clock.advance(by: .seconds(1))
    try await eventually("it rests before another try") {
      batches.withLock { $0 } == [[0, 1]] && clock.sleeperCount == 1
    }
    batcher.add(2)
    clock.advance(by: .seconds(4))
    #expect(clock.sleeperCount == 1)
    try await clock.advance(by: .seconds(1), whenAsleep: 1)
    try await clock.advance(by: .seconds(1), whenAsleep: 1)
    await batcher.settle(until: .now + .seconds(60))
    #expect(batches.withLock { $0 } == [[0, 1], [2, 11]])
    #expect(clock.sleeperCount == 0)
  }

  @Test func `a full batch waits for nothing`() async throws {
    let clock = ManualClock()
    let batches = Mutex<[[Int]]>([])
    let batcher = Batcher<Int>(
      retryingBatchesOf: 2, waitingMax: 10, rest: .init(gathering: .seconds(1)), on: clock
    ) { batch in
      batches.withLock { $0.append(batch) }
      return []
    }
    batcher.add(contentsOf: [1, 2, 3, 4])
    await batcher.settle(until: .now + .seconds(60))
    #expect(batches.withLock { $0 } == [[1, 2], [3, 4]])
  }

  @Test func `a batch is about nobody's request, and nobody cancels it`() async throws {
    let seen = Mutex<[(request: Int?, isCancelled: Bool)]>([])
    let batcher = Batcher<Int>(batchMax: 9, waitingMax: 10) { _ in
      seen.withLock { $0.append((Self.request, Task.isCancelled)) }
    }
    await Task {
      withUnsafeCurrentTask { $0?.cancel() }
      Self.$request.withValue(7) { _ = batcher.add(0) }
    }.value
    await batcher.settle(until: .now + .seconds(60))
    #expect(seen.withLock { $0.map(\.request) } == [nil])
    #expect(seen.withLock { $0.map(\.isCancelled) } == [false])
  }
}
