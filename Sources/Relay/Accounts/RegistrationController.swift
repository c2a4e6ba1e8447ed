package import Hummingbird
package import RelayCore
package import RelayHTTP

/// Registration by a code (reference 1.4).
package struct RegistrationController: Sendable {
  package struct Policy: Sendable {
    package let codeLifetime: Duration
    package let triesMax: Int
    /// Adds the transport `dev`, which answers with the code.
    package let isDevelopment: Bool
    package init(codeLifetime: Duration, triesMax: Int, isDevelopment: Bool) {
      self.codeLifetime = codeLifetime
      self.triesMax = triesMax
      self.isDevelopment = isDevelopment
    }
  }

  private let store: any AccountStore
  private let accounts: AccountCache
  private let limiter: any RateLimiter
  private let sender: any VerificationSender
  private let policy: Policy
  private let clock: WallClock

  package init(
    store: any AccountStore, accounts: AccountCache, limiter: any RateLimiter, sender: any VerificationSender,
    policy: Policy, clock: WallClock
  ) {
    self.store = store
    self.accounts = accounts
    self.limiter = limiter
    self.sender = sender
    self.policy = policy
    self.clock = clock
  }

  package func addRoutes(to router: some RouterMethods<ClientContext>) {
    router.resource("/v1/accounts/:transport/code/:number", [(.get, requestCode)])
    router.resource("/v1/accounts/code/:code", [(.put, confirm)])
    // A misprint of two published texts (reference 1.4).
    router.resource("/v1/acccounts/code/:code", [(.put, confirm)])
  }

  // MARK: GET /v1/accounts/{transport}/code/{number}

  fileprivate enum Transport {
    case sent(VerificationTransport)
    case answered
  }

  @Sendable private func requestCode(_ request: Request, _ context: ClientContext) async throws(Problem) -> Response {
    guard let number = AccountNumber(e164: try context.segment("number")) else { throw Problem(.invalidNumber) }
    let transport = try transport(try context.segment("transport"))
    try await limiter.charge(transport.limiter, LimitKey(number))
    let code = Self.drawCode()
    let pending = VerificationCode(code: code, expires: clock.now().adding(policy.codeLifetime))
    do throws(StoreError) {
      try await store.setVerificationCode(pending, for: number)
    } catch {
      throw Problem(error)
    }
    switch transport {
    case .sent(let transport):
      try await sender.send(Self.displayed(code), to: number, by: transport)
      return .done
    case .answered:
      return .plain(Self.displayed(code).value)
    }
  }

  private func transport(_ name: String) throws(Problem) -> Transport {
    if name == "dev", policy.isDevelopment { return .answered }
    guard let transport = VerificationTransport(rawValue: name) else { throw Problem(.unknownTransport) }
    return .sent(transport)
  }

  /// Uniform over 100000...999999: six digits, never a leading zero.
  private static func drawCode() -> Secret {
    var generator = SystemRandomNumberGenerator()
    return Secret(String(Int.random(in: 100_000...999_999, using: &generator)))
  }

  /// `ddd-ddd`, as people read it.
  private static func displayed(_ code: Secret) -> Secret { Secret("\(code.value.prefix(3))-\(code.value.suffix(3))") }

  // MARK: PUT /v1/accounts/code/{code}

  @Sendable private func confirm(_ request: Request, _ context: ClientContext) async throws(Problem) -> Response {
    guard let credentials = BasicCredentials(header: request.headers[.authorization]) else {
      throw Problem(.unauthorized)
    }
    let code = Secret(try context.segment("code"))
    let body = try await request.jsonBody(max: WireLimits.smallRequestBytesMax)
    let attributes = try body.decodeJSON(AccountAttributes.decode)
    let number = credentials.address.account
    try await limiter.charge(.verifyNumber, LimitKey(number))
    let registration = registration(of: number, attributes, credentials.password, agent: request.headers[.signalAgent])
    switch try await register(registration, code: code) {
    case .registered:
      await accounts.changed(number)
      return .done
    case .codeRefused: throw Problem(.codeRefused)
    case .numberElsewhere: throw Problem(.numberElsewhere)
    }
  }

  private func registration(
    of number: AccountNumber, _ attributes: AccountAttributes, _ password: Secret, agent: String?
  ) -> Registration {
    let now = clock.now()
    let device = Device(
      id: .master, password: Passwords.hash(password), signalingKey: attributes.signalingKey,
      registrationID: attributes.registrationID, fetchesMessages: attributes.fetchesMessages, name: attributes.name,
      userAgent: agent.map { String($0.prefix(AccountAttributes.agentCharactersMax)) }, lastSeen: now.startOfDay,
      created: now)
    return Registration(
      number: number, token: ContactTokens.token(of: number), device: device, supportsSMS: attributes.supportsSMS,
      voice: attributes.voice)
  }

  private func register(_ registration: Registration, code: Secret) async throws(Problem) -> RegistrationOutcome {
    do throws(StoreError) {
      return try await store.register(registration, code: code, triesMax: policy.triesMax, now: clock.now())
    } catch {
      // A commit whose answer was lost may have replaced the account all the same.
      await accounts.changed(registration.number)
      throw Problem(error)
    }
  }
}

extension RegistrationController.Transport {
  /// The answer to a developer is charged like a text message.
  fileprivate var limiter: LimiterName {
    switch self {
    case .sent(.sms), .answered: .smsDestination
    case .sent(.voice): .voiceDestination
    }
  }
}
