import Synchronization
import TestSupport
import TestTags
import Testing

@testable import RelayWork

/// Calls that gather, for those who wait for theirs.
@Suite(.tags(.unit)) struct BatchedCallsTests {
  typealias Queue = BatchQueue<Int>

  private static func queue(batch: Queue.Size, waiting: Queue.Size, countsUnderWay: Bool = false) -> Queue {
    Queue(bounds: .init(batch: batch, waiting: waiting, countsUnderWay: countsUnderWay)) { .init(items: 1, bytes: $0) }
  }

  @Test func `one goes at once, and the rest together`() {
    var queue = Self.queue(batch: .init(items: 10, bytes: 100), waiting: .init(items: 10, bytes: 100))
    #expect(queue.admit(1) == .isFirst)
    #expect(queue.next() == [1])
    #expect(queue.admit(2) == .waits)
    #expect(queue.admit(3) == .waits)
    #expect(queue.next() == [2, 3])
    #expect(queue.next() == nil)
    #expect(queue.isIdle)
    #expect(queue.admit(4) == .isFirst)
  }

  @Test func `what waits is bounded in number and weight, and one that leaves makes room`() {
    var queue = Self.queue(batch: .init(items: 10, bytes: 1000), waiting: .init(items: 2, bytes: 100))
    #expect(queue.admit(1000) == .isFirst)
    #expect(queue.next() == [1000])
    #expect(queue.admit(60) == .waits)
    #expect(queue.admit(61) == .full)
    #expect(queue.admit(40) == .waits)
    #expect(queue.admit(0) == .full)
    #expect(queue.remove { $0 == 40 })
    #expect(!queue.remove { $0 == 40 })
    #expect(queue.admit(39) == .waits)
    #expect(queue.waiting == .init(items: 2, bytes: 99))
    #expect(queue.next() == [60, 39])
    #expect(queue.waiting == .init(items: 0))
  }

  @Test func `several are let in together or not at all, and may go with different batches`() {
    var queue = Self.queue(batch: .init(items: 2, bytes: 100), waiting: .init(items: 4, bytes: 100))
    #expect(queue.admit(contentsOf: [1, 2, 3]) == .isFirst)
    #expect(queue.next() == [1, 2])
    #expect(queue.admit(contentsOf: [4, 5, 6, 7]) == .full)
    #expect(queue.admit(contentsOf: [4, 5, 6]) == .waits)
    #expect(queue.next() == [3, 4])
    #expect(queue.next() == [5, 6])
    #expect(queue.admit(contentsOf: [1, 2, 3, 4, 5]) == .waits, "nothing waits: it never could be let in otherwise")
  }

  @Test func `what is under way counts where it is to`() {
    var queue = Self.queue(
      batch: .init(items: 10, bytes: 1000), waiting: .init(items: 2, bytes: 100), countsUnderWay: true)
    #expect(queue.admit(1) == .isFirst)
    #expect(queue.next() == [1])
    #expect(queue.admit(2) == .waits)
    #expect(queue.admit(3) == .full)
    #expect(queue.next() == [2])
    #expect(queue.admit(3) == .waits)
  }

  @Test func `a batch is bounded in number and weight, unless one alone is heavier`() {
    var queue = Self.queue(batch: .init(items: 2, bytes: 50), waiting: .init(items: 100, bytes: 1000))
    for item in [1, 20, 20, 20, 40, 60, 5] { _ = queue.admit(item) }
    var batches: [[Int]] = []
    while let batch = queue.next() { batches.append(batch) }
    #expect(batches == [[1, 20], [20, 20], [40], [60], [5]])
  }

  @Test func `each caller has its own outcome, and what gathers goes together`() async throws {
    let batches = Mutex<[[Int]]>([])
    let isOpen = Flag()
    let calls = BatchedCalls<Int, Int>(
      bounds: .init(batch: .init(items: 10, bytes: .max), waiting: .init(items: 5, bytes: .max)),
      size: { _ in .init(items: 1) },
      run: { members in
        batches.withLock { $0.append(members.map(\.call)) }
        while !isOpen.isRaised { await Task.yield() }
        for member in members { member.end(with: member.call * 2) }
      })
    await withTaskGroup(of: Void.self) { group in
      group.addTask { #expect(await calls.outcome(of: 0) == 0) }
      while batches.withLock({ $0.isEmpty }) { await Task.yield() }
      for call in 1...5 { group.addTask { #expect(await calls.outcome(of: call) == call * 2) } }
      while calls.waiting.items < 5 { await Task.yield() }
      #expect(await calls.outcome(of: 6) == nil)
      isOpen.raise()
    }
    #expect(batches.withLock { $0.map { $0.sorted() } } == [[0], [1, 2, 3, 4, 5]])
    #expect(await calls.outcome(of: 7) == 14)
  }
}
