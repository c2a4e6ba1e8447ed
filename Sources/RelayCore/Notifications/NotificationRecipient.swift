/// The word by which an app says whose key it has (`spid`).
package enum NotificationProvider: String, Sendable, CaseIterable {
  case apns
  /// Historic: served as `fcm`.
  case gcm
  case fcm

  package var service: NotificationService { self == .apns ? .apns : .fcm }
}

/// Who delivers.
package enum NotificationService: String, Sendable, CaseIterable { case apns, fcm }

/// The key by which the app is reached; its provider gave it to the app.
package struct RecipientKey: Sensitive, Sendable, Hashable {
  package static let kind: StaticString = "recipient key"
  package let provider: NotificationProvider
  /// ASCII.
  package let text: String
  package init(provider: NotificationProvider, text: String) {
    self.provider = provider
    self.text = text
  }
}

/// One app on one device, of one account.
package struct NotificationRecipient: Sendable, Equatable {
  package let number: RecipientNumber
  package let key: RecipientKey
  package let isActive: Bool
  package let created: Timestamp
  package let changed: Timestamp
  package init(
    number: RecipientNumber, key: RecipientKey, isActive: Bool, created: Timestamp, changed: Timestamp
  ) {
    self.number = number
    self.key = key
    self.isActive = isActive
    self.created = created
    self.changed = changed
  }
}

package enum RecipientAddition: Sendable, Equatable {
  case added
  /// By whatever account, now or ever.
  case numberTaken
  /// Or it has no right to register.
  case unknownAccount
  /// It has as many as it may.
  case accountFull
}

package enum KeyReplacement: Sendable, Equatable {
  case replaced
  case reactivated
  case unknownRecipient
}
