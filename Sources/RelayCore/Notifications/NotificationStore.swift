/// Device notifications: accounts, groups, recipients, notifications and events, and the pushes that are to be made
/// (docs/device-notifications.md).
///
/// Notifications and events share one sequence of message numbers. A number becomes visible only after every smaller
/// one is: who has read all above n misses nothing. Texts are other people's.
package protocol NotificationStore: Sendable {
  // MARK: Accounts and groups

  /// - Returns: false, with nothing stored, when there is one of that name.
  func addNotificationAccount(_ account: NotificationAccount) async throws(StoreError) -> Bool
  /// The account of that name.
  /// - Parameter now: decides which period of the quota `used` counts.
  /// - Returns: nil when there is no such account.
  func notificationAccount(_ name: NotificationUser, now: Timestamp) async throws(StoreError) -> NotificationAccount?
  /// All, ascending by name.
  func notificationAccounts(now: Timestamp) async throws(StoreError) -> [NotificationAccount]
  /// - Returns: false when there is no such account.
  func changeNotificationAccount(_ name: NotificationUser, _ change: NotificationAccountChange, now: Timestamp)
    async throws(StoreError) -> Bool
  /// With all that it has; numbers of its recipients are given to nobody else. In small transactions, of which the
  /// first takes its right and the last the account: what was begun can be begun again.
  /// - Parameter progress: called with how many rows are gone so far.
  /// - Returns: false when there is no such account.
  func removeNotificationAccount(_ name: NotificationUser, progress: @Sendable (Int) -> Void)
    async throws(StoreError) -> Bool

  /// Adds an empty group. Nothing is stored when the account does not exist, or when its name or short name is a name
  /// or a short name of another group of the account.
  func addNotificationGroup(_ group: NotificationGroup, of account: NotificationUser) async throws(StoreError)
    -> GroupAddition
  /// Ascending by name.
  func notificationGroups(of account: NotificationUser) async throws(StoreError) -> [NotificationGroup]
  /// - Returns: false when there is no such group.
  func removeNotificationGroup(_ name: String, of account: NotificationUser) async throws(StoreError) -> Bool
  /// Removes first, then adds; members that are there, or are not, count as done.
  /// - Returns: false when there is no such group.
  func changeMembers(
    of group: String, of account: NotificationUser, adding added: [RecipientNumber], removing removed: [RecipientNumber]
  ) async throws(StoreError) -> Bool

  // MARK: Apps

  /// The recipient with `number`, if it belongs to that account.
  func recipient(_ number: RecipientNumber, of account: NotificationUser) async throws(StoreError)
    -> NotificationRecipient?
  /// A new recipient, active, with the event of its subscription: both or neither.
  /// - Parameter recipientsMax: how many an account may have, inactive ones too.
  func addRecipient(
    _ number: RecipientNumber, _ key: RecipientKey, of account: NotificationUser, subject: NotificationText,
    recipientsMax: Int64, now: Timestamp
  ) async throws(StoreError) -> RecipientAddition
  /// Replaces the key, makes the recipient active, and stores the event: all or nothing. Pushes that wait for it go to
  /// its new key, and once more to the former one where another of their recipients has that.
  /// - Returns: false when the account has no such recipient.
  func subscribe(
    _ number: RecipientNumber, _ key: RecipientKey, of account: NotificationUser, subject: NotificationText,
    now: Timestamp
  ) async throws(StoreError) -> Bool
  /// As `subscribe`; no event.
  func replaceKey(
    of number: RecipientNumber, by key: RecipientKey, of account: NotificationUser, now: Timestamp
  ) async throws(StoreError) -> KeyReplacement
  /// Stores the event of an active recipient, and makes it inactive where it is to be: both or neither. Does nothing
  /// for an inactive one.
  func unsubscribe(
    _ number: RecipientNumber, of account: NotificationUser, fromAll: Bool, subject: NotificationText, now: Timestamp
  ) async throws(StoreError)
  /// The notifications to the recipient with a number above `after`, sent at `since` or later, ascending, at most
  /// `limit`.
  func notifications(for recipient: RecipientNumber, after: Int64, since: Timestamp?, limit: Int)
    async throws(StoreError) -> [SentNotification]

  // MARK: Senders

  /// Resolves the addresses, stores the notification with its recipients, charges the account, and queues a push for
  /// each different key: all or, unless it was sent, nothing.
  /// - Parameters:
  ///   - recipientsMax: beyond it nothing is sent.
  ///   - now: the time of its arrival.
  ///   - due: the same by the clock of those who push, who wait for it.
  func send(
    _ notification: DeviceNotification, to addresses: [NotificationAddress], of account: NotificationUser,
    recipientsMax: Int, now: Timestamp, due: Timestamp
  ) async throws(StoreError) -> SendOutcome
  /// Events with a number above `after`, ascending, at most `limit`.
  func events(of account: NotificationUser, after: Int64, limit: Int) async throws(StoreError) -> [NotificationEvent]

  // MARK: Pushes

  /// Takes pushes that are due, oldest first, for `life` of the store's clock. No other worker gets them in that
  /// time; after it, they can be taken again. Pushes for inactive recipients are forgotten.
  /// - Parameter limit: 1 or more.
  func claimPushes(of service: NotificationService, limit: Int, for life: Duration, now: Timestamp)
    async throws(StoreError) -> [NotificationJob]
  /// Stores the outcomes of pushes, at once.
  func settlePushes(_ settlements: [PushSettlement]) async throws(StoreError)
  /// The key will never work: the push is given up. The recipient becomes inactive, with an event, if it still has
  /// that key and did not register it after `since`: all or nothing. Its waiting notifications go to another
  /// recipient with that key, if they are for that one too.
  /// - Returns: whether the recipient became inactive.
  func keyIsDead(_ job: NotificationJob, since: Timestamp?, now: Timestamp) async throws(StoreError) -> Bool
  /// The queues of every service; counted up to `NotificationLimits.countedMax`.
  func notificationQueues() async throws(StoreError) -> [NotificationQueue]

  // MARK: Event push

  /// Accounts with an event to be sent by now, at most `limit`, without `busy`; the one whose last turn is longest ago
  /// comes first.
  func eventTurns(limit: Int, without busy: [NotificationUser], now: Timestamp) async throws(StoreError) -> [EventTurn]
  /// Events up to `number` were sent, or given up.
  func eventWasPushed(_ number: Int64, of account: NotificationUser, now: Timestamp) async throws(StoreError)
  /// The next event behind `pushed` could not be sent for the `attempts`-th time. Does nothing when another one is
  /// next.
  func putOffEvents(
    of account: NotificationUser, after pushed: Int64, attempts: Int, until time: Timestamp
  ) async throws(StoreError)

  // MARK: Life

  /// Forgets notifications and events that were made before `time`, events too that were not sent yet, and pushes that
  /// were not to be tried any more at `end` and were left lying. A notification stays while there are pushes of it. In
  /// small transactions; safe on every process at once.
  func forgetNotifications(before time: Timestamp, pushesEndedBy end: Timestamp) async throws(StoreError)
  /// The next message number is above `number`, and above all that there are: for whoever comes from another system.
  func raiseMessageNumber(to number: Int64) async throws(StoreError)
}

extension NotificationStore {
  package func claimPushes(of service: NotificationService, limit: Int, now: Timestamp) async throws(StoreError)
    -> [NotificationJob]
  {
    try await claimPushes(of: service, limit: limit, for: NotificationLimits.claim, now: now)
  }
}

package enum NotificationLimits {
  /// How long a claim of a push holds.
  package static let claim = Duration.seconds(60)
  /// Pushes that wait are not counted beyond it.
  package static let countedMax = 100_000
  /// Recipients of an account, unless the configuration says otherwise.
  package static let recipientsMax: Int64 = 1_000_000
}
