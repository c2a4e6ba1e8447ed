import OrderedCollections
package import RelayCore

/// The body of FCM's HTTP v1 request (reference 5.2).
package enum FCMMessage: Sendable, Equatable {
  case send([UInt8])
  case nothing
  case unusableDefault
  /// The device's default payload alone is more than the service takes.
  case tooLarge

  /// - Parameter options: the app's `fcm_options`, the base of the message; its `android` is an object where it has
  ///   one.
  package init(_ notification: PushNotification, device: NotifiedDevice, options: JSONObject, sendsCounts: Bool) {
    let room = Self.room(beside: options)
    switch FCMData(notification, device: device, sendsCounts: sendsCounts, fittedTo: room) {
    case .unusableDefault: self = .unusableDefault
    case .nothing: self = .nothing
    case .data(let data) where data.textBytes > room: self = .tooLarge
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

  /// The bytes that the service leaves to `data`: a notification that all messages show counts too.
  private static func room(beside options: JSONObject) -> Int {
    let shown = options["notification"].map { $0.bytes(.compact).count } ?? 0
    return max(FCMText.messageBytesMax - shown, FCMText.bytesMax)
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

  /// The data of the flat dialect, with the event's texts cut further where it has more than `bytesMax` bytes, and at
  /// last without the event's content. The service refuses a message that is too large, and anybody who may send an
  /// event decides how much content it has: the homeserver would repeat it for a day, and hold all later ones behind
  /// it.
  ///
  /// It is larger where nothing helps: what the device itself has asked for is not cut.
  init(_ notification: PushNotification, device: NotifiedDevice, sendsCounts: Bool, fittedTo bytesMax: Int) {
    var bare = notification
    bare.content = nil
    let tries = [(notification, FCMText.bytesMax), (notification, 512), (notification, 256), (bare, 256)]
    self = .nothing
    for (notification, textMax) in tries {
      self = FCMData(notification, device: device, sendsCounts: sendsCounts, .flat, textBytesMax: textMax)
      guard case .data(let data) = self, data.textBytes > bytesMax else { return }
    }
  }

  init(
    _ notification: PushNotification, device: NotifiedDevice, sendsCounts: Bool, _ dialect: Dialect,
    textBytesMax: Int = FCMText.bytesMax
  ) {
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
      data[name] = .text(FCMText.shortened(text, bytesMax: textBytesMax))
    }
    if let content = notification.content { Self.set(content, in: &data, dialect, textBytesMax) }
    data["prio"] = .text(notification.fcmPriority)
    if let unread = counts.unread { data["unread"] = Self.count(unread, dialect) }
    if let missed = counts.missedCalls { data["missed_calls"] = Self.count(missed, dialect) }
    self = .data(data)
  }

  private static func set(
    _ content: JSONObject, in data: inout JSONObject, _ dialect: Dialect, _ textBytesMax: Int
  ) {
    switch dialect {
    case .nested: data["content"] = .object(content)
    case .flat:
      data["content"] = nil
      // FCM takes texts alone: members of other types are lost.
      for case (let name, .text(let text)) in content {
        data[JSONName("content_" + name.text)] = .text(FCMText.shortened(text, bytesMax: textBytesMax))
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

extension JSONObject {
  /// The bytes of all names and texts.
  fileprivate var textBytes: Int {
    reduce(0) { $0 + $1.key.text.utf8.count + ($1.value.text?.utf8.count ?? 0) }
  }
}

/// Shortening of FCM's texts (reference 5.4).
package enum FCMText {
  package static let bytesMax = 1024
  /// FCM's "message payload" of data messages, in bytes.
  package static let messageBytesMax = 4096

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
