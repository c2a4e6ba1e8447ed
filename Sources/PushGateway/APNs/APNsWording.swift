import OrderedCollections
import RelayCore

/// The words of an alert: a key of the app's own translations, and what is put into them (reference 4.5, steps 1 to 3).
struct APNsWording: Sendable, Equatable {
  let key: String
  let arguments: [String]

  /// Unicode scalar values that names are cut to.
  private static let nameLengthMax = 1024

  private init(_ key: String, _ arguments: [String]) {
    self.key = key
    self.arguments = arguments
  }

  /// - Returns: nil where the event has no words.
  init?(_ notification: PushNotification) {
    let from = Self.cut(Self.from(notification))
    switch notification.type.unlessEmpty {
    case nil: return nil
    case "m.room.message", "m.room.encrypted":
      let room = (notification.roomName.unlessEmpty ?? notification.roomAlias.unlessEmpty).map(Self.cut)
      self = Self.message(from: from, room: room, MessageBody(notification.content))
    case "m.call.invite":
      let isVideo = Self.sessionDescription(notification.content)?.contains("m=video") ?? false
      self.init(isVideo ? "VIDEO_CALL_FROM_USER" : "VOICE_CALL_FROM_USER", [from])
    case "m.room.member":
      guard notification.userIsTarget, notification.membership == "invite" else { return nil }
      let room = (notification.roomName.unlessEmpty ?? notification.roomAlias.unlessEmpty).map(Self.cut)
      if let room {
        self.init("USER_INVITE_TO_NAMED_ROOM", [from, room])
      } else {
        self.init("USER_INVITE_TO_CHAT", [from])
      }
    default: self.init("MSG_FROM_USER", [from])
    }
  }

  /// The order of the arguments is the reference's, that of an action in a room included.
  private static func message(from: String, room: String?, _ body: MessageBody) -> APNsWording {
    switch (room, body) {
    case (let room?, .image(let text)): APNsWording("IMAGE_FROM_USER_IN_ROOM", [from, text, room])
    case (let room?, .text(let text)): APNsWording("MSG_FROM_USER_IN_ROOM_WITH_CONTENT", [from, room, text])
    case (let room?, .action(let text)): APNsWording("ACTION_FROM_USER_IN_ROOM", [room, from, text])
    case (let room?, .none): APNsWording("MSG_FROM_USER_IN_ROOM", [from, room])
    case (nil, .image(let text)): APNsWording("IMAGE_FROM_USER", [from, text])
    case (nil, .text(let text)): APNsWording("MSG_FROM_USER_WITH_CONTENT", [from, text])
    case (nil, .action(let text)): APNsWording("ACTION_FROM_USER", [from, text])
    case (nil, .none): APNsWording("MSG_FROM_USER", [from])
    }
  }

  /// One space where nobody is named; an empty display name counts as one.
  private static func from(_ notification: PushNotification) -> String {
    if notification.sender.unlessEmpty == nil, notification.senderDisplayName.unlessEmpty == nil { return " " }
    return notification.senderDisplayName ?? notification.sender ?? " "
  }

  private static func cut(_ name: String) -> String {
    guard name.utf8.count > nameLengthMax else { return name }
    return String(String.UnicodeScalarView(name.unicodeScalars.prefix(nameLengthMax)))
  }

  private static func sessionDescription(_ content: JSONObject?) -> String? {
    content?["offer"]?.object?["sdp"]?.text
  }
}

/// The content of a message, as far as alerts know it.
private enum MessageBody {
  case none
  case text(String)
  case action(String)
  case image(String)

  init(_ content: JSONObject?) {
    guard let content, let kind = content["msgtype"], let body = content["body"]?.text, !body.isEmpty else {
      self = .none
      return
    }
    switch kind.text {
    case "m.emote": self = .action(body)
    case "m.image": self = .image(body)
    default: self = .text(body)
    }
  }
}
