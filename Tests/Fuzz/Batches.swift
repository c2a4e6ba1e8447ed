import NIOCore
import SwiftProtobuf
import WireMessages

@testable import Federation
@testable import RelayCore

/// Batches of hand-overs, and the answers to them.
func fuzzBatch(_ bytes: [UInt8]) {
  let (selector, body) = bytes.split
  if selector % 4 == 3 { return fuzzAnswers(body) }
  let size = BatchSize(body)
  let batch = try? Relay_Batch(serializedBytes: body)
  if let size, let batch {
    // It may count more than protobuf keeps, never less: it is what memory is bounded by.
    demand(size.handOvers >= batch.handOvers.count, "each hand-over is counted")
    demand(size.messages >= batch.handOvers.reduce(0) { $0 + $1.messages.count }, "each message is counted")
  }
  guard let received = try? BatchCodec.decode(body) else { return }
  demand(received.handOvers.count <= WireLimits.handOversPerBatchMax, "a batch is bounded")
  demand(received.marks.count == received.handOvers.count, "each has its marks")
  let refusals = received.handOvers.map { handOver -> Problem? in
    if case .failure(let problem) = handOver { problem } else { nil }
  }
  guard let answer = try? BatchCodec.encode(refusals) else { return demand(false, "every batch has an answer") }
  let read = try? HandOverAnswer.read(peerAnswer(answer), count: refusals.count)
  demand(read?.count == refusals.count, "the answer is read")
}

private func fuzzAnswers(_ body: [UInt8]) {
  guard let message = try? Relay_BatchAnswer(serializedBytes: body) else { return }
  // nil: protobuf takes the groups of old, the count does not.
  guard let read = try? HandOverAnswer.read(peerAnswer(body), count: message.answers.count) else { return }
  demand(read.count == message.answers.count, "as many answers as there are")
}

private func peerAnswer(_ body: [UInt8]) -> PeerAnswer {
  PeerAnswer(status: 200, entityTag: nil, retryAfterSeconds: nil, body: ByteBuffer(bytes: body))
}
