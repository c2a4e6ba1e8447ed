package import RelayCore

/// What asking for codes and trying them is charged (reference 3.6; Part 6, 2, 3 and 5).
///
/// The caller's address comes first: one that is refused cannot use up the few charges of somebody else's number.
package struct CodeLimits: Sendable {
  private let limiter: any RateLimiter
  /// Whoever develops asks and tries from one address all the time.
  private let isDevelopment: Bool

  package init(limiter: any RateLimiter, isDevelopment: Bool) {
    self.limiter = limiter
    self.isDevelopment = isDevelopment
  }

  /// Charges a code that is answered to a developer.
  func chargeAnswer(of number: AccountNumber) async throws(Problem) {
    try await limiter.charge(.smsDestination, LimitKey(number))
  }

  /// Charges a code that is sent: by the address that asked, by its number, and by all of them together, which comes
  /// last since it counts what the operator pays for.
  func chargeSending(of number: AccountNumber, by transport: VerificationTransport, from address: LimitKey)
    async throws(Problem)
  {
    try await limiter.charge(.codeAddress, address)
    try await limiter.charge(transport == .sms ? .smsDestination : .voiceDestination, LimitKey(number))
    try await limiter.charge(.codeTotal, .everyone)
  }

  /// Charges a try of whatever proves a number, before anything is looked at.
  func chargeTry(from address: LimitKey) async throws(Problem) {
    if !isDevelopment { try await limiter.charge(.verifyAddress, address) }
  }

  /// Charges the number of a try that counts: of a registration's code, or of a number token that holds.
  ///
  /// Numbers are charged by address, so that nobody uses up another's tries; how many a code allows over all addresses
  /// is the store's to say.
  func chargeRegistration(of number: AccountNumber, from address: LimitKey) async throws(Problem) {
    try await limiter.charge(.verifyNumber, LimitKey(number, from: address))
  }

  /// Charges a try of a linking code.
  func chargeLinking(to number: AccountNumber, from address: LimitKey) async throws(Problem) {
    try await chargeTry(from: address)
    try await limiter.charge(.verifyDevice, LimitKey(number, from: address))
  }

  /// Charges a new linking code.
  func chargeAllocation(to number: AccountNumber) async throws(Problem) {
    try await limiter.charge(.allocateDevice, LimitKey(number))
  }

  /// Charges a pin tried against the registration lock of `number`.
  func chargeLock(of number: AccountNumber) async throws(Problem) {
    try await limiter.charge(.registrationLock, LimitKey(number))
  }

  /// Charges a registration lock that `device` sets; a bucket apart from the one that tries empty.
  func chargeLock(by device: DeviceAddress) async throws(Problem) {
    try await limiter.charge(.registrationLock, LimitKey(device))
  }
}
