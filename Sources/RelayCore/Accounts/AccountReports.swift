// The accounts as an operator sees them (docs/operating.md, "relay accounts"). These only read, and none of it is on
// the path of a message.

/// How many accounts and devices there are.
package struct AccountCounts: Sendable, Equatable {
  package let accounts: Int
  /// Accounts whose device 1 can be reached.
  package let active: Int
  /// Accounts that a look-up finds.
  package let discoverable: Int
  package let devices: Int
  package init(accounts: Int, active: Int, discoverable: Int, devices: Int) {
    self.accounts = accounts
    self.active = active
    self.discoverable = discoverable
    self.devices = devices
  }
}

/// One account, as a list shows it.
package struct AccountSummary: Sendable, Equatable {
  package let number: AccountNumber
  package let isActive: Bool
  package let isDiscoverable: Bool
  package let devices: Int
  /// The day on which the last of its devices was seen; nil without a device.
  package let lastSeen: Timestamp?
  package init(
    number: AccountNumber, isActive: Bool, isDiscoverable: Bool, devices: Int, lastSeen: Timestamp?
  ) {
    self.number = number
    self.isActive = isActive
    self.isDiscoverable = isDiscoverable
    self.devices = devices
    self.lastSeen = lastSeen
  }
}

/// The store holds this for one device.
package struct DeviceHoldings: Sendable, Equatable {
  package let device: DeviceID
  /// Envelopes that wait, receipts included, and their bodies' bytes.
  package let waiting: Int
  package let waitingBytes: Int
  /// One-time prekeys left, the last resort not counted.
  package let oneTimePreKeys: Int
  package init(device: DeviceID, waiting: Int, waitingBytes: Int, oneTimePreKeys: Int) {
    self.device = device
    self.waiting = waiting
    self.waitingBytes = waitingBytes
    self.oneTimePreKeys = oneTimePreKeys
  }
}

/// Accounts and devices as operators see them: counts, pages, and names that are not numbers.
package protocol AccountReportStore: Sendable {
  /// Reads all accounts and devices.
  func accountCounts() async throws(StoreError) -> AccountCounts
  /// Accounts behind `number` (nil: from the first), ascending by number, at most `limit`.
  func accountSummaries(after number: AccountNumber?, limit: Int) async throws(StoreError) -> [AccountSummary]
  /// - Returns: one for each device of the account, ascending; none for an account that there is not.
  func deviceHoldings(of number: AccountNumber) async throws(StoreError) -> [DeviceHoldings]
  /// The name of `number` among operators, whether or not it has an account.
  func handle(of number: AccountNumber) async throws(StoreError) -> AccountHandle
  /// - Returns: nil for what is no handle of this store.
  func number(of handle: AccountHandle) async throws(StoreError) -> AccountNumber?
}
