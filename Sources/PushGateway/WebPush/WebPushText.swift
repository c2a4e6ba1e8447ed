import OrderedCollections
import RelayCore

/// The text of a notification for a WebPush subscriber, before it is encrypted (reference 7.3, shortened by bytes).
package enum WebPushText {
  /// The bytes that fit one encrypted record of 4,096 bytes (reference 7.4).
  package static let bytesMax = 3993

  /// Characters at which the reference cuts, and drops, texts of the content.
  private static let bodyLengthMax = 1000
  private static let ciphertextLengthMax = 2000

  /// - Parameter bytesMax: at least room for the ids.
  /// - Returns: JSON of at most `bytesMax` bytes; nil where it cannot be made to fit.
  package static func text(
    _ notification: PushNotification, device: NotifiedDevice, bytesMax: Int = bytesMax
  ) -> [UInt8]? {
    var message: JSONObject = if case .given(let object) = device.defaultPayload { object } else { [:] }
    for (name, text) in notification.textsForWebPush {
      if let text = text.unlessEmpty { message[name] = .text(text) }
    }
    if notification.userIsTarget { message["user_is_target"] = .boolean(true) }
    if let unread = notification.counts.unread { message["unread"] = .integer(unread) }
    if let missed = notification.counts.missedCalls { message["missed_calls"] = .integer(missed) }
    if let content = notification.content, !content.isEmpty { message["content"] = .object(cut(content)) }
    return fitted(message, bytesMax)
  }

  /// The least that is of use: what the client gave for its own, the ids and the counts.
  /// - Returns: nil where that is too large too.
  package static func brief(_ notification: PushNotification, _ device: NotifiedDevice) -> [UInt8]? {
    var brief = PushNotification()
    (brief.eventID, brief.roomID, brief.counts) = (notification.eventID, notification.roomID, notification.counts)
    return text(brief, device: device)
  }

  /// As the reference cuts it, by characters.
  private static func cut(_ content: JSONObject) -> JSONObject {
    var content = content
    content["formatted_body"] = nil
    if let body = content["body"]?.text, let cut = prefix(of: body, ifLongerThan: bodyLengthMax) {
      content["body"] = .text(cut + "…")
    }
    if let text = content["ciphertext"]?.text, prefix(of: text, ifLongerThan: ciphertextLengthMax) != nil {
      content["ciphertext"] = nil
    }
    return content
  }

  /// - Returns: `length - 1` characters; nil when there are no more than `length`.
  private static func prefix(of text: String, ifLongerThan length: Int) -> String? {
    let scalars = text.unicodeScalars
    guard text.utf8.count > length,
      scalars.index(scalars.startIndex, offsetBy: length, limitedBy: scalars.endIndex)
        .map({ $0 < scalars.endIndex }) ?? false
    else { return nil }
    return String(String.UnicodeScalarView(scalars.prefix(length - 1)))
  }

  // MARK: Bytes

  /// Takes away what can be missed until the rest fits: of the body what is too much, then the ciphertext, then all of
  /// the content, then the names.
  private static func fitted(_ message: JSONObject, _ bytesMax: Int) -> [UInt8]? {
    var message = message
    var bytes = JSONValue.object(message).bytes(.compact)
    guard bytes.count > bytesMax else { return bytes }
    if case .object(var content)? = message["content"] {
      if let body = content["body"]?.text {
        content["body"] = .text(shortened(body, cutting: bytes.count - bytesMax))
        message["content"] = .object(content)
        bytes = JSONValue.object(message).bytes(.compact)
        if bytes.count <= bytesMax { return bytes }
      }
      content["ciphertext"] = nil
      message["content"] = .object(content)
      bytes = JSONValue.object(message).bytes(.compact)
      if bytes.count <= bytesMax { return bytes }
    }
    for name: JSONName in ["content", "room_alias", "room_name", "sender_display_name"] {
      message[name] = nil
      bytes = JSONValue.object(message).bytes(.compact)
      if bytes.count <= bytesMax { return bytes }
    }
    return nil
  }

  /// - Parameter excess: bytes of JSON by which the result is to be shorter; empty where it cannot be.
  private static func shortened(_ body: String, cutting excess: Int) -> String {
    let text = Array((body.hasSuffix("…") ? String(body.dropLast()) : body).utf8)
    // The mark takes three bytes, unless one was there.
    var excess = excess + (body.hasSuffix("…") ? 0 : 3)
    var length = text.count
    while excess > 0, length > 0 {
      repeat {
        length -= 1
        excess -= JSONEscape(text[length]).length
      } while length > 0 && text[length] & 0xC0 == 0x80
    }
    return length == 0 ? "" : String(decoding: text.prefix(length), as: UTF8.self) + "…"
  }
}

extension PushNotification {
  fileprivate var textsForWebPush: [(JSONName, String?)] {
    [
      ("room_id", roomID), ("room_name", roomName), ("room_alias", roomAlias), ("membership", membership),
      ("event_id", eventID), ("sender", sender), ("sender_display_name", senderDisplayName), ("type", type),
    ]
  }
}
