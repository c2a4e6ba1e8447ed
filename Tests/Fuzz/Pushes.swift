import NIOCore
import NIOHTTP1

@testable import Push
@testable import PushGateway
@testable import RelayCore

/// Notifications of homeservers.
func fuzzNotify(_ bytes: [UInt8]) {
  let (selector, body) = bytes.split
  if selector % 4 == 3 {
    if let token = APNsDeviceToken.token(from: body.text, converts: selector >= 128) {
      demand((1...1024).contains(token.utf8.count), "a token is bounded")
    }
    return
  }
  guard let notification = try? PushNotification(body: body) else { return }
  demand(!notification.devices.isEmpty, "a notification is for some device")
}

/// The answers of Apple and Google, and the endpoints of WebPush.
func fuzzProviderAnswers(_ bytes: [UInt8]) {
  let (selector, body) = bytes.split
  let status = [200, 400, 401, 403, 404, 410, 429, 503][selector / 8 % 8]
  let end = body.firstIndex(of: 10) ?? body.startIndex
  let (later, json) = (body[..<end].count > 0 ? Array(body[..<end]).text : nil, Array(body[end...]))
  let now = Timestamp(millis: 1_700_000_000_000)
  if let pause = RetryAfter.read(later, now: now) {
    demand(pause > .zero && pause <= RetryAfter.max, "a pause has its bounds")
  }
  let answer = PushAnswer(
    status: status, headers: later.map { ["Retry-After": $0] } ?? [:], body: ByteBuffer(bytes: json))
  switch selector % 4 {
  case 0: _ = APNsAnswer.outcome(answer, now: now)
  case 1: _ = FCMAnswer.outcome(answer, now: now)
  case 2: _ = FCMLegacyAnswer.outcome(answer, of: 2, now: now)
  default:
    guard let endpoint = WebPushEndpoint(body.text) else { return }
    demand(WebPushEndpoint(endpoint.url) == endpoint, "an endpoint comes back")
  }
}
