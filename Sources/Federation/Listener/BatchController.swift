import Hummingbird
import NIOCore
import RelayCore
import RelayHTTP

/// Messages and receipts of a peer's accounts for ours, many a request (docs/federation.md, "Batches").
struct BatchController: Sendable {
  let intake: HandOverIntake

  func addRoutes(to group: some RouterMethods<PeerContext>) {
    group.resource("v1/federation/batch", [(.put, put)])
  }

  /// Every hand-over is answered as the request for it alone would be; 200 says only that the batch could be read.
  private func put(_ request: Request, _ context: PeerContext) async throws(Problem) -> Response {
    let peer = context.peer.name
    let body = try await intake.budget.body(
      of: request, as: BatchCodec.mediaType, max: BatchCodec.bodyBytesMax, from: peer)
    let handOvers = try BatchCodec.decode(Array(buffer: body))
    let refusals = await accept(handOvers, from: peer)
    return Response(
      status: .ok, headers: [.contentType: BatchCodec.mediaType],
      body: ResponseBody(byteBuffer: ByteBuffer(bytes: try BatchCodec.encode(refusals))))
  }

  /// - Returns: nil for what was accepted, in the order of the batch.
  private func accept(_ handOvers: [Result<HandOver, Problem>], from peer: RelayName) async -> [Problem?] {
    do throws(Problem) {
      let recipients = handOvers.reduce(0) { $0 + ($1.success?.recipients ?? 0) }
      try await intake.budget.charge([.recipients(recipients)], of: peer)
    } catch {
      return handOvers.map { _ in error }
    }
    let lanes = Self.lanes(handOvers)
    var refusals = handOvers.map(\.failure)
    await withTaskGroup(of: [(Int, Problem?)].self) { group in
      var waiting = lanes[...]
      for lane in waiting.prefix(Self.lanesAtOnceMax) { group.addTask { await accept(lane, from: peer) } }
      waiting = waiting.dropFirst(Self.lanesAtOnceMax)
      for await outcomes in group {
        for (index, refusal) in outcomes { refusals[index] = refusal }
        if let lane = waiting.popFirst() { group.addTask { await accept(lane, from: peer) } }
      }
    }
    return refusals
  }

  private func accept(_ lane: Lane, from peer: RelayName) async -> [(Int, Problem?)] {
    var outcomes: [(Int, Problem?)] = []
    for (index, handOver) in lane {
      do throws(Problem) {
        try await intake.accept(handOver, from: peer, charges: [])
        outcomes.append((index, nil))
      } catch {
        outcomes.append((index, error))
      }
    }
    return outcomes
  }

  /// What must be accepted one after the other, with its places in the batch.
  private typealias Lane = [(Int, HandOver)]

  /// Between two accounts the order of the batch is kept; all others go side by side, so that they share the store's
  /// batches.
  private static func lanes(_ handOvers: [Result<HandOver, Problem>]) -> [Lane] {
    var lanes: [Lane] = []
    var places: [[AccountNumber]: Int] = [:]
    for (index, handOver) in handOvers.enumerated() {
      guard let handOver = handOver.success else { continue }
      let pair = [handOver.source.account, handOver.destination]
      if let place = places[pair] {
        lanes[place].append((index, handOver))
      } else {
        places[pair] = lanes.count
        lanes.append([(index, handOver)])
      }
    }
    return lanes
  }

  /// Leaves the store room for others' calls.
  private static let lanesAtOnceMax = 128
}

extension Result {
  fileprivate var success: Success? { if case .success(let value) = self { value } else { nil } }
  fileprivate var failure: Failure? { if case .failure(let error) = self { error } else { nil } }
}
