import RelayCore
import RelayWork
import TestSupport
import TestTags
import Testing

@testable import Federation

/// What gathers, what is held, and what callers are told, without a peer (docs/federation.md, "The outbox").
@Suite(.tags(.unit)) struct PeerQueueTests {
  private static let away = Problem(.peerUnavailable, retryAfter: .seconds(2))

  @Test func `one goes at once, and what gathers behind it goes together and in order`() throws {
    var bench = QueueBench()
    try bench.submit(1)
    try bench.lookedUp()
    try bench.submit(2, 3, from: 8)
    try bench.submit(4, to: 5, isReceipt: true)
    #expect(bench.sent == [[1]] && bench.lookUpCount == 0 && bench.queue.waitingSize.items == 3)
    try bench.answer(200)
    #expect(bench.outcome(of: 1) == .success(.answered(HandOverAnswer(status: 200))))
    try bench.lookedUp()
    #expect(bench.sent == [[2, 3, 4]] && bench.queue.waitingSize == .init(items: 0))
    try bench.answer(200, 404, 200)
    #expect(bench.told.map(\.caller) == [1, 2, 3, 4] && bench.steps.isEmpty)
    #expect(bench.outcome(of: 3) == .success(.answered(HandOverAnswer(status: 404))))
  }

  @Test func `where nothing is held, nothing is looked up, and patience has no end`() throws {
    var bench = QueueBench()
    try bench.submit(1, 2, holds: false)
    guard case .send(_, _, let terms)? = bench.steps.first else { throw TestFailure("it is not sent") }
    #expect(terms == .none && bench.sent == [[1]])
    bench.advance(by: .seconds(9))
    #expect(bench.told.isEmpty && !bench.queue.isKeptWaiting && bench.sent == [[1]])
    try bench.answer(nil)
    #expect(bench.outcome(of: 1) == .failure(.timedOut) && bench.sent == [[2]] && bench.holding.isEmpty)
  }

  @Test func `what waits is bounded in number and bytes, and what is taken back makes room`() throws {
    var bench = QueueBench(waitingMax: .init(items: 3, bytes: 1000))
    try bench.submit(1, 2, 3, 4, 5)
    #expect(bench.told.map(\.caller) == [5] && bench.outcome(of: 5) == .failure(.busy))
    try bench.cancel(3)
    try bench.submit(6, bodyBytes: 1000)
    #expect(bench.outcome(of: 6) == .failure(.busy))
    try bench.submit(7)
    #expect(bench.outcome(of: 7) == nil && bench.queue.waitingSize.items == 3)
    try bench.lookedUp()
    try bench.answer(200)
    try bench.lookedUp()
    #expect(bench.sent == [[2, 4, 7]])
  }

  @Test func `a batch is bounded in number and bytes`() throws {
    var bench = QueueBench(batch: .init(items: 2, bytes: 1000))
    try bench.submit(1, 2, 3, 4, holds: false)
    try bench.submit(5, 6, holds: false, bodyBytes: 800)
    var batches = bench.sent
    while let batch = bench.sent.first {
      try bench.answer(batch.map { _ in 200 })
      batches += bench.sent
    }
    #expect(batches == [[1], [2, 3], [4], [5], [6]] && bench.told.count == 6)
  }

  @Test func `a message for whose destination something is held is held too, and others go meanwhile`() throws {
    var bench = QueueBench()
    try bench.submit(1)
    try bench.submit(2, to: 1)
    try bench.submit(3, to: 2)
    try bench.submit(4, to: 1)
    try bench.lookedUp()
    try bench.answer(200)
    try bench.lookedUp(held: 1)
    #expect(bench.holding == [[2, 4]] && bench.sent == [[3]])
    try bench.submit(5)
    try bench.answer(200)
    #expect(bench.outcome(of: 3) != nil && bench.lookUpCount == 0, "the next batch waits until all is decided")
    try bench.hold()
    #expect(bench.outcome(of: 2) == .success(.held(nil)) && bench.outcome(of: 4) == .success(.held(nil)))
    #expect(bench.lookUpCount == 1)
  }

  @Test func `if nobody knows what is held, no message is sent, and receipts are`() throws {
    var bench = QueueBench()
    try bench.submit(1)
    try bench.submit(2)
    try bench.submit(3, isReceipt: true)
    try bench.lookedUp()
    try bench.answer(200)
    try bench.lookedUp(.failure(Problem(.unavailable)))
    #expect(bench.outcome(of: 2) == .success(.held(Problem(.unavailable))))
    #expect(bench.sent == [[3]] && bench.holding.isEmpty)
  }

  @Test func `of a batch that is answered in part, the rest is held before the next one begins`() throws {
    var bench = QueueBench()
    try bench.submit(1)
    for caller in 2...6 { try bench.submit(caller, to: caller) }
    try bench.submit(7, isReceipt: true)
    try bench.lookedUp()
    try bench.answer(200)
    try bench.lookedUp()
    try bench.submit(8)
    try bench.answer(200, 503, 404, nil, 413, nil)
    #expect(bench.told.map(\.caller) == [1, 2, 4, 6, 7], "a refusal is an answer, and a receipt is not held")
    #expect(bench.outcome(of: 7) == .failure(.timedOut))
    #expect(bench.holding == [[3, 5]] && bench.lookUpCount == 0)
    try bench.hold { QueueBench.id($0) == 5 ? Self.away : nil }
    #expect(bench.outcome(of: 3) == .success(.held(nil)) && bench.outcome(of: 5) == .success(.held(Self.away)))
    #expect(bench.lookUpCount == 1)
  }

  @Test func `callers are told once the answers are noted, and the next batch begins meanwhile`() throws {
    var bench = QueueBench()
    try bench.submit(1, 2)
    try bench.lookedUp()
    try bench.answer(200, isNoted: false)
    #expect(bench.told.isEmpty && bench.lookUpCount == 1)
    try bench.lookedUp()
    try bench.answer(503, isNoted: false)
    try bench.hold()
    #expect(bench.told.map(\.caller) == [2])
    try bench.note()
    #expect(bench.told.map(\.caller) == [2, 1])
  }

  @Test func `a caller that gives up takes no other along`() throws {
    var bench = QueueBench()
    try bench.submit(1, 2, 3)
    try bench.lookedUp()
    try bench.cancel(1)
    try bench.cancel(2)
    try bench.cancel(2)
    #expect(bench.sent == [[1]] && bench.queue.waitingSize.items == 1)
    try bench.answer(200)
    #expect(bench.told.isEmpty && bench.notes == [1], "what the peer says of the devices counts all the same")
    try bench.lookedUp()
    try bench.cancel(3)
    try bench.answer(503)
    #expect(bench.holding == [[3]], "it was under way, and was accepted")
    try bench.hold()
    #expect(bench.told.isEmpty && bench.steps.isEmpty)
  }

  @Test func `to a peer without batches, none waits for another`() throws {
    var bench = QueueBench()
    try bench.submit(1, 2, 3, isAlone: true)
    #expect(bench.lookUpCount == 3)
    for _ in 1...3 { try bench.lookedUp() }
    #expect(bench.sent == [[1], [2], [3]])
    try bench.answer(200, request: 2)
    try bench.answer(nil)
    #expect(bench.told.map(\.caller) == [3] && bench.holding == [[1]])
    bench.advance(by: QueueBench.patience)
    #expect(bench.holding == [[1], [2]] && bench.queue.isKeptWaiting)
    try bench.submit(4, isAlone: true)
    #expect(bench.holding == [[1], [2], [4]], "it is not even sent")
    for _ in 1...3 { try bench.hold() }
    try bench.answer(200)
    #expect(bench.told.map(\.caller) == [3, 1, 2, 4] && bench.notes == [2] && !bench.queue.isKeptWaiting)
  }

  /// As when the process ends, and its connections with it.
  @Test func `if all requests fail, each caller has its outcome`() throws {
    var bench = QueueBench()
    try bench.submit(1, 2, 3)
    try bench.submit(4, isReceipt: true)
    try bench.submit(5, to: 5, isAlone: true)
    while !bench.steps.isEmpty {
      if bench.lookUpCount > 0 {
        try bench.lookedUp()
      } else if let request = bench.sent.first {
        try bench.answer(request.map { _ in nil })
      } else {
        try bench.hold { _ in Self.away }
      }
    }
    #expect(bench.told.map(\.caller).sorted() == [1, 2, 3, 4, 5] && bench.queue.waitingSize.items == 0)
  }

  @Test func `one timer serves all, and a queue without work has none`() throws {
    var bench = QueueBench()
    for caller in 1...100 {
      try bench.submit(caller)
      bench.advance(by: .milliseconds(1))
    }
    try bench.submit(101, isAlone: true)
    #expect(bench.timerCount == 1)
    for _ in 1...2 { try bench.lookedUp() }
    try bench.answer(200)
    try bench.answer(200)
    try bench.lookedUp()
    try bench.answer(Array(repeating: 200, count: 99))
    #expect(bench.timerCount == 1)
    bench.advance(by: QueueBench.patience)
    #expect(bench.timerCount == 0 && bench.told.count == 101)
  }
}
