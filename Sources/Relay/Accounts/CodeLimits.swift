package import RelayCore

/// The charges for asking for codes and trying them (reference 3.6; Part 6, 2, 3 and 5).
///
/// All charges of a request are one step, all or none: a refused request uses nothing up, neither of an address nor
/// of a number. Wrong codes are counted by number, whatever the codes and the addresses. Wrong codes of strangers
/// must not keep the holder of a number from it. So a share of each number's allowance is kept for addresses that
/// have asked for its code (docs/operating.md, "Wrong codes").
package struct CodeLimits: Sendable {
  private let limiter: any RateLimiter
  private let wrongCodes: WrongCodes
  /// During development all requests and tries come from one address.
  private let isDevelopment: Bool

  package init(limiter: any RateLimiter, wrongCodes: WrongCodes, isDevelopment: Bool) {
    self.limiter = limiter
    self.wrongCodes = wrongCodes
    self.isDevelopment = isDevelopment
  }

  // MARK: Codes that are asked for

  /// Charges a code that is answered to a developer, whose address is known from then on as one that has asked.
  /// However many codes a developer asks for, a day has no end of them.
  func chargeAnswer(of number: AccountNumber, from origin: RequestOrigin) async throws(Problem) {
    try await limiter.charge(.smsDestination, LimitKey(number))
    _ = await limiter.take(1, from: .codesDay, key: CodePurpose.registration.key(of: number).from(origin))
  }

  /// Charges a code that is sent: by the address that asked, by its number, and by all of them together, which is what
  /// the operator pays for.
  func chargeSending(of number: AccountNumber, by transport: VerificationTransport, from origin: RequestOrigin)
    async throws(Problem)
  {
    try await limiter.charge(
      origin.charges(to: .codeAddress) + codes(.registration, of: number, from: origin) + [
        LimitCharge(1, from: transport == .sms ? .smsDestination : .voiceDestination, key: LimitKey(number)),
        LimitCharge(1, from: .codeTotal, key: .everyone),
      ])
  }

  /// Charges a request for a linking code.
  func chargeAllocation(to number: AccountNumber) async throws(Problem) {
    try await limiter.charge(.allocateDevice, LimitKey(number))
  }

  /// Charges a new linking code, which device 1 has asked for.
  func chargeLinkingCode(of number: AccountNumber, from origin: RequestOrigin) async throws(Problem) {
    try await limiter.charge(codes(.linking, of: number, from: origin))
  }

  /// The charge of one number, and that of one address that asks for it. The latter shows for some time that the
  /// address has asked.
  private func codes(_ purpose: CodePurpose, of number: AccountNumber, from origin: RequestOrigin) -> [LimitCharge] {
    let key = purpose.key(of: number)
    return [LimitCharge(1, from: .codesDay, key: key), LimitCharge(1, from: .codesDay, key: key.from(origin))]
  }

  /// A tenth of a day's codes comes back in two hours and a half by default: so long it is known.
  private func hasAsked(_ key: LimitKey, _ origin: RequestOrigin) async -> Bool {
    await limiter.space(in: .codesDay, key: key.from(origin)) < limiter.shape(of: .codesDay).size
  }

  // MARK: Tries

  /// Charges a try of a code, has `attempt` judge it, and gives back what wrong codes alone cost.
  ///
  /// It is charged before it is judged: however many come at once, no more are judged than the buckets hold.
  /// - Throws: `.rateLimited`, and what `attempt` throws, `.codeRefused` for a wrong code.
  func judge<Value: Sendable>(
    _ purpose: CodePurpose, of number: AccountNumber, from origin: RequestOrigin,
    _ attempt: () async throws(Problem) -> Value
  ) async throws(Problem) -> Value {
    let ofWrongCodes = try await chargeCode(purpose, of: number, from: origin)
    do throws(Problem) {
      let value = try await attempt()
      await giveBack(ofWrongCodes)
      return value
    } catch {
      switch error.kind {
      case .codeRefused: await noteWrongCode(purpose, of: number)
      // It is unknown whether the code was looked at.
      case .unavailable, .internalError: break
      default: await giveBack(ofWrongCodes)
      }
      throw error
    }
  }

  /// - Returns: what a right code gets back.
  private func chargeCode(_ purpose: CodePurpose, of number: AccountNumber, from origin: RequestOrigin)
    async throws(Problem) -> [LimitCharge]
  {
    let key = purpose.key(of: number)
    let tries = purpose == .registration ? LimiterName.verifyNumber : .verifyDevice
    let byAddress = isDevelopment ? [] : origin.charges(to: .verifyAddress)
    let wrong =
      (isDevelopment ? [] : origin.charges(to: .wrongCodesAddress))
      + Self.byNumber.map { LimitCharge(1, from: $0, key: key) }
    let wrongByStrangers = Self.byNumber.map { limiter in
      LimitCharge(strangersPrice(limiter), from: limiter, key: key.byStrangers)
    }
    let decision = await limiter.take(
      byAddress + wrong + wrongByStrangers + [LimitCharge(1, from: tries, key: LimitKey(number))])
    guard case .refused(let retryAfter) = decision else { return wrong + wrongByStrangers }
    // Somebody else may have used the wrong codes up. Tries a minute have no such share: who is refused for wrong codes
    // uses none of them up.
    if await hasAsked(key, origin) {
      let own = wrong + [LimitCharge(ownPrice, from: .wrongCodesDay, key: key.from(origin))]
      let decision = await limiter.take(byAddress + own + [LimitCharge(1, from: tries, key: LimitKey(number))])
      if decision == .allowed { return own }
    }
    throw Problem(.rateLimited, retryAfter: retryAfter)
  }

  private func giveBack(_ charges: [LimitCharge]) async {
    _ = await limiter.take(charges.map { LimitCharge(-$0.amount, from: $0.limiter, key: $0.key) })
  }

  private func noteWrongCode(_ purpose: CodePurpose, of number: AccountNumber) async {
    let key = purpose.key(of: number).byStrangers
    var isPaused = false
    for limiter in Self.byNumber where await self.limiter.space(in: limiter, key: key) < strangersPrice(limiter) {
      isPaused = true
    }
    wrongCodes.note(purpose == .registration ? .registration : .linking, isPaused: isPaused)
  }

  /// Charges a try of a number token, before it is looked at.
  func chargeToken(from origin: RequestOrigin) async throws(Problem) {
    if !isDevelopment { try await limiter.charge(origin.charges(to: .verifyAddress)) }
  }

  /// Charges the number of a token that is signed.
  func chargeToken(of number: AccountNumber) async throws(Problem) {
    try await limiter.charge(.verifyNumber, LimitKey(number))
  }

  // MARK: Registration locks

  /// Charges a pin tried against the registration lock of `number`.
  func chargeLock(of number: AccountNumber) async throws(Problem) {
    try await limiter.charge(.registrationLock, LimitKey(number))
  }

  func noteWrongPin() { wrongCodes.note(.pin, isPaused: false) }

  /// Charges a registration lock that `device` sets; a bucket apart from the one that tries empty.
  func chargeLock(by device: DeviceAddress) async throws(Problem) {
    try await limiter.charge(.registrationLock, LimitKey(device))
  }

  // MARK: Shapes

  private static let byNumber: [LimiterName] = [.wrongCodesHour, .wrongCodesDay]

  /// Strangers pay a quarter more out of a bucket as large: a fifth of the tries of a number is left when theirs are
  /// used up.
  private func strangersPrice(_ name: LimiterName) -> Double { min(1.25, limiter.shape(of: name).size) }

  /// Each address that has asked has three of those a day: nobody keeps them all busy by asking once.
  /// A little less than a third: three of them are never more than the bucket, however sums are rounded.
  private var ownPrice: Double { 0.33 * limiter.shape(of: .wrongCodesDay).size }
}

extension CodePurpose {
  fileprivate func key(of number: AccountNumber) -> LimitKey {
    switch self {
    case .registration: LimitKey(number)
    case .linking: LimitKey(linkingTo: number)
    }
  }
}
