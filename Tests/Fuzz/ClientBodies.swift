import NIOCore
import RelayHTTP
import VOPRF

@testable import Relay
@testable import RelayCore

/// Every body that clients send, each by the decoder that the first byte names.
func fuzzClientBodies(_ bytes: [UInt8]) {
  let (selector, body) = bytes.split
  let json = body.span.bytes
  switch selector % 13 {
  case 0:
    guard let read = try? AccountAttributes.decode(json) else { return }
    _ = try? read.checkName()
  case 1: fuzzBundle(body)
  case 2: _ = try? LegacyBundle.decode(json)
  case 3: _ = try? PreKeyCodec.decodeUpload(json)
  case 4: _ = try? PreKeyCodec.decodeUploadV2(json)
  case 5:
    guard let key = try? PreKeyCodec.decodeSigned(json) else { return }
    demand((try? PreKeyCodec.decodeSigned(PreKeyCodec.encode(key).span.bytes)) == key, "a signed key comes back")
  case 6: fuzzContactQuery(body)
  case 7: fuzzElements(body)
  case 8: _ = try? PinCodec.decode(json)
  case 9: _ = try? GCMRegistration.decode(json)
  case 10: _ = try? APNRegistration.decode(json)
  case 11: demand(AccountAttributes.keptAgent(body.text).utf8.count <= 800, "what is kept of an agent is bounded")
  default: _ = JSONDialect().read(.text(ByteBuffer(bytes: body)))
  }
}

private func fuzzBundle(_ body: [UInt8]) {
  guard let bundle = try? MessageBundle.decode(body.span.bytes), let destination = AccountNumber(digits: 15_550_000_001)
  else { return }
  let submission = Submission(
    destination: destination, messages: bundle.messages, timestamp: bundle.timestamp, coverage: .activeDevices)
  let again = try? MessageBundle.decode(MessageBundle.encode(submission).span.bytes)
  demand(again?.messages == bundle.messages && again?.timestamp == bundle.timestamp, "a bundle comes back from a peer")
}

private func fuzzContactQuery(_ body: [UInt8]) {
  let limited = try? ContactQuery.decode(body.span.bytes, tokensMax: 3, hasCursor: true)
  demand((limited?.tokens.count ?? 0) <= 3, "no more tokens than may be asked for")
  guard let query = try? ContactQuery.decode(body.span.bytes, tokensMax: 1000) else { return }
  let again = try? ContactQuery.decode(ContactCodec.encode(tokens: query.tokens).span.bytes, tokensMax: 1000)
  demand(again?.tokens == query.tokens, "tokens come back")
}

/// Elements too as both sides of an oblivious look-up take them from each other, and proofs.
private func fuzzElements(_ body: [UInt8]) {
  if let proof = EvaluationProof(bytes: body) { demand(proof.bytes == body, "a proof comes back") }
  if let key = PublicEvaluationKey(bytes: body) { demand(key.element.bytes == body, "a key comes back") }
  guard let elements = try? ObliviousCodec.elements(body.span.bytes) else { return }
  demand(elements.allSatisfy { $0.count == ObliviousCodec.elementBytes }, "elements have their length")
  demand((try? ObliviousCodec.elements(ObliviousCodec.request(elements).span.bytes)) == elements, "elements come back")
}
