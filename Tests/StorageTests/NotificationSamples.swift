// Accounts, recipients and notifications that the contract suite stores.

import RelayCore
import Storage
import TestSupport

extension Sample {
  static func user(_ name: String = "acme") throws -> NotificationUser { try found(NotificationUser(name)) }

  static func recipient(_ index: Int64) throws -> RecipientNumber { try found(RecipientNumber(2_000_000 + index)) }

  static func account(_ name: String = "acme") throws -> NotificationAccount {
    NotificationAccount(
      name: try user(name), password: PasswordHash(salt: [1, 2], hash: [3, 4]), created: noon)
  }

  static let fcm = RecipientKey(provider: .fcm, text: "token")
  static let apns = RecipientKey(provider: .apns, text: "00fcde")
  static let hello = DeviceNotification(text: NotificationText("Hello"))
  static let noText = NotificationText("")

  static func address(_ number: RecipientNumber) -> NotificationAddress { NotificationAddress(number.text) }
}

extension Store {
  /// An account with `count` active recipients of different keys.
  func addAccount(_ name: String = "acme", recipients count: Int64 = 0) async throws -> NotificationUser {
    guard try await storage.addNotificationAccount(try Sample.account(name)) else { throw StoreFixtureFailure() }
    let user = try Sample.user(name)
    for index in 0..<count {
      let addition = try await storage.addRecipient(
        try Sample.recipient(index + 1), RecipientKey(provider: .fcm, text: "token-\(index + 1)"), of: user,
        subject: Sample.noText, now: now)
      guard addition == .added else { throw StoreFixtureFailure() }
    }
    return user
  }

  func send(
    _ notification: DeviceNotification = Sample.hello, to words: [String], of user: NotificationUser,
    recipientsMax: Int = 10_000, due: Timestamp? = nil
  ) async throws -> SendOutcome {
    try await storage.send(
      notification, to: words.map { NotificationAddress($0) }, of: user, recipientsMax: recipientsMax, now: now,
      due: due ?? now)
  }

  /// - Returns: the message number.
  func sent(to words: [String], of user: NotificationUser) async throws -> Int64 {
    guard case .sent(let number, _) = try await send(to: words, of: user) else { throw StoreFixtureFailure() }
    return number
  }

  func claimed(_ service: NotificationService = .fcm, limit: Int = 100) async throws -> [NotificationJob] {
    try await storage.claimPushes(of: service, limit: limit, now: now)
  }

  func events(of user: NotificationUser, after: Int64 = 0) async throws -> [NotificationEvent] {
    try await storage.events(of: user, after: after, limit: 1000)
  }
}

struct StoreFixtureFailure: Error {}
