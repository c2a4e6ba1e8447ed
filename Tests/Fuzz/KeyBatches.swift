import NIOCore
import SwiftProtobuf
import WireMessages

@testable import Federation
@testable import RelayCore

/// Draws of prekeys that peers send together, and the answers to them.
func fuzzKeyBatch(_ bytes: [UInt8]) {
  let (selector, body) = bytes.split
  if selector % 2 == 1 { return fuzzKeyAnswers(body) }
  guard let draws = try? KeyBatchCodec.decode(body) else { return }
  demand(draws.count <= KeyBatchCodec.drawsMax, "a batch is bounded")
  let asked = draws.compactMap { try? $0.get() }
  if let request = try? KeyBatchCodec.request(for: asked), let again = try? KeyBatchCodec.decode(request.body ?? []) {
    demand(again.compactMap { try? $0.get() } == asked, "draws come back")
  } else {
    demand(false, "draws that were read can be written")
  }
  let refusals = draws.map { draw -> Result<[DrawnPreKey], Problem> in
    draw.flatMap { _ in .failure(Problem(.notFound)) }
  }
  guard let answer = try? KeyBatchCodec.encode(refusals) else { return demand(false, "every batch has an answer") }
  let read = try? KeyBatchCodec.read(keyAnswer(answer), to: draws.compactMap { _ in sample })
  demand(read?.count == draws.count, "the answer is read")
}

/// Each answer of success comes back as it was read.
private func fuzzKeyAnswers(_ body: [UInt8]) {
  guard let message = try? Relay_KeyBatchAnswer(serializedBytes: body), message.answers.count <= KeyBatchCodec.drawsMax
  else { return }
  let draws = message.answers.compactMap { _ in sample }
  guard let answers = try? KeyBatchCodec.read(keyAnswer(body), to: draws) else { return }
  demand(answers.count == draws.count, "as many answers as there are")
  for case .success(.drawn(let drawn)) in answers {
    demand((1...WireLimits.messagesPerBundleMax).contains(drawn.count), "keys of as many devices as there may be")
    guard let again = try? KeyBatchCodec.encode([.success(drawn)]),
      let read = try? KeyBatchCodec.read(keyAnswer(again), to: [draws[0]])
    else { return demand(false, "keys that were read can be written") }
    demand(read == [.success(.drawn(drawn))], "keys come back")
  }
}

private let sample = AccountNumber(digits: 14_155_550_100).map {
  KeyDraw(account: $0, devices: .all, version: .two)
}

private func keyAnswer(_ body: [UInt8]) -> PeerAnswer {
  PeerAnswer(status: 200, entityTag: nil, retryAfterSeconds: nil, body: ByteBuffer(bytes: body))
}
