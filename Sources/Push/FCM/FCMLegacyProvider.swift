import NIOCore
import NIOHTTP1
package import RelayCore

/// Google's service as it was until 2024, for operators that still run a similar one (push gateway reference, 6).
package final class FCMLegacyProvider: PushProvider {
  private let settings: FCMLegacySettings
  /// nil where the endpoint is no URL.
  private let url: PushURL?
  private let clock: WallClock
  private let client: PushClient

  /// - Throws: when the file with CAs cannot be used.
  package init(_ settings: FCMLegacySettings, clock: WallClock) throws(PushCredentialError) {
    self.settings = settings
    url = PushURL(settings.endpoint)
    self.clock = clock
    var client = PushClient.Settings()
    client.connectionsMax = settings.connectionsMax
    client.trust = try CredentialFile.authorities(settings.trust)
    self.client = PushClient(client)
  }

  package var servers: [String] { [settings.endpoint] }

  package func send(_ message: PushMessage, deadline: ContinuousClock.Instant) async -> PushOutcome {
    guard case .fcmLegacy(let tokens) = message.target, !tokens.isEmpty else {
      return .refused(PushReason(.message, "wrong-target"))
    }
    let request = PushRequest(
      url: url?.appending("/fcm/send"),
      headers: ["authorization": "key=\(settings.key.value)", "content-type": "application/json"],
      body: message.payload.bytes)
    do throws(PushFailure) {
      let answer = try await client.post(request, deadline: deadline)
      return FCMLegacyAnswer.outcome(answer, of: tokens.count, now: clock.now())
    } catch {
      return error.outcome
    }
  }
}

enum FCMLegacyAnswer {
  /// - Parameter count: of the tokens that were sent to.
  static func outcome(_ answer: PushAnswer, of count: Int, now: Timestamp) -> PushOutcome {
    let asked = RetryAfter.read(answer.headers.first(name: "Retry-After"), now: now)
    func reason(_ kind: PushReason.Kind) -> PushReason { PushReason(kind, provider: nil, status: answer.status) }
    switch answer.status {
    case 200:
      // Anything but a list of as many results as there are tokens says nothing of them.
      guard let body = answer.body, let results = try? read(body.readableBytesUInt8Span.bytes), results.count == count
      else { return .refused(PushReason(.message, provider: "unreadable", status: answer.status)) }
      return count == 1 ? results[0] : .several(results)
    case 404: return .dead(reason(.target))
    case 401, 403: return .refused(reason(.credentials))
    case 429: return .temporary(reason(.quota), retryAfter: asked)
    case 500...: return .temporary(reason(.server), retryAfter: asked)
    default: return .refused(reason(.message))
    }
  }

  private static func read(_ body: RawSpan) throws(JSONError) -> [PushOutcome] {
    var reader = JSONReader(body)
    var results: [PushOutcome] = []
    try reader.beginObject()
    while let key = try reader.nextKey() {
      guard reader.matches(key, "results") else {
        try reader.skip()
        continue
      }
      try reader.beginArray()
      while try reader.nextElement() { results.append(try result(&reader)) }
    }
    try reader.finish()
    return results
  }

  private static func result(_ reader: inout JSONReader) throws(JSONError) -> PushOutcome {
    var (id, canonical, word): (String?, String?, String?) = (nil, nil, nil)
    try reader.beginObject()
    while let key = try reader.nextKey() {
      if reader.matches(key, "message_id") {
        id = try reader.string()
      } else if reader.matches(key, "registration_id") {
        canonical = try reader.string()
      } else if reader.matches(key, "error") {
        word = try reader.string()
      } else {
        try reader.skip()
      }
    }
    guard let word else {
      return .delivered(id: id, canonical: canonical.map { .fcmLegacy(registrationTokens: [$0]) })
    }
    switch word {
    case "MissingRegistration", "InvalidRegistration", "NotRegistered", "InvalidPackageName", "MismatchSenderId":
      return .dead(PushReason(.target, provider: word, status: 200))
    case "MessageTooBig", "InvalidDataKey", "InvalidTtl":
      return .refused(PushReason(.message, provider: word, status: 200))
    case "DeviceMessageRateExceeded", "TopicsMessageRateExceeded":
      return .temporary(PushReason(.quota, provider: word, status: 200))
    default: return .temporary(PushReason(.server, provider: word, status: 200))
    }
  }
}
