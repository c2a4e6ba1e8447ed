import NIOCore
import RelayCore

/// A client's wish for the prekeys of a peer's account.
struct KeyDraw: Sendable, Equatable {
  let account: AccountNumber
  let devices: DeviceSelector
  let version: PreKeyVersion
  /// The id of the client's request that it comes from; nil for none.
  var request: RequestID?

  /// As a request of its own, in the reference's form (1.13.2).
  var alone: PeerRequest {
    let path = "federation/key/\(account.e164)/\(devices.text)"
    var request = PeerRequest.get(version == .one ? "/v1/\(path)" : "/v2/\(path)")
    request.answerBytesMax = Self.answerBytesMax
    if let id = self.request { request.id = id }
    return request
  }

  /// A key and its texts for each of as many devices as a bundle may address.
  private static let answerBytesMax = 512 << 10
}

/// The peer's answer to one draw, whether it travelled alone or in a batch.
enum KeyDrawAnswer: Sendable, Equatable {
  case drawn([DrawnPreKey])
  case refused(HandOverAnswer)
}

extension KeyDrawAnswer {
  /// To a request of its own. - Throws: `.unreadable` for an answer of success without keys.
  init(_ answer: PeerAnswer, version: PreKeyVersion) throws(PeerFailure) {
    let refusal = HandOverAnswer(answer)
    guard refusal.isSuccess else {
      self = .refused(refusal)
      return
    }
    let json = answer.body.readableBytesUInt8Span.bytes
    do throws(JSONError) {
      let drawn =
        switch version {
        case .one: try PreKeyCodec.decodeDrawn(json)
        case .two: try PreKeyCodec.decodeDrawnV2(json)
        }
      guard !drawn.isEmpty else { throw .wrongShape }
      self = .drawn(drawn)
    } catch {
      throw .unreadable
    }
  }
}
