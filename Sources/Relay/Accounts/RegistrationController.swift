package import Hummingbird
package import RelayCore
package import RelayHTTP

/// Registration by a code or by a number token (reference 1.4).
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

  private let store: any AccountStore & AccountRemovalStore
  private let registrar: Registrar
  private let limits: CodeLimits
  private let sender: any VerificationSender
  private let tokens: NumberTokens?
  private let policy: Policy
  private let clock: WallClock

  /// - Parameter tokens: nil when no key is configured: there are none then.
  package init(
    store: any AccountStore & AccountRemovalStore, registrar: Registrar, limits: CodeLimits,
    sender: any VerificationSender,
    tokens: NumberTokens?, policy: Policy, clock: WallClock
  ) {
    self.store = store
    self.registrar = registrar
    self.limits = limits
    self.sender = sender
    self.tokens = tokens
    self.policy = policy
    self.clock = clock
  }

  package func addRoutes(to router: some RouterMethods<ClientContext>) {
    router.resource("/v1/accounts/:transport/code/:number", [(.get, requestCode)])
    router.resource("/v1/accounts/code/:code", [(.put, confirmCode)])
    // A misprint of two published texts (reference 1.4).
    router.resource("/v1/acccounts/code/:code", [(.put, confirmCode)])
    router.resource("/v1/accounts/token/:token", [(.put, confirmToken)])
    router.resource("/v1/accounts/voice/twiml/:code", [(.post, speakCode)])
  }

  package func addDeviceRoutes(to router: some RouterMethods<DeviceContext>) {
    router.resource("/v1/accounts/token", [(.get, makeToken)])
  }

  // MARK: GET /v1/accounts/{transport}/code/{number}

  @Sendable private func requestCode(_ request: Request, _ context: ClientContext) async throws(Problem) -> Response {
    guard let number = AccountNumber(e164: try context.segment("number")) else { throw Problem(.invalidNumber) }
    let name = try context.segment("transport")
    if name == "dev", policy.isDevelopment {
      try await limits.chargeAnswer(of: number, from: context.origin)
      return .plain(VerificationCodes.displayed(try await pendingCode(for: number)).value).uncached
    }
    guard let transport = VerificationTransport(rawValue: name) else { throw Problem(.unknownTransport) }
    try await limits.chargeSending(of: number, by: transport, from: context.origin)
    let code = try await pendingCode(for: number)
    try await sender.send(VerificationCodes.displayed(code), to: number, by: transport)
    return .done.uncached
  }

  private func pendingCode(for number: AccountNumber) async throws(Problem) -> Secret {
    let code = VerificationCodes.draw()
    let pending = VerificationCode(code: code, expires: clock.now().adding(policy.codeLifetime))
    let isBanned: Bool
    do throws(StoreError) {
      isBanned = try await store.isBanned(number)
    } catch {
      throw Problem(error)
    }
    guard !isBanned else { throw Problem(.numberBanned) }
    do throws(StoreError) {
      try await store.setVerificationCode(pending, for: number, purpose: .registration)
    } catch {
      throw Problem(error)
    }
    return code
  }

  // MARK: PUT /v1/accounts/code/{code}, /v1/accounts/token/{token}

  @Sendable private func confirmCode(_ request: Request, _ context: ClientContext) async throws(Problem) -> Response {
    let applicant = try await applicant(request)
    let code = Secret(try context.segment("code"))
    try await limits.judge(.registration, of: applicant.number, from: context.origin) { () async throws(Problem) in
      try await registrar.register(applicant, proof: .code(code, triesMax: policy.triesMax))
    }
    return .done
  }

  @Sendable private func confirmToken(_ request: Request, _ context: ClientContext) async throws(Problem) -> Response {
    let applicant = try await applicant(request)
    let token = Secret(try context.segment("token"))
    try await limits.chargeToken(from: context.origin)
    guard let second = tokens?.second(of: token, for: applicant.number) else { throw Problem(.tokenRefused) }
    try await limits.chargeToken(of: applicant.number)
    try await registrar.register(applicant, proof: .numberToken(second: second))
    return .done
  }

  private func applicant(_ request: Request) async throws(Problem) -> Registrar.Applicant {
    let credentials = try request.newCredentials()
    let attributes = try await request.attributes()
    return Registrar.Applicant(
      number: credentials.address.account, password: credentials.password, attributes: attributes,
      agent: request.signalAgent)
  }

  // MARK: GET /v1/accounts/token/

  @Sendable private func makeToken(_ request: Request, _ context: DeviceContext) async throws(Problem) -> Response {
    guard let tokens else { throw Problem(.notFound) }
    let number = context.caller.address.account
    // A token is enough to take the account: a linked device must not have one.
    guard context.caller.address.device == .master else { throw Problem(.deviceRefused) }
    let second = try await draw(for: number, by: context.caller.account)
    if let wait = tokens.wait(for: second) {
      throw Problem(.unavailable, retryAfter: wait, reason: "the account's last token is of a clock that is ahead")
    }
    var writer = JSONWriter(capacity: 80)
    writer.beginObject()
    writer.key("token")
    writer.string(tokens.token(for: number, second: second).value)
    writer.endObject()
    return .json(writer.bytes).uncached
  }

  private func draw(for number: AccountNumber, by installation: Account) async throws(Problem) -> Int64 {
    guard let password = installation.device(.master)?.password else { throw Problem(.unauthorized) }
    do throws(StoreError) {
      if let second = try await store.drawNumberToken(for: number, by: password, now: clock.now()) { return second }
    } catch {
      throw Problem(error)
    }
    // It was replaced since.
    throw Problem(.unauthorized)
  }

  // MARK: POST /v1/accounts/voice/twiml/{code}

  @Sendable private func speakCode(_ request: Request, _ context: ClientContext) async throws(Problem) -> Response {
    guard let twiml = VerificationCodes.twiml(Secret(try context.segment("code"))) else { throw Problem(.notFound) }
    return .xml(twiml).uncached
  }
}
