import Push
import RelayCore

/// The payload that a device is sent (reference 2.5).
struct WakePayload: Sendable {
  let kind: WakeAttempt.Kind
  let message: PushMessage

  /// An encrypted envelope that goes with the push.
  struct Content: Sendable {
    let sealed: [UInt8]
    let isReceipt: Bool
  }

  /// FCM's data, or APNs' payload.
  static let bytesMax = 4096
  /// One wake-up is as good as several.
  private static let collapse = "messages"

  /// - Parameter content: nil for a wake-up that says nothing; also what does not fit becomes one.
  static func fcm(to token: Secret, _ content: Content?, expires: Timestamp, now: Timestamp) -> WakePayload {
    let content = content.flatMap { fits($0) ? $0 : nil }
    var json = JSONWriter(capacity: 512 + (content?.sealed.count ?? 0) * 3 / 2)
    json.beginObject()
    json.key("message")
    json.beginObject()
    json.key("token")
    json.string(token.value)
    json.key("data")
    writeWords(content, into: &json)
    json.key("android")
    json.beginObject()
    json.key("priority")
    json.string("high")
    json.key("ttl")
    json.string("\(max(0, expires.millis - now.millis) / 1000)s")
    if content == nil {
      json.key("collapse_key")
      json.string(collapse)
    }
    json.endObject()
    json.endObject()
    json.endObject()
    let message = PushMessage(
      to: .fcm(registrationToken: token.value), PushPayload(json.bytes), expires: expires)
    return WakePayload(kind: content == nil ? .wakeUp : .content, message: message)
  }

  /// Names and values of the data count.
  private static func fits(_ content: Content) -> Bool {
    let names = "typemessage".utf8.count + (content.isReceipt ? "receipt" : "message").utf8.count
    return names + (content.sealed.count + 2) / 3 * 4 <= bytesMax
  }

  /// The payload for the page's service worker, decrypted: the same words as FCM's data.
  static func webPush(
    to subscription: WebPushSubscription, _ content: Content?, expires: Timestamp
  ) -> WakePayload {
    let full = content.map { webPushBody($0) }
    let fitting = full.flatMap { $0.count <= WebPushProvider.payloadMax ? $0 : nil }
    let message = PushMessage(
      to: .webPush(subscription), PushPayload(fitting ?? webPushBody(nil)), expires: expires,
      collapse: fitting == nil ? collapse : nil)
    return WakePayload(kind: fitting == nil ? .wakeUp : .content, message: message)
  }

  private static func webPushBody(_ content: Content?) -> [UInt8] {
    var json = JSONWriter(capacity: 64 + (content?.sealed.count ?? 0) * 3 / 2)
    writeWords(content, into: &json)
    return json.bytes
  }

  /// The words that FCM's data and the page's service worker get.
  private static func writeWords(_ content: Content?, into json: inout JSONWriter) {
    json.beginObject()
    json.key("type")
    json.string("message")
    if let content {
      if content.isReceipt { json.key("receipt") } else { json.key("message") }
      json.base64(content.sealed, padded: true)
    } else {
      json.key("message")
      json.string("")
      json.key("notification")
      json.string("true")
    }
    json.endObject()
  }

  /// - Parameter badge: how many messages wait; nil when that is not known.
  static func apns(to token: Secret, _ content: Content?, badge: Int?, expires: Timestamp) -> WakePayload {
    let full = content.map { apnsBody($0, badge: badge) }
    let fitting = full.flatMap { $0.count <= bytesMax ? $0 : nil }
    let message = PushMessage(
      to: .apns(deviceToken: token.value), PushPayload(fitting ?? apnsBody(nil, badge: badge)), expires: expires,
      collapse: fitting == nil ? collapse : nil, kind: .alert)
    return WakePayload(kind: fitting == nil ? .wakeUp : .content, message: message)
  }

  /// A VoIP push, which wakes the app itself. Worth nothing to a device that does not get it at once.
  static func call(to token: Secret, badge: Int?, expires: Timestamp) -> WakePayload {
    let message = PushMessage(
      to: .apns(deviceToken: token.value), PushPayload(apnsBody(nil, badge: badge)), expires: expires, kind: .voip,
      topicSuffix: "voip")
    return WakePayload(kind: .call, message: message)
  }

  private static func apnsBody(_ content: Content?, badge: Int?) -> [UInt8] {
    var json = JSONWriter(capacity: 160 + (content?.sealed.count ?? 0) * 3 / 2)
    json.beginObject()
    json.key("aps")
    json.beginObject()
    json.key("sound")
    json.string("default")
    if let badge {
      json.key("badge")
      json.integer(badge)
    }
    json.key("alert")
    json.beginObject()
    json.key("loc-key")
    json.string("APN_Message")
    json.endObject()
    json.endObject()
    if let content {
      json.key("m")
      json.base64(content.sealed, padded: true)
    }
    json.endObject()
    return json.bytes
  }
}
