import NIOCore
import NIOHTTP1
import RelayCore

/// The meaning of Apple's answers (push gateway reference, 4.7, and Apple's "Handling notification responses from
/// APNs").
enum APNsAnswer {
  static func outcome(_ answer: PushAnswer, now: Timestamp) -> PushOutcome {
    if answer.status == 200 { return .delivered(id: answer.headers.first(name: "apns-id")) }
    let (word, time) = answer.body.flatMap { read($0) } ?? (nil, nil)
    let asked = RetryAfter.read(answer.headers.first(name: "Retry-After"), now: now)
    func reason(_ kind: PushReason.Kind) -> PushReason { PushReason(kind, provider: word, status: answer.status) }
    switch (answer.status, word) {
    case (400, "BadDeviceToken"), (400, "DeviceTokenNotForTopic"), (400, "TopicDisallowed"):
      return .dead(reason(.target))
    case (410, _): return .dead(reason(.target), since: time)
    case (400, "IdleTimeout"): return .temporary(reason(.transport))
    // The next push has a newer token.
    case (403, "ExpiredProviderToken"): return .temporary(reason(.credentials))
    case (401, _), (403, _): return .refused(reason(.credentials))
    case (429, "TooManyProviderTokenUpdates"): return .temporary(reason(.credentials), retryAfter: asked)
    case (429, _): return .temporary(reason(.quota), retryAfter: asked)
    case (500..., _): return .temporary(reason(.server), retryAfter: asked)
    default: return .refused(reason(.message))
    }
  }

  /// The code word, and since when a token has been dead.
  private static func read(_ body: ByteBuffer) -> (String?, Timestamp?)? {
    // A body of another kind says nothing; the status does.
    try? parse(body.readableBytesUInt8Span.bytes)
  }

  private static func parse(_ body: RawSpan) throws(JSONError) -> (String?, Timestamp?) {
    var reader = JSONReader(body)
    var (word, millis): (String?, Int64?) = (nil, nil)
    try reader.beginObject()
    while let key = try reader.nextKey() {
      if reader.matches(key, "reason") {
        word = try reader.string()
      } else if reader.matches(key, "timestamp") {
        millis = try reader.integer()
      } else {
        try reader.skip()
      }
    }
    try reader.finish()
    return (word, millis.map { Timestamp(millis: $0) })
  }
}
