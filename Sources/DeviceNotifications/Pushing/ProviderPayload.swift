package import Push
package import RelayCore

/// The payloads for the providers (docs/device-notifications.md, "What goes to the providers").
package enum ProviderPayload {
  /// The size of a payload, in bytes.
  static let bytesMax = 4096
  /// The size of APNs' collapse id, in bytes.
  private static let collapseBytesMax = 64

  package static func message(_ job: NotificationJob) -> PushMessage {
    switch job.key.provider.service {
    case .apns:
      PushMessage(
        to: .apns(deviceToken: job.key.text),
        PushPayload(fitting(job.notification.text.value, copies: 1) { apns(job, text: $0, isShortened: $1) }),
        kind: .alert)
    case .fcm:
      PushMessage(
        to: .fcm(registrationToken: job.key.text),
        PushPayload(fitting(job.notification.text.value, copies: 2) { fcm(job, text: $0, isShortened: $1) }))
    }
  }

  /// The payload with the whole text, or else with the longest prefix with which it fits, cut between Unicode scalar
  /// values.
  /// - Parameters:
  ///   - copies: how often the payload holds the text.
  ///   - build: makes the payload of a text and whether it is shortened.
  private static func fitting(_ text: String, copies: Int, _ build: (String, Bool) -> [UInt8]) -> [UInt8] {
    let whole = build(text, false)
    guard whole.count > bytesMax else { return whole }
    var left = bytesMax - build("", true).count
    var prefix = ""
    for scalar in text.unicodeScalars {
      left -= copies * escapedBytes(scalar)
      guard left >= 0 else { break }
      prefix.unicodeScalars.append(scalar)
    }
    return build(prefix, true)
  }

  /// As `JSONWriter` writes it.
  private static func escapedBytes(_ scalar: Unicode.Scalar) -> Int {
    switch scalar {
    case "\"", "\\": 2
    case "\0"..<" ": 6
    default: UTF8.width(scalar)
    }
  }

  private static func apns(_ job: NotificationJob, text: String, isShortened: Bool) -> [UInt8] {
    var writer = JSONWriter(capacity: 128 + text.utf8.count)
    writer.beginObject()
    writer.key("aps")
    write(alert: text, to: &writer)
    writer.key("msgno")
    writer.string("\(job.number)")
    if isShortened {
      writer.key("truncated")
      writer.integer(1)
    }
    writer.endObject()
    return writer.bytes
  }

  private static func fcm(_ job: NotificationJob, text: String, isShortened: Bool) -> [UInt8] {
    var writer = JSONWriter(capacity: 512 + 2 * text.utf8.count)
    writer.beginObject()
    writer.key("message")
    writer.beginObject()
    writer.key("token")
    writer.string(job.key.text)
    writer.key("data")
    writer.beginObject()
    writer.key("msgno")
    writer.string("\(job.number)")
    writer.key("message")
    writer.string(text)
    if isShortened {
      writer.key("truncated")
      writer.string("1")
    }
    writer.endObject()
    writer.key("android")
    writeAndroid(job.notification, to: &writer)
    writer.key("apns")
    writer.beginObject()
    writeHeaders(job, to: &writer)
    writer.key("payload")
    writer.beginObject()
    writer.key("aps")
    write(alert: text, to: &writer)
    writer.endObject()
    writer.endObject()
    writer.endObject()
    writer.endObject()
    return writer.bytes
  }

  private static func write(alert text: String, to writer: inout JSONWriter) {
    writer.beginObject()
    writer.key("alert")
    writer.string(text)
    writer.key("mutable-content")
    writer.integer(1)
    writer.endObject()
  }

  private static func writeAndroid(_ notification: DeviceNotification, to writer: inout JSONWriter) {
    writer.beginObject()
    writer.key("priority")
    writer.string(notification.waitsWhileIdle ? "normal" : "high")
    if let collapseKey = notification.collapseKey {
      writer.key("collapse_key")
      writer.string(collapseKey)
    }
    if let seconds = notification.timeToLive {
      writer.key("ttl")
      writer.string("\(seconds)s")
    }
    if let packageName = notification.packageName {
      writer.key("restricted_package_name")
      writer.string(packageName)
    }
    writer.endObject()
  }

  /// Writes the headers for tokens on iOS, if there are any.
  private static func writeHeaders(_ job: NotificationJob, to writer: inout JSONWriter) {
    let collapseKey = job.notification.collapseKey.flatMap { $0.utf8.count <= collapseBytesMax ? $0 : nil }
    guard collapseKey != nil || job.notification.timeToLive != nil else { return }
    writer.key("headers")
    writer.beginObject()
    if let seconds = job.notification.timeToLive {
      // 0 is now or never.
      let end = seconds == 0 ? 0 : job.sent.adding(.seconds(seconds)).millis / 1000
      writer.key("apns-expiration")
      writer.string("\(end)")
    }
    if let collapseKey {
      writer.key("apns-collapse-id")
      writer.string(collapseKey)
    }
    writer.endObject()
  }
}
