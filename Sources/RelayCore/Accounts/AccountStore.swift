/// Accounts, their devices, and the codes that create them.
package protocol AccountStore: Sendable {
  /// - Returns: the account with its devices ascending by id, or nil.
  func account(_ number: AccountNumber) async throws(StoreError) -> Account?

  /// The same for many accounts, in one statement.
  /// - Parameter numbers: some hundred at most; one that is named twice counts once.
  /// - Returns: the accounts that exist, in no order.
  func accounts(_ numbers: [AccountNumber]) async throws(StoreError) -> [Account]

  /// Remembers `code` as the only valid one of its purpose for `number`, with no tries used.
  func setVerificationCode(_ code: VerificationCode, for number: AccountNumber, purpose: CodePurpose)
    async throws(StoreError)

  /// Whether `code` is the one that is pending to register `number`; if not, that was a try, as in `register`. It stays
  /// pending.
  func checkVerificationCode(_ code: Secret, for number: AccountNumber, triesMax: Int, now: Timestamp)
    async throws(StoreError) -> Bool

  /// The second that a number token of the account bears which is drawn now: the present one, or the next that no token
  /// has had which is void.
  ///
  /// The token is void with the next registration of the account, whatever proves that, and in whatever process the
  /// clock is ahead.
  /// - Parameter password: of the installation that draws it, device 1's.
  /// - Returns: nil, with nothing stored, unless device 1 has that password.
  func drawNumberToken(for number: AccountNumber, by password: PasswordHash, now: Timestamp) async throws(StoreError)
    -> Int64?

  /// Puts `registration` in the place of the account if `proof` holds.
  ///
  /// A number token holds while its second is above all that tokens of the account may have borne when it was last
  /// registered: so it is good once, and only for the installation that drew it.
  ///
  /// With a code, and when `registration.respectsClaims`, it refuses a number that an active peer lists and that has no
  /// account here (reference 1.4, 417). It refuses any proof when the account's registration lock is not
  /// `registration.satisfiedLock`.
  ///
  /// Atomic: the code is used up, devices, keys and queued messages of the former installation are gone, and the
  /// directory lists the account exactly when it is active. A wrong code or a lock that is not satisfied counts as a
  /// try; the try that reaches `triesMax` drops the pending code.
  func register(_ registration: Registration, proof: RegistrationProof, now: Timestamp) async throws(StoreError)
    -> RegistrationOutcome

  /// Adds `link`'s device to its account if `code` is the pending linking code.
  ///
  /// The device takes the lowest id from 2 on that is held by an inactive device, whose prekeys and mailbox are gone
  /// then, or else the highest id plus 1. A wrong code counts as a try, as in `register`; a full account does not use
  /// the code up.
  func linkDevice(_ link: DeviceLink, code: Secret, triesMax: Int, now: Timestamp) async throws(StoreError)
    -> LinkOutcome

  /// The accounts, active or not, whose number's token is one of `tokens`: in no order, at most one a token.
  /// - Parameter tokens: some at most: they are looked up one by one.
  func accounts(holding tokens: [ContactToken]) async throws(StoreError) -> [AccountNumber]

  /// Removes a linked device with its prekeys and its mailbox.
  /// - Returns: false when there is no such device.
  func removeDevice(_ device: DeviceAddress) async throws(StoreError) -> Bool

  /// Applies `change`, and lists the account in the directory exactly when it is active (reference 3.7).
  /// - Returns: false, with nothing stored, when the device does not exist.
  func updateDevice(_ device: DeviceAddress, _ change: DeviceChange) async throws(StoreError) -> Bool

  /// Notes the day on which many devices were seen, in one statement that waits for nobody: it passes over a device
  /// that does not exist, that was seen on that day or later, or that somebody is just changing.
  /// - Parameters:
  ///   - devices: some hundred at most.
  ///   - day: midnight UTC.
  /// - Returns: the devices whose day was noted, in no order.
  func noteSeen(_ devices: [DeviceAddress], on day: Timestamp) async throws(StoreError) -> [DeviceAddress]
}

/// The thing that a pending code creates.
package enum CodePurpose: Sendable { case registration, linking }

package enum LinkOutcome: Sendable, Equatable {
  case linked(DeviceID)
  /// No pending code, an expired one, another one, or no account.
  case codeRefused
  /// So many devices are active already.
  case tooManyDevices(current: Int)
}

/// A pending code: six digits, first never 0.
package struct VerificationCode: Sendable, Equatable {
  package let code: Secret
  package let expires: Timestamp
  package init(code: Secret, expires: Timestamp) {
    self.code = code
    self.expires = expires
  }
}

package enum RegistrationOutcome: Sendable, Equatable {
  case registered
  /// No pending code, an expired one, or another one.
  case codeRefused
  /// The number was registered since the token was drawn, perhaps by that token. Nothing was stored.
  case tokenRefused
  /// The code is right, but an active peer lists the number. The code stays pending; nothing else was stored.
  case numberElsewhere
  /// The proof holds, but the operator lets the number have no account. Nothing was stored.
  case banned
  /// The proof holds, but the account's registration lock is another than the satisfied one. A code stays pending.
  case locked
}
