import Hummingbird
import Logging
import NIOCore
import RelayCore
import RelayHTTP

/// Messages and receipts of a peer's accounts for ours, many a request (docs/federation-wire.md, "Batches").
struct BatchController: Sendable {
  let intake: HandOverIntake
  /// As `FederationListenerConfiguration`'s.
  let laneTimeMax: Duration
  private let failures = FailedRequests()

  init(intake: HandOverIntake, laneTimeMax: Duration) {
    self.intake = intake
    self.laneTimeMax = laneTimeMax
  }

  func addRoutes(to group: some RouterMethods<PeerContext>) {
    group.resource("v1/federation/batch", [(.put, put)])
  }

  /// Every hand-over is answered as the request for it alone would be; 200 says only that the batch could be read.
  private func put(_ request: Request, _ context: PeerContext) async throws(Problem) -> Response {
    let peer = context.peer.name
    let body = try await intake.budget.body(
      of: request, as: BatchCodec.mediaType, max: BatchCodec.bodyBytesMax, from: peer)
    let batch = try BatchCodec.decode(Array(buffer: body))
    let refusals = await accept(batch, from: peer)
    tellOfFailures(batch, refusals, context)
    return Response(
      status: .ok, headers: [.contentType: BatchCodec.mediaType],
      body: ResponseBody(byteBuffer: ByteBuffer(bytes: try BatchCodec.encode(refusals))))
  }

  /// The log hears of each that was not served, by the id of its client's request where that is known.
  private func tellOfFailures(_ batch: ReceivedBatch, _ refusals: [Problem?], _ context: PeerContext) {
    for (handOver, refusal) in zip(batch.handOvers, refusals) {
      guard let refusal, refusal.kind.status >= 500 else { continue }
      RequestID.$current.withValue(handOver.success?.requestID ?? RequestID.current) {
        failures.note(refusal, at: ["peer": "\(context.peer.name)", "route": "batch"], in: context.logger)
      }
    }
  }

  /// - Returns: nil for what was accepted, in the order of the batch.
  private func accept(_ batch: ReceivedBatch, from peer: RelayName) async -> [Problem?] {
    do throws(Problem) {
      let recipients = batch.handOvers.reduce(0) { $0 + ($1.success?.recipients ?? 0) }
      try await intake.budget.charge([.recipients(recipients)], of: peer)
    } catch {
      return batch.handOvers.map { _ in error }
    }
    let lanes = Self.lanes(batch)
    // The first of each lane is tried, whatever becomes of the others.
    let areCharged = await intake.chargeAtOnce(lanes.map { $0[0].1 }, of: peer, hasWaited: batch.terms.hasWaited)
    var refusals = batch.handOvers.map(\.failure)
    await withTaskGroup(of: [(Int, Problem?)].self) { group in
      var waiting = zip(lanes, areCharged).map { ($0, $1) }[...]
      func begin() {
        guard let (lane, isCharged) = waiting.popFirst() else { return }
        group.addTask { await accept(lane, isCharged: isCharged, batch.terms, from: peer) }
      }
      for _ in 0..<Self.lanesAtOnceMax { begin() }
      for await outcomes in group {
        for (index, refusal) in outcomes { refusals[index] = refusal }
        begin()
      }
    }
    return refusals
  }

  /// - Parameter isCharged: of the first.
  private func accept(
    _ lane: Lane, isCharged: Bool, _ terms: BatchTerms, from peer: RelayName
  ) async -> [(Int, Problem?)] {
    var outcomes: [(Int, Problem?)] = []
    // Sources with a message that was put off: what follows of theirs must not overtake it, and is answered as it was.
    var putOff: [AccountNumber: Problem] = [:]
    let end = ContinuousClock.now + laneTimeMax
    for (index, handOver, marks) in lane {
      if handOver.isMessage, let refusal = putOff[handOver.source.account] {
        outcomes.append((index, refusal))
        continue
      }
      // The peer would wait for all of them in vain, and hand the same over again.
      if terms.isInOrder, !outcomes.isEmpty, end <= .now {
        outcomes.append((index, Self.outOfTime))
        continue
      }
      do throws(Problem) {
        try await intake.accept(
          handOver, marks: marks, from: peer, charges: [], hasWaited: terms.hasWaited,
          isCharged: isCharged && outcomes.isEmpty)
        outcomes.append((index, nil))
      } catch {
        outcomes.append((index, error))
        if terms.isInOrder, handOver.isMessage, HandOverAnswer(error).isPutOff {
          putOff[handOver.source.account] = error
        }
      }
    }
    return outcomes
  }

  /// Hand-overs that must be accepted one after the other, one at least, with their places in the batch.
  private typealias Lane = [(Int, HandOver, [CrossingMark])]

  /// Between two accounts the order of the batch is kept, and for one destination among what had waited; all others go
  /// side by side, so that they share the store's batches.
  private static func lanes(_ batch: ReceivedBatch) -> [Lane] {
    var lanes: [Lane] = []
    var places: [[AccountNumber]: Int] = [:]
    for (index, handOver) in batch.handOvers.enumerated() {
      guard let handOver = handOver.success else { continue }
      let key = batch.terms.hasWaited ? [handOver.destination] : [handOver.source.account, handOver.destination]
      if let place = places[key] {
        lanes[place].append((index, handOver, batch.marks[index]))
      } else {
        places[key] = lanes.count
        lanes.append([(index, handOver, batch.marks[index])])
      }
    }
    return lanes
  }

  /// It comes again.
  private static let outOfTime = Problem(.unavailable, retryAfter: .seconds(1))
  /// Leaves the store room for others' calls.
  private static let lanesAtOnceMax = 128
}

extension HandOverAnswer {
  /// The answer that tells the peer of our refusal.
  init(_ refusal: Problem) {
    self.init(status: refusal.kind.status, isSourceRefused: refusal.kind == .sourceRefused)
  }
}
