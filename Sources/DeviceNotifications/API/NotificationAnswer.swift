package import RelayCore

/// The answer of a method that was served.
package enum NotificationAnswer: Sendable {
  case recipient(RecipientNumber, isReactivated: Bool)
  case sent(Int64)
  case notifications([SentNotification], isWashed: Bool)
  case events([NotificationEvent], of: NotificationUser, isWashed: Bool)
}

/// The two forms of an answer: lines of text, or the same fields in JSON.
enum AnswerForm: Sendable {
  case lines
  case json

  func write(_ answer: NotificationAnswer) -> [UInt8] {
    switch self {
    case .lines: Self.lines(answer)
    case .json: Self.json(answer)
    }
  }

  func write(_ code: NotificationCode) -> [UInt8] {
    switch self {
    case .lines: return Array("N\n\(code.rawValue)\n".utf8)
    case .json:
      var writer = JSONWriter()
      writer.beginObject()
      writer.key("result")
      writer.string("N")
      writer.key("errno")
      writer.integer(code.rawValue)
      writer.key("error")
      writer.string(code.text)
      writer.endObject()
      return writer.bytes
    }
  }

  private static func lines(_ answer: NotificationAnswer) -> [UInt8] {
    var text = "A\n"
    switch answer {
    case .recipient(let number, let isReactivated):
      text += number.text + "\n"
      if isReactivated { text += "reactivated\n" }
    case .sent(let number): text += "\(number)\n"
    case .notifications(let notifications, let isWashed):
      for notification in notifications {
        let content = isWashed ? washed(notification.text.value) : notification.text.value
        text += "\(notification.number)\t\(MessageTimes.compact(notification.sent))\t\(content)\n"
      }
    case .events(let events, let account, let isWashed):
      for event in events {
        let subject = isWashed ? washed(event.subject.value) : event.subject.value
        let fields = [
          "\(event.number)", MessageTimes.minute(event.created), account.text, event.action.word, EventWords.type,
          "null", event.recipient.text, subject, subject,
        ]
        text += ";;" + fields.joined(separator: "\t") + "\n"
      }
    }
    return Array(text.utf8)
  }

  private static func json(_ answer: NotificationAnswer) -> [UInt8] {
    var writer = JSONWriter()
    writer.beginObject()
    writer.key("result")
    writer.string("A")
    switch answer {
    case .recipient(let number, let isReactivated):
      writer.key("recipientid")
      writer.string(number.text)
      if isReactivated {
        writer.key("message")
        writer.string("reactivated")
      }
    case .sent(let number):
      writer.key("msgno")
      writer.string("\(number)")
    case .notifications(let notifications, _):
      writer.key("notifications")
      writer.beginArray()
      for notification in notifications {
        writer.beginObject()
        writer.key("msgno")
        writer.string("\(notification.number)")
        writer.key("sent")
        writer.string(MessageTimes.compact(notification.sent))
        writer.key("content")
        writer.string(notification.text.value)
        writer.endObject()
      }
      writer.endArray()
    case .events(let events, let account, _):
      writer.key("events")
      writer.beginArray()
      for event in events { write(event, of: account, to: &writer) }
      writer.endArray()
    }
    writer.endObject()
    return writer.bytes
  }

  private static func write(_ event: NotificationEvent, of account: NotificationUser, to writer: inout JSONWriter) {
    writer.beginObject()
    writer.key("msgno")
    writer.string("\(event.number)")
    writer.key("received")
    writer.string(MessageTimes.minute(event.created))
    writer.key("user")
    writer.string(account.text)
    writer.key("action")
    writer.string(event.action.word)
    writer.key("recipientid")
    writer.string(event.recipient.text)
    writer.key("subject")
    writer.string(event.subject.value)
    writer.endObject()
  }
}

/// Words of events on the wire.
enum EventWords {
  static let type = "DPN"
  static let base = "/external/notifications"

  /// The path of the app's request; empty where no app asked.
  static func destination(of event: NotificationEvent) -> String {
    guard !event.isOurs else { return "" }
    return switch event.action {
    case .subscribed: base + "/subscribe"
    case .unsubscribed: base + "/unsubscribe"
    case .unsubscribedAll: base + "/unsubscribeall"
    }
  }
}
