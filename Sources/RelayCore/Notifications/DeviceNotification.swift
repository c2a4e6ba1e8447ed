/// A text of other people's: never logged.
package struct NotificationText: Sensitive, Sendable, Hashable {
  package static let kind: StaticString = "notification text"
  package let value: String
  package init(_ value: String) { self.value = value }
}

/// A notification that an account sends to recipients.
package struct DeviceNotification: Sensitive, Sendable, Equatable {
  package static let kind: StaticString = "device notification"
  package let text: NotificationText
  /// The rest concerns Google's service alone.
  package let waitsWhileIdle: Bool
  package let collapseKey: String?
  /// Whole seconds; nil: none was given.
  package let timeToLive: Int64?
  package let packageName: String?

  package init(
    text: NotificationText, waitsWhileIdle: Bool = false, collapseKey: String? = nil, timeToLive: Int64? = nil,
    packageName: String? = nil
  ) {
    self.text = text
    self.waitsWhileIdle = waitsWhileIdle
    self.collapseKey = collapseKey
    self.timeToLive = timeToLive
    self.packageName = packageName
  }

  /// How long a push is tried again where no time was given.
  package static let usualLife = Duration.seconds(3600)
  /// How long a push is tried again.
  package var life: Duration { timeToLive.map { .seconds($0) } ?? Self.usualLife }
}

/// A notification as its recipient fetches it.
package struct SentNotification: Sendable, Equatable {
  package let number: Int64
  package let sent: Timestamp
  package let text: NotificationText
  package init(number: Int64, sent: Timestamp, text: NotificationText) {
    self.number = number
    self.sent = sent
    self.text = text
  }
}

/// One word of the list that a notification is addressed to: a recipient's number, a group's name or its short name.
package struct NotificationAddress: Sensitive, Sendable, Hashable {
  package static let kind: StaticString = "notification address"
  /// As `NotificationGroup.key` makes it.
  package let nameKey: String
  package let number: RecipientNumber?
  package init(_ word: some StringProtocol) {
    nameKey = NotificationGroup.key(word)
    number = RecipientNumber(text: word)
  }
}

package enum SendOutcome: Sendable, Equatable {
  /// - Parameters:
  ///   - number: the message number.
  ///   - recipients: how many.
  case sent(number: Int64, recipients: Int)
  /// The account is gone, or has no right.
  case denied
  case noRecipients
  case tooManyRecipients
  case quotaExceeded
  case notEnoughCredits
}

/// A push that is to be made, or tried again, claimed for a while.
package struct NotificationJob: Sendable, Equatable {
  package let id: Int64
  /// 1 for the first.
  package let attempt: Int
  /// Not tried again from then on.
  package let expires: Timestamp
  package let recipient: RecipientNumber
  /// The one that the recipient has now.
  package let key: RecipientKey
  /// The message number.
  package let number: Int64
  package let sent: Timestamp
  package let notification: DeviceNotification

  package init(
    id: Int64, attempt: Int, expires: Timestamp, recipient: RecipientNumber, key: RecipientKey, number: Int64,
    sent: Timestamp, notification: DeviceNotification
  ) {
    self.id = id
    self.attempt = attempt
    self.expires = expires
    self.recipient = recipient
    self.key = key
    self.number = number
    self.sent = sent
    self.notification = notification
  }
}

/// The outcome of a push.
package struct PushSettlement: Sendable {
  package enum Outcome: Sendable {
    /// Made, or given up.
    case finished
    /// Due again at a time, unless somebody else has taken it since; `isCounted` where there was an attempt.
    case putOff(until: Timestamp, isCounted: Bool)
  }
  package let job: NotificationJob
  package let outcome: Outcome
  package init(_ job: NotificationJob, _ outcome: Outcome) {
    self.job = job
    self.outcome = outcome
  }
}

package struct NotificationQueue: Sendable, Equatable {
  package let service: NotificationService
  /// Pushes that are to be made or tried again; not counted beyond `NotificationLimits.countedMax`.
  package let waiting: Int
  /// The time of the notification that has waited for longest.
  package let oldest: Timestamp?
  package init(service: NotificationService, waiting: Int, oldest: Timestamp?) {
    self.service = service
    self.waiting = waiting
    self.oldest = oldest
  }
}
