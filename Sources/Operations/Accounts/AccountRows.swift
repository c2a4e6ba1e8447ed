import RelayCore

/// An account in a list.
struct AccountRow: Encodable {
  let number: String
  let isActive: Bool
  /// Whether look-ups find it.
  let isFound: Bool
  let devices: Int
  /// The last day on which one of its devices was seen.
  let seen: String?

  var state: String { isActive ? "active" : "inactive" }

  init(_ summary: AccountSummary) {
    number = summary.number.e164
    isActive = summary.isActive
    isFound = summary.isActive && summary.isDiscoverable
    devices = summary.devices
    seen = summary.lastSeen?.day
  }
}

/// One account, without its number: whoever asks knows it.
struct AccountDetails: Encodable {
  let isActive: Bool
  let isFound: Bool
  let seen: String?
  let hasRegistrationLock: Bool
  let hasIdentityKey: Bool
  let devices: [DeviceRow]

  var state: String { isActive ? "active" : "inactive" }

  /// - Throws: `CommandFailure` where there is no such account.
  init(of number: AccountNumber, in storage: any Storage) async throws {
    guard let account = try await storage.account(number),
      let summary = try await storage.accountSummaries(after: number.before, limit: 1).first, summary.number == number
    else { throw CommandFailure("There is no such account here. `relay directory owner` says which peer claims it.") }
    let row = AccountRow(summary)
    (isActive, isFound, seen) = (row.isActive, row.isFound, row.seen)
    hasRegistrationLock = account.registrationLock != nil
    hasIdentityKey = account.identityKey != nil
    let holdings = try await storage.deviceHoldings(of: number)
    let now = Timestamp.now
    devices = account.devices.map { device in
      DeviceRow(device, holdings.first { $0.device == device.id }, at: now)
    }
  }
}

/// One device of an account.
struct DeviceRow: Encodable {
  let id: Int
  let isActive: Bool
  /// How it can be woken: `fcm`, `apns`, `voip`, `webpush`; none where it only fetches.
  let push: [String]
  let fetches: Bool
  let seen: String
  let created: String
  let waiting: Int
  let waitingBytes: Int
  let preKeys: Int
  let hasSignedPreKey: Bool

  static let head = [
    ["DEVICE", "STATE", "PUSH", "SEEN", "SINCE", "WAITING", "BYTES", "PREKEYS", "SIGNED PREKEY"]
  ]

  var cells: [String] {
    [
      "\(id)", isActive ? "active" : "inactive",
      push.isEmpty ? (fetches ? "fetches" : "-") : push.joined(separator: ","),
      seen, created, "\(waiting)", "\(waitingBytes)", "\(preKeys)", hasSignedPreKey ? "yes" : "no",
    ]
  }

  init(_ device: Device, _ holdings: DeviceHoldings?, at now: Timestamp) {
    id = Int(device.id.value)
    isActive = device.isActive(at: now)
    let ids: [(String, Secret?)] = [
      ("fcm", device.gcmID), ("apns", device.apnID), ("voip", device.voipApnID), ("webpush", device.webPushID),
    ]
    push = ids.filter { $0.1 != nil }.map(\.0)
    fetches = device.fetchesMessages
    seen = device.lastSeen.day
    created = device.created.day
    waiting = holdings?.waiting ?? 0
    waitingBytes = holdings?.waitingBytes ?? 0
    preKeys = holdings?.oneTimePreKeys ?? 0
    hasSignedPreKey = device.hasSignedPreKey
  }
}

extension Timestamp {
  /// `YYYY-MM-DD`, UTC.
  fileprivate var day: String { String(iso8601.prefix(10)) }
}

extension AccountNumber {
  /// The greatest that is smaller; nil where there is none.
  fileprivate var before: AccountNumber? { AccountNumber(digits: Int64(digits) - 1) }
}
