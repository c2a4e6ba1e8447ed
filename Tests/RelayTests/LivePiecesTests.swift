import NIOCore
import RelayHTTP
import Synchronization
import TestSupport
import Testing

@testable import Relay

/// The small parts that live delivery is made of.
@Suite struct LivePiecesTests {
  private static func call(bodyBytes: Int = 0, id: UInt64? = 1) -> SocketCall {
    SocketCall(
      verb: "PUT", path: "/v1/x", headers: [], body: ByteBuffer(repeating: 0, count: bodyBytes), id: id)
  }

  @Test func `a round names everyone once, however many steps it has`() {
    for steps in [1, 2, 7, 64] {
      var rounds = SessionRounds<UInt64>(steps: steps)
      for id: UInt64 in 0..<500 { rounds.insert(id, id: id &* 0x9E37_79B9_7F4A_7C15) }
      for id: UInt64 in 0..<500 where id % 3 == 0 { rounds.remove(id: id &* 0x9E37_79B9_7F4A_7C15) }
      var named: [UInt64] = []
      for _ in 0..<steps { named += rounds.next() }
      #expect(named.sorted() == (0..<500).filter { $0 % 3 != 0 })
      for _ in 0..<steps { named += rounds.next() }
      #expect(named.count == 2 * 333)
    }
  }

  @Test func `four requests run, others wait in order, and too many are refused`() {
    var calls = SocketCalls()
    for id: UInt64 in 0..<4 {
      #expect(calls.received(Self.call(id: id)) == true)
      #expect(calls.next()?.id == id)
    }
    for id: UInt64 in 0..<76 { #expect(calls.received(Self.call(id: id)) == true) }
    #expect(calls.received(Self.call()) == false)
    #expect(calls.next() == nil)
    for id: UInt64 in 0..<76 {
      calls.answered()
      #expect(calls.next()?.id == id)
    }
    for _ in 0..<4 {
      #expect(!calls.isIdle)
      calls.answered()
    }
    #expect(calls.next() == nil)
    #expect(calls.isIdle)
  }

  @Test func `requests that wait are bounded by their bytes`() {
    var calls = SocketCalls()
    #expect(calls.received(Self.call(bodyBytes: 1 << 20)) == true)
    #expect(calls.received(Self.call(bodyBytes: 1 << 20)) == true)
    #expect(calls.received(Self.call(bodyBytes: 1)) == false)
    _ = calls.next()
    #expect(calls.received(Self.call(bodyBytes: 1)) == true)
    // One is taken whatever its size.
    var empty = SocketCalls()
    #expect(empty.received(Self.call(bodyBytes: 3 << 20)) == true)
    #expect(empty.received(Self.call()) == false)
  }

  @Test func `what fails together is divided, and comes behind all others`() {
    func groups(_ items: [(String, Int)]) -> [[String]] {
      failureGroups(of: items, max: 4) { $0.1 }.map { $0.map(\.0) }
    }
    #expect(groups([("a", 0), ("b", 0), ("c", 1), ("d", 0)]) == [["a", "b", "d"], ["c"]])
    #expect(groups([("a", 2), ("b", 2), ("c", 2), ("d", 0)]) == [["d"], ["a", "b"], ["c"]])
    #expect(groups([("a", 99), ("b", 99)]) == [["a"], ["b"]])
    #expect(groups([]).isEmpty)
  }

  @Test func `one that always fails ends up alone, and its neighbours are done soon`() {
    var waiting = (0..<500).map { (item: $0, failures: 0) }
    var tries = 0
    while waiting.count > 1, tries < 100 {
      var groups = failureGroups(of: waiting, max: 500) { $0.failures }[...]
      waiting = []
      while let group = groups.popFirst() {
        tries += 1
        guard group.contains(where: { $0.item == 123 }) else { continue }
        waiting = groups.flatMap(\.self) + group.map { ($0.item, $0.failures + 1) }
        break
      }
    }
    #expect(waiting.map(\.item) == [123])
    #expect(tries < 50)
  }

  @Test func `what is to be done again comes behind what waits`() async throws {
    let batches = Mutex<[[Int]]>([])
    let gathering = Gathering<Int>(retryingBatchesOf: 2, waitingMax: 10) { batch in
      batches.withLock { $0.append(batch) }
      return batch.filter { $0 == 1 }.map { $0 + 10 }
    }
    #expect(gathering.add(contentsOf: [1, 2, 3, 4]) == 4)
    await gathering.settle(until: .now + .seconds(60))
    #expect(batches.withLock { $0 } == [[1, 2], [3, 4], [11]])
  }

  @Test func `what comes during a call goes in the next, in order, one call at a time`() async throws {
    let calls = Mutex<(batches: [[Int]], underWay: Int)>(([], 0))
    let gathering = Gathering<Int>(batchMax: 10, waitingMax: 1000) { batch in
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
    for item in 0..<500 { #expect(gathering.add(item)) }
    try await eventually("all items are taken") { calls.withLock { $0.batches.joined().count } == 500 }
    let batches = calls.withLock { $0.batches }
    #expect(Array(batches.joined()) == Array(0..<500))
    #expect(batches.allSatisfy { (1...10).contains($0.count) })
    await gathering.settle(until: .now + .seconds(60))
    #expect(gathering.add(500))
    try await eventually("it begins anew") { calls.withLock { $0.batches.last } == [500] }
  }

  @Test func `what does not fit is not taken`() async throws {
    let hasBegun = Atomic(false)
    let isOpen = Atomic(false)
    let taken = Mutex<[Int]>([])
    let gathering = Gathering<Int>(batchMax: 2, waitingMax: 3) { batch in
      hasBegun.store(true, ordering: .releasing)
      while !isOpen.load(ordering: .acquiring) { await Task.yield() }
      taken.withLock { $0 += batch }
    }
    #expect(gathering.add(0))
    try await eventually("the first call is under way") { hasBegun.load(ordering: .acquiring) }
    #expect(gathering.add(contentsOf: [1, 2, 3]) == 3)
    #expect(!gathering.add(4))
    #expect(gathering.add(contentsOf: [5, 6]) == 0)
    isOpen.store(true, ordering: .releasing)
    await gathering.settle(until: .now + .seconds(60))
    #expect(taken.withLock { $0 } == [0, 1, 2, 3])
  }

  @Test func `a failed batch that comes back into a full queue keeps its place, and what comes on top is not taken`()
    async throws
  {
    let gate = Mutex((hasBegun: false, isOpen: false))
    let taken = Mutex<[Int]>([])
    let gathering = Gathering<Int>(retryingBatchesOf: 2, waitingMax: 3) { batch in
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
    #expect(gathering.add(0))
    try await eventually("the first call is under way") { gate.withLock { $0.hasBegun } }
    #expect(gathering.add(contentsOf: [1, 2, 3]) == 3)
    gate.withLock { $0.isOpen = true }
    // Until the queue has room again, adding takes nothing; it never ends the process.
    var added = 0
    try await eventually("there is room again") {
      if gathering.add(4) { added += 1 }
      return added == 1
    }
    await gathering.settle(until: .now + .seconds(60))
    #expect(taken.withLock { Set($0) } == [0, 1, 2, 3, 4])
    #expect(taken.withLock { $0.count } == 5)
  }
}
