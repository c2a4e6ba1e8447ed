import OrderedCollections
package import RelayCore

/// The body of FCM's HTTP v1 request (reference 5.2).
package enum FCMMessage: Sendable, Equatable {
  case send([UInt8])
  case nothing
  case unusableDefault

  /// - Parameter options: the app's `fcm_options`, the base of the message; its `android` is an object where it has
  ///   one.
  package init(_ notification: PushNotification, device: NotifiedDevice, options: JSONObject, sendsCounts: Bool) {
    switch FCMData(notification, device: device, sendsCounts: sendsCounts, .flat) {
    case .unusableDefault: self = .unusableDefault
    case .nothing: self = .nothing
    case .data(let data):
      var message = options
      message["data"] = .object(data)
      var android = options["android"]?.object ?? [:]
      android["priority"] = .text(notification.fcmPriority)
      message["android"] = .object(android)
      message["token"] = .text(device.pushKey)
      self = .send(JSONValue.object(["message": .object(message)]).bytes(.compact))
    }
  }
}

/// The `data` of an FCM message (reference 5.3, the current dialect with its defects 1, 2 and 19 put right): the
/// service takes texts alone, so numbers and booleans of the default payload are written as texts, and all else of it
/// is left out.
enum FCMData: Sendable, Equatable {
  case data(JSONObject)
  /// Neither event, room nor counts: the push is served by sending nothing.
  case nothing
  /// The device's default payload is no object.
  case unusableDefault

  enum Dialect: Sendable {
    /// HTTP v1: one level, counts as text, long texts cut.
    case flat
    /// Legacy: content stays an object, counts are numbers (reference 6).
    case nested
  }

  init(_ notification: PushNotification, device: NotifiedDevice, sendsCounts: Bool, _ dialect: Dialect) {
    var data: JSONObject = [:]
    switch device.defaultPayload {
    case .unusable:
      self = .unusableDefault
      return
    case .given(let object): data = dialect == .flat ? object.compactMapValues(\.asText) : object
    case .absent: break
    }
    let counts = sendsCounts ? notification.counts : NotificationCounts()
    guard notification.eventID.unlessEmpty != nil || notification.roomID.unlessEmpty != nil || !counts.isAbsent else {
      self = .nothing
      return
    }
    for (name, text) in notification.textsForFCM {
      guard let text else { continue }
      data[name] = .text(FCMText.shortened(text))
    }
    if let content = notification.content { Self.set(content, in: &data, dialect) }
    data["prio"] = .text(notification.fcmPriority)
    if let unread = counts.unread { data["unread"] = Self.count(unread, dialect) }
    if let missed = counts.missedCalls { data["missed_calls"] = Self.count(missed, dialect) }
    self = .data(data)
  }

  private static func set(_ content: JSONObject, in data: inout JSONObject, _ dialect: Dialect) {
    switch dialect {
    case .nested: data["content"] = .object(content)
    case .flat:
      data["content"] = nil
      // FCM takes texts alone: members of other types are lost.
      for case (let name, .text(let text)) in content {
        data[JSONName("content_" + name.text)] = .text(FCMText.shortened(text))
      }
    }
  }

  private static func count(_ count: Int64, _ dialect: Dialect) -> JSONValue {
    dialect == .flat ? .text(String(count)) : .integer(count)
  }
}

extension PushNotification {
  fileprivate var textsForFCM: [(JSONName, String?)] {
    [
      ("event_id", eventID), ("type", type), ("sender", sender), ("room_name", roomName), ("room_alias", roomAlias),
      ("membership", membership), ("sender_display_name", senderDisplayName), ("room_id", roomID),
    ]
  }

  /// FCM's word.
  var fcmPriority: String { isLowPriority ? "normal" : "high" }
}

extension JSONValue {
  /// A text, or a number or boolean as JSON writes it; nil for anything else.
  fileprivate var asText: JSONValue? {
    switch self {
    case .text: self
    case .number(let digits): .text(digits)
    case .boolean(let value): .text(value ? "true" : "false")
    case .null, .list, .object: nil
    }
  }
}

/// Shortening of FCM's texts (reference 5.4).
package enum FCMText {
  package static let bytesMax = 1024

  /// `text`, or, where it has more than `bytesMax` bytes of UTF-8, its longest beginning with which `…` has that many.
  package static func shortened(_ text: String, bytesMax: Int = bytesMax) -> String {
    guard text.utf8.count > bytesMax else { return text }
    let mark = "…"
    let utf8 = Array(text.utf8.prefix(max(0, bytesMax - mark.utf8.count) + 1))
    var end = utf8.count - 1
    // The byte behind the end must begin a character.
    while end > 0, utf8[end] & 0xC0 == 0x80 { end -= 1 }
    return String(decoding: utf8.prefix(end), as: UTF8.self) + mark
  }
}
