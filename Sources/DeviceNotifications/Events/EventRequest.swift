package import RelayCore

/// The request that tells an account's server of an event.
package struct EventRequest: Sendable, Equatable {
  package let url: String
  /// nil: everything stands in the URL, and the request is a GET.
  package let form: String?

  package init(_ event: NotificationEvent, of account: NotificationUser, to target: EventTarget) {
    var writer = FormWriter()
    writer.add("messageType", EventWords.type)
    writer.add("msgNo", "\(event.number)")
    writer.add("createTime", MessageTimes.minute(event.created))
    writer.add("creatorName", account.text)
    writer.add("initialId", event.action.word)
    writer.add("originatorText", event.recipient.text)
    writer.add("destination", EventWords.destination(of: event))
    writer.add("subject", event.subject.value)
    switch target.method {
    case .post: (url, form) = (target.url, writer.text)
    case .get: (url, form) = (target.url + (target.url.contains("?") ? "&" : "?") + writer.text, nil)
    }
  }
}

/// When an event is tried again, and when it is given up.
enum EventSchedule {
  static let patience = Duration.seconds(3 * 86_400)

  /// - Parameter attempts: in vain, 1 or more.
  /// - Returns: nil when there were enough.
  static func pause(after attempts: Int) -> Duration? {
    attempts >= attemptsMax ? nil : RetryPause.after(attempts)
  }

  /// The number of attempts whose pauses together reach `patience`.
  static let attemptsMax: Int = {
    var (attempts, waited) = (1, Duration.zero)
    while waited < patience {
      waited += RetryPause.after(attempts)
      attempts += 1
    }
    return attempts
  }()
}
