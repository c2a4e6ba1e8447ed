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

  /// Charges a try of a registration's code or number token.
  func chargeRegistration(of number: AccountNumber, from address: LimitKey) async throws(Problem) {
    try await chargeTry(.verifyNumber, number, address)
  }

  /// Charges a try of a linking code.
  func chargeLinking(to number: AccountNumber, from address: LimitKey) async throws(Problem) {
    try await chargeTry(.verifyDevice, number, address)
  }

  private func chargeTry(_ name: LimiterName, _ number: AccountNumber, _ address: LimitKey) async throws(Problem) {
    if !isDevelopment { try await limiter.charge(.verifyAddress, address) }
    try await limiter.charge(name, LimitKey(number))
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
