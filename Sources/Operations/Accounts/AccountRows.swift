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
    let ids: [(String, Secret?)] = [
      ("fcm", device.gcmID), ("apns", device.apnID), ("voip", device.voipApnID), ("webpush", device.webPushID),
    ]
    push = ids.filter { $0.1 != nil }.map(\.0)
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
