package import RelayCore

/// An account in a list.
package struct AccountRow: Encodable, Sendable {
  package let handle: String
  package let number: String
  package let isActive: Bool
  /// Whether look-ups find it.
  package let isFound: Bool
  package let devices: Int
  /// The last day on which one of its devices was seen.
  package let seen: String?

  init(_ summary: AccountSummary, _ handle: AccountHandle) {
    self.handle = handle.text
    number = summary.number.e164
    isActive = summary.isActive
    isFound = summary.isActive && summary.isDiscoverable
    devices = summary.devices
    seen = summary.lastSeen?.date
  }
}

/// One account, without its number: whoever asks knows it.
package struct AccountDetails: Encodable, Sendable {
  package let handle: String
  package let isActive: Bool
  package let isFound: Bool
  package let seen: String?
  package let hasRegistrationLock: Bool
  package let hasIdentityKey: Bool
  package let devices: [DeviceRow]
}

/// One device of an account.
package struct DeviceRow: Encodable, Sendable {
  package let id: Int
  package let isActive: Bool
  /// How it can be woken: `fcm`, `apns`, `voip`, `webpush`; none where it only fetches.
  package let push: [String]
  package let fetches: Bool
  package let seen: String
  package let created: String
  package let waiting: Int
  package let waitingBytes: Int
  package let preKeys: Int
  package let hasSignedPreKey: Bool

  init(_ device: Device, _ holdings: DeviceHoldings?, at now: Timestamp) {
    id = Int(device.id.value)
    isActive = device.isActive(at: now)
    push = PushIDKind.allCases.filter { device.pushIDs[$0] != nil }.map(\.word)
    fetches = device.fetchesMessages
    seen = device.lastSeen.date
    created = device.created.date
    waiting = holdings?.waiting ?? 0
    waitingBytes = holdings?.waitingBytes ?? 0
    preKeys = holdings?.oneTimePreKeys ?? 0
    hasSignedPreKey = device.hasSignedPreKey
  }
}

/// How many accounts and devices there are.
package struct CountsRow: Encodable, Sendable {
  package let accounts: Int
  package let active: Int
  /// Accounts that look-ups find.
  package let found: Int
  package let devices: Int
  /// Numbers that may have no account.
  package let banned: Int
}

/// Counts of the rows and blobs that went with an account.
package struct RemovalRow: Encodable, Sendable {
  package let devices: Int
  package let waiting: Int
  package let preKeys: Int
  package let acknowledged: Int
  package let codes: Int
  package let attachments: Int

  package init(_ removal: AccountRemoval) {
    devices = removal.devices
    waiting = removal.waiting
    preKeys = removal.oneTimePreKeys
    acknowledged = removal.acknowledged
    codes = removal.codes
    attachments = removal.attachments
  }
}

/// The result of a ban, and of its end.
package struct BanRow: Encodable, Sendable {
  package let banned: Bool
  /// The rows and blobs that went with the account; nil where there was none.
  package let deleted: RemovalRow?
  package init(banned: Bool, deleted: RemovalRow?) {
    self.banned = banned
    self.deleted = deleted
  }
}

/// The accounts that sent most through one process.
package struct RankedSendersRow: Codable, Sendable {
  package struct Sender: Codable, Sendable {
    package let handle: String
    /// One for each device that they were for.
    package let messages: Int
  }
  /// How long the counts were made.
  package let seconds: Double
  /// The first sent most.
  package let senders: [Sender]
}

/// A list of what went with an account and what stays, for the person or court that demanded the deletion.
package struct RemovalReceipt: Encodable, Sendable {
  let number: String
  let handle: String
  let time: String
  let deleted: RemovalRow?
  let kept: [String]

  /// - Parameter deleted: nil where there was no account.
  package init(_ number: AccountNumber, _ handle: AccountHandle, _ deleted: RemovalRow?, at now: Timestamp) {
    self.number = number.e164
    self.handle = handle.text
    time = now.iso8601
    self.deleted = deleted
    kept = Self.kept
  }

  private static let kept = [
    "messages that the account has sent, in their recipients' mailboxes and on their way to peers, until they are fetched or "
      + "end",
    "the first ten bytes of the number's SHA-1, for 30 days, by which peers are told that it is not here any more",
    "the number under a key of this relay, in the audit log, for \(AuditLife.days) days",
    "backups, until they are replaced",
  ]
}
