/// An event that an account's server is told of.
package enum EventAction: Int16, Sendable, CaseIterable {
  case subscribed = 1
  case unsubscribed = 2
  case unsubscribedAll = 3

  /// As the wire calls it.
  package var word: String {
    switch self {
    case .subscribed: "ACTION_SUB"
    case .unsubscribed: "ACTION_UNSUB"
    case .unsubscribedAll: "ACTION_UNSUB_ALL"
    }
  }
}

package struct NotificationEvent: Sendable, Equatable {
  /// The message number.
  package let number: Int64
  package let created: Timestamp
  package let action: EventAction
  package let recipient: RecipientNumber
  /// Made because the provider says that the key is dead; no app asked for it.
  package let isOurs: Bool
  package let subject: NotificationText

  package init(
    number: Int64, created: Timestamp, action: EventAction, recipient: RecipientNumber, isOurs: Bool,
    subject: NotificationText
  ) {
    self.number = number
    self.created = created
    self.action = action
    self.recipient = recipient
    self.isOurs = isOurs
    self.subject = subject
  }

  /// The subject of an event that no app asked for.
  package static func ownSubject(_ recipient: RecipientNumber) -> NotificationText {
    NotificationText("unsub \(recipient.text)")
  }
}

/// An account whose next event is to be sent now.
package struct EventTurn: Sendable, Equatable {
  package let account: NotificationUser
  package let target: EventTarget
  /// The last event that was sent, or given up.
  package let pushed: Int64
  /// How often the next one was tried in vain.
  package let attempts: Int
  package init(account: NotificationUser, target: EventTarget, pushed: Int64, attempts: Int) {
    self.account = account
    self.target = target
    self.pushed = pushed
    self.attempts = attempts
  }
}
