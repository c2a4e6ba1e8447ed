import RelayCore

/// Everything that is kept for an account and is the person's own, for a person or a court that asks for it.
package struct AccountExport: Encodable, Sendable {
  /// One device, with what its client said of itself.
  package struct ExportedDevice: Encodable, Sendable {
    let id: Int
    let name: String?
    let userAgent: String?
    let registrationID: Int
    let created: String
    let seen: String
    let isActive: Bool
    let push: [String]
    let fetches: Bool
    let waiting: Int
    let waitingBytes: Int
    let preKeys: Int
    let hasSignedPreKey: Bool
  }

  let number: String
  let handle: String
  /// When this was written.
  let time: String
  let isActive: Bool
  let isFound: Bool
  let seen: String?
  /// The public key, as its client uploaded it.
  let identityKey: String?
  let hasRegistrationLock: Bool
  let devices: [ExportedDevice]
  /// Attachments that are kept, uploaded or not.
  let attachments: Int
  let leftOut: [String]

  init(_ account: Account, _ details: AccountDetails, attachments: Int, at now: Timestamp) {
    number = account.number.e164
    handle = details.handle
    time = now.iso8601
    (isActive, isFound, seen) = (details.isActive, details.isFound, details.seen)
    identityKey = account.identityKey
    hasRegistrationLock = details.hasRegistrationLock
    devices = zip(account.devices, details.devices).map { device, row in
      ExportedDevice(
        id: row.id, name: device.name, userAgent: device.userAgent, registrationID: Int(device.registrationID),
        created: row.created, seen: row.seen, isActive: row.isActive, push: row.push, fetches: row.fetches,
        waiting: row.waiting, waitingBytes: row.waitingBytes, preKeys: row.preKeys,
        hasSignedPreKey: row.hasSignedPreKey)
    }
    self.attachments = attachments
    leftOut = Self.leftOut
  }

  private static let leftOut = [
    "passwords, pins and codes: only hashes of them are kept",
    "signaling keys and push ids: they are secrets between the device, this relay and the push service",
    "messages that wait: they are encrypted, and name their senders",
    "the contents of attachments: they are encrypted",
    "contacts that were looked up: they are not kept",
  ]

  /// More than any quota holds is counted as so many.
  static let attachmentsMax = 1_000_000
}
