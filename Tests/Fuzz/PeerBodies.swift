import Foundation
import NIOCore

@testable import Federation
@testable import RelayCore

/// Peers' answers and requests in JSON, each by the decoder that the first byte names.
func fuzzPeerBodies(_ bytes: [UInt8]) {
  let (selector, body) = bytes.split
  let json = body.span.bytes
  switch selector % 15 {
  case 0:
    guard let page = try? FeedPage.decode(json) else { return }
    demand((try? FeedPage.decode(page.json.span.bytes)) == page, "a page of the feed comes back")
  case 1:
    guard let listed = try? ContactCodec.decodeListing(json) else { return }
    demand(listed.accounts.count <= listed.count, "no more entries are understood than there are")
    let again = try? ContactCodec.decodeListing(ContactCodec.encode(listed.accounts).span.bytes)
    demand(again?.accounts == listed.accounts, "a listing comes back")
  case 2:
    guard let drawn = try? PreKeyCodec.decodeDrawn(json) else { return }
    demand((try? PreKeyCodec.decodeDrawn(PreKeyCodec.encode(drawn).span.bytes)) == drawn, "keys come back")
  case 3:
    guard let drawn = try? PreKeyCodec.decodeDrawnV2(json), !drawn.isEmpty else { return }
    demand((try? PreKeyCodec.decodeDrawnV2(PreKeyCodec.encodeV2(drawn).span.bytes)) == drawn, "keys come back")
  case 4: _ = try? Problem.Devices.decode(json, isStale: selector >= 128)
  case 5:
    guard let status = try? PeeringStatus.decode(json) else { return }
    demand((try? PeeringStatus.decode(status.json.span.bytes)) == status, "a peering's state comes back")
  case 6:
    guard let request = try? RedemptionRequest.decode(json) else { return }
    demand((try? RedemptionRequest.decode(request.json.span.bytes)) == request, "a redemption comes back")
  case 7:
    guard let answer = try? RedemptionAnswer.decode(json) else { return }
    demand((try? RedemptionAnswer.decode(answer.json.span.bytes)) == answer, "its answer comes back")
  case 8: _ = try? RemainingBudget.decode(json)
  case 9: _ = try? ProbeRequest.decode(json)
  case 10: _ = try? ProbeAnswer.decode(json)
  case 11:
    guard let location = try? AttachmentLocation.decode(json) else { return }
    demand((try? AttachmentLocation.decode(location.json.span.bytes)) == location, "a location comes back")
  case 12: _ = try? EpochMessage.decode(json)
  case 13: _ = try? LegacyHandOver.decode(json).handOver
  default:
    let answer = PeerAnswer(
      status: 410 - selector / 16 % 2, entityTag: nil, retryAfterSeconds: nil, body: ByteBuffer(bytes: body))
    _ = HandOverAnswer(answer)
  }
}
