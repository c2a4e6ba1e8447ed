import RelayCore
import RelayWork
import TestTags
import Testing

@testable import Federation

/// A peer that keeps a queue waiting, on a time that the test sets (docs/federation.md, "A peer that keeps us
/// waiting").
@Suite(.tags(.unit)) struct QueuePatienceTests {
  private static let away = Problem(.peerUnavailable, retryAfter: .seconds(2))
  private static let accepted = QueueBench.Queue.Outcome.success(.answered(HandOverAnswer(status: 200)))

  /// Asks the peer to take message 1, and lets patience end.
  private func outlastPatience() throws -> QueueBench {
    var bench = QueueBench()
    try bench.submit(1)
    try bench.lookedUp()
    bench.advance(by: QueueBench.patience)
    return bench
  }

  @Test func `patience begins with the request, and ends once`() throws {
    var bench = QueueBench()
    try bench.submit(1)
    bench.advance(by: .seconds(1))
    try bench.lookedUp()
    bench.advance(by: QueueBench.patience - .milliseconds(1))
    #expect(bench.holding.isEmpty && !bench.queue.isKeptWaiting)
    bench.advance(by: .milliseconds(1))
    #expect(bench.holding == [[1]] && bench.queue.isKeptWaiting)
    bench.advance(by: QueueBench.patience)
    #expect(bench.holding == [[1]] && bench.told.isEmpty)
  }

  @Test func `an answer in time is told, and the next request has patience of its own`() throws {
    var bench = QueueBench()
    try bench.submit(1, 2)
    try bench.lookedUp()
    bench.advance(by: .milliseconds(1999))
    try bench.answer(200)
    try bench.lookedUp()
    bench.advance(by: .milliseconds(1999))
    #expect(bench.outcome(of: 1) == Self.accepted && bench.sent == [[2]] && !bench.queue.isKeptWaiting)
    try bench.answer(200)
    #expect(bench.outcome(of: 2) == Self.accepted && bench.holding.isEmpty)
  }

  @Test func `a peer that never answers gets nothing more, and all is held in order`() throws {
    var bench = QueueBench()
    try bench.submit(1)
    try bench.lookedUp()
    try bench.submit(2, 3)
    bench.advance(by: QueueBench.patience)
    #expect(bench.holding == [[1]] && bench.queue.waitingSize.items == 2)
    try bench.hold()
    #expect(bench.holding == [[2, 3]] && bench.lookUpCount == 0)
    try bench.submit(4)
    try bench.hold()
    #expect(bench.holding == [[4]])
    try bench.hold()
    #expect(bench.told.map(\.caller) == [1, 2, 3, 4])
    for caller in 1...4 { #expect(bench.outcome(of: caller) == .success(.held(nil))) }
    #expect(bench.sent == [[1]] && bench.queue.isKeptWaiting)
    bench.advance(by: .seconds(3600))
    #expect(bench.told.count == 4 && bench.timerCount == 0)
  }

  @Test func `once the request is over, messages go again`() throws {
    var bench = try outlastPatience()
    try bench.hold()
    try bench.answer(nil)
    #expect(!bench.queue.isKeptWaiting && bench.steps.isEmpty && bench.notes.isEmpty)
    try bench.submit(2)
    try bench.lookedUp(held: 0)
    #expect(bench.holding == [[2]])
    try bench.hold()
    try bench.submit(3)
    try bench.lookedUp()
    #expect(bench.sent == [[3]])
  }

  @Test func `a held message's late answer counts for its devices alone`() throws {
    var bench = try outlastPatience()
    try bench.hold()
    try bench.answer(404, isNoted: false)
    #expect(bench.notes.isEmpty)
    try bench.note()
    #expect(bench.notes == [1] && bench.told.map(\.caller) == [1])
    #expect(bench.outcome(of: 1) == .success(.held(nil)))
  }

  @Test func `a late answer that comes while the message is being held is told behind that`() throws {
    var bench = try outlastPatience()
    try bench.answer(409)
    #expect(bench.told.isEmpty && !bench.queue.isKeptWaiting)
    try bench.hold()
    #expect(bench.outcome(of: 1) == .success(.held(nil)) && bench.notes == [1])
  }

  @Test func `a message that cannot be held waits for the late answer`() throws {
    var bench = try outlastPatience()
    try bench.submit(2)
    try bench.hold { _ in Self.away }
    #expect(bench.told.isEmpty && bench.holding == [[2]])
    try bench.hold { _ in Self.away }
    #expect(bench.outcome(of: 2) == .success(.held(Self.away)), "the one behind it is not even sent")
    try bench.answer(409, isNoted: false)
    #expect(bench.outcome(of: 1) == nil)
    try bench.note()
    #expect(bench.outcome(of: 1) == .success(.answered(HandOverAnswer(status: 409))) && bench.notes.isEmpty)
  }

  @Test(arguments: [nil, 503])
  func `a late answer that says nothing leaves the reason why it is not held`(status: Int?) throws {
    var bench = try outlastPatience()
    try bench.hold { _ in Self.away }
    try bench.answer(status)
    #expect(bench.outcome(of: 1) == .success(.held(Self.away)))
  }

  @Test func `a caller waits no longer than a request may take`() throws {
    var bench = QueueBench()
    try bench.submit(1)
    try bench.lookedUp()
    try bench.submit(2, isReceipt: true)
    bench.advance(by: QueueBench.patience)
    try bench.hold { _ in Self.away }
    #expect(bench.outcome(of: 2) == .failure(.timedOut), "a receipt does not wait behind silence")
    bench.advance(by: QueueBench.timeout - QueueBench.patience - .milliseconds(1))
    #expect(bench.outcome(of: 1) == nil)
    bench.advance(by: .milliseconds(1))
    #expect(bench.outcome(of: 1) == .success(.held(Self.away)))
    try bench.answer(200)
    #expect(bench.told.count == 2 && bench.notes == [1])
  }

  @Test func `what waits behind a request for its whole time is taken back`() throws {
    var bench = QueueBench()
    try bench.submit(1, holds: false)
    bench.advance(by: .seconds(4))
    try bench.submit(2, 3, holds: false)
    bench.advance(by: .seconds(6))
    #expect(bench.told.map(\.caller) == [1] && bench.outcome(of: 1) == .failure(.timedOut))
    bench.advance(by: .seconds(3))
    try bench.submit(4, holds: false)
    bench.advance(by: .seconds(1))
    #expect(bench.told.map(\.caller) == [1, 2, 3] && bench.queue.waitingSize.items == 1)
    try bench.answer(200)
    #expect(bench.sent == [[4]])
  }

  @Test func `a receipt under way waits on, and the queue goes on behind it`() throws {
    var bench = QueueBench()
    try bench.submit(1, isReceipt: true)
    #expect(bench.sent == [[1]] && bench.lookUpCount == 0)
    try bench.submit(2)
    bench.advance(by: QueueBench.patience)
    #expect(bench.told.isEmpty && bench.holding == [[2]])
    try bench.answer(200)
    #expect(bench.outcome(of: 1) == Self.accepted)
  }
}
