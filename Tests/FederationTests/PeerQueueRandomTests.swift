import RelayCore
import RelayWork
import TestSupport
import TestTags
import Testing

@testable import Federation

/// Thousands of random events, against a peer and an outbox that are simulated: whatever happens, each hand-over has
/// one outcome, bounds are kept, and no message overtakes another one of its pair.
@Suite(.tags(.unit)) struct PeerQueueRandomTests {
  @Test(arguments: 0..<24) func `one outcome each, in order, and within bounds`(seed: UInt64) throws {
    var trial = QueueTrial(seed: seed)
    for _ in 0..<2000 { try trial.act() }
    try trial.finish()
    #expect(trial.submitted.count > 500 && trial.arrivals.count > 50)
  }
}

private struct QueueTrial {
  static let batchMax = QueueBench.Queue.Size(items: 5, bytes: 1500)
  static let waitingMax = QueueBench.Queue.Size(items: 12, bytes: 4000)
  /// The peer has confirmed nothing of it: its messages are never held.
  static let unconfirmed = 3

  private var bench = QueueBench(batch: Self.batchMax, waitingMax: Self.waitingMax)
  private var random: SeededGenerator
  /// Whether messages for the peer are held.
  private let holds: Bool
  private(set) var submitted: [Int: (handOver: (source: Int, destination: Int), isAlone: Bool)] = [:]
  private var cancelled: Set<Int> = []
  /// Oldest first.
  private var outbox: [(id: Int, destination: AccountNumber)] = []
  /// As the peer had them first; it knows a repeated one.
  private(set) var arrivals: [Int] = []
  private var hasArrived: Set<Int> = []
  /// The peer never takes them.
  private var refused: Set<Int> = []

  init(seed: UInt64) {
    random = SeededGenerator(seed: seed)
    holds = seed % 4 != 0
  }

  mutating func act() throws {
    switch Int.random(in: 0..<100, using: &random) {
    case ..<40: try submit()
    case ..<75: try endStep()
    case ..<82: if !bench.unnoted.isEmpty { try bench.note() }
    case ..<87: try cancel()
    case ..<93: bench.advance(by: .milliseconds(Int.random(in: 1...3000, using: &random)))
    default: drain()
    }
    check()
  }

  /// Until nothing is under way.
  mutating func finish() throws {
    while !bench.steps.isEmpty || !bench.unnoted.isEmpty {
      try endStep()
      if !bench.unnoted.isEmpty { try bench.note() }
      check()
    }
    while !outbox.isEmpty { drain() }
    bench.advance(by: .seconds(60))
    #expect(bench.timerCount == 0 && bench.queue.waitingSize.items == 0 && bench.queue.batches.isEmpty)
    let told = bench.told.map(\.caller)
    #expect(Set(told).count == told.count, "a caller was told twice")
    #expect(Set(told).isDisjoint(with: cancelled), "a caller was told that had gone")
    #expect(Set(told).union(cancelled) == Set(submitted.keys), "a caller has no outcome")
    var last: [[Int]: Int] = [:]
    for id in arrivals {
      guard let (pair, isAlone) = submitted[id], !isAlone else { continue }
      let before = last.updateValue(id, forKey: [pair.source, pair.destination]) ?? 0
      #expect(before < id, "\(id) was overtaken by \(before)")
    }
    for (caller, outcome) in bench.told {
      guard case .success(.held(nil)) = outcome else { continue }
      #expect(hasArrived.contains(caller) || refused.contains(caller), "\(caller) was lost")
    }
  }

  private mutating func submit() throws {
    let id = submitted.count + 1
    let pair = (Int.random(in: 0..<3, using: &random), Int.random(in: 0..<4, using: &random))
    let kind = Int.random(in: 0..<10, using: &random)
    let isAlone = holds && kind == 0
    submitted[id] = (pair, isAlone || kind == 1)
    try bench.submit(
      id, from: pair.0, to: pair.1, holds: holds, isAlone: isAlone, isReceipt: kind == 1,
      bodyBytes: Int.random(in: 1...600, using: &random))
  }

  private mutating func cancel() throws {
    guard !submitted.isEmpty else { return }
    let id = Int.random(in: 1...submitted.count, using: &random)
    guard bench.outcome(of: id) == nil else { return }
    cancelled.insert(id)
    try bench.cancel(id)
  }

  private mutating func endStep() throws {
    switch bench.steps.randomElement(using: &random) {
    case .lookUp?:
      if Int.random(in: 0..<30, using: &random) == 0 { return try bench.lookedUp(.failure(Problem(.unavailable))) }
      try bench.lookedUp(.success(Set(outbox.map(\.destination))))
    case .hold?: try hold()
    case .send?: try answer()
    case nil: return
    }
  }

  /// As the outbox does: one after the other, as they came.
  private mutating func hold() throws {
    let unconfirmed = QueueBench.destination(Self.unconfirmed)
    var outbox = outbox
    try bench.hold { handOver in
      if handOver.destination == unconfirmed { return Problem(.peerUnavailable) }
      let id = QueueBench.id(handOver)
      if !outbox.contains(where: { $0.id == id }) { outbox.append((id, handOver.destination)) }
      return nil
    }
    self.outbox = outbox
  }

  private mutating func answer() throws {
    let request = Int.random(in: bench.sent.indices, using: &random)
    let isNoted = Bool.random(using: &random)
    if Int.random(in: 0..<8, using: &random) == 0 {
      return try bench.answer(bench.sent[request].map { _ in nil }, request: request, isNoted: isNoted)
    }
    var putOff: [[Int]: Int] = [:]
    let statuses = bench.sent[request].map { id -> Int? in
      let pair = submitted[id].map { [$0.handOver.source, $0.handOver.destination] } ?? []
      let status = putOff[pair] ?? [200, 200, 200, 200, 200, 404, 413, 503].randomElement(using: &random) ?? 200
      // Behind one that is put off, the peer takes none of its pair.
      if status == 413 || status == 503 { putOff[pair] = status }
      if status == 404 { refused.insert(id) }
      if status == 200 { arrive(id) }
      return status
    }
    try bench.answer(statuses, request: request, isNoted: isNoted)
  }

  /// The outbox hands its first message over.
  private mutating func drain() {
    if !outbox.isEmpty { arrive(outbox.removeFirst().id) }
  }

  private mutating func arrive(_ id: Int) {
    if !refused.contains(id), hasArrived.insert(id).inserted { arrivals.append(id) }
  }

  private func check() {
    #expect(bench.queue.waitingSize.items <= Self.waitingMax.items)
    #expect(bench.queue.waitingSize.items == 1 || bench.queue.waitingSize.bytes <= Self.waitingMax.bytes)
    #expect(bench.sent.allSatisfy { $0.count <= Self.batchMax.items })
    // Requests of the queue, one at a time: all but those that go alone.
    let gathered = bench.sent.filter { $0.contains { submitted[$0].map { !$0.isAlone } ?? false } }
    #expect(gathered.count <= 1, "two batches are under way: \(gathered)")
    #expect(bench.timerCount <= 1)
  }
}
