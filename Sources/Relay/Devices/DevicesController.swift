package import Hummingbird
package import RelayCore
package import RelayHTTP

/// Linking, listing and removing devices (reference 1.14).
package struct DevicesController: Sendable {
  package struct Policy: Sendable {
    /// Active devices of one account, device 1 included.
    package let devicesMax: Int
    package let codeLifetime: Duration
    package let triesMax: Int
    package init(devicesMax: Int, codeLifetime: Duration, triesMax: Int) {
      self.devicesMax = devicesMax
      self.codeLifetime = codeLifetime
      self.triesMax = triesMax
    }
  }

  private let store: any AccountStore
  private let accounts: AccountCache
  private let limits: CodeLimits
  private let policy: Policy
  private let clock: WallClock

  package init(
    store: any AccountStore, accounts: AccountCache, limits: CodeLimits, policy: Policy, clock: WallClock
  ) {
    self.store = store
    self.accounts = accounts
    self.limits = limits
    self.policy = policy
    self.clock = clock
  }

  /// The device to be has no credentials yet.
  package func addRoutes(to router: some RouterMethods<ClientContext>) {
    router.resource("/v1/devices/:device", [(.put, link)], elsewhere: [.delete])
  }

  package func addDeviceRoutes(to router: some RouterMethods<DeviceContext>) {
    // The paths of the second and third, and of the fourth generation.
    router.resource("/v1/devices/provisioning_code", [(.get, requestCode)])
    router.resource("/v1/devices/provisioning/code", [(.get, requestCode)])
    router.resource("/v1/devices", [(.get, list)])
    router.part(of: "/v1/devices/:device", [(.delete, remove)])
  }

  // MARK: GET /v1/devices/provisioning_code

  @Sendable private func requestCode(_ request: Request, _ context: DeviceContext) async throws(Problem) -> Response {
    let (number, now) = (context.caller.address.account, clock.now())
    try await limits.chargeAllocation(to: number)
    let current = context.caller.account.activeDevices(at: now).count
    guard current < policy.devicesMax else { throw full(current) }
    try context.requireMaster()
    try await limits.chargeLinkingCode(of: number, from: context.origin)
    let code = VerificationCodes.draw()
    do throws(StoreError) {
      try await store.setVerificationCode(
        VerificationCode(code: code, expires: now.adding(policy.codeLifetime)), for: number, purpose: .linking)
    } catch {
      throw Problem(error)
    }
    return .json(DevicesCodec.encode(code: code)).uncached
  }

  // MARK: PUT /v1/devices/{code}

  @Sendable private func link(_ request: Request, _ context: ClientContext) async throws(Problem) -> Response {
    let credentials = try request.newCredentials()
    let number = credentials.address.account
    let attributes = try await request.attributes()
    let code = Secret(try context.segment("device"))
    let device = device(attributes, password: credentials.password, agent: request.signalAgent)
    let link = DeviceLink(account: number, device: device, devicesMax: policy.devicesMax)
    let id = try await limits.judge(.linking, of: number, from: context.origin) { () async throws(Problem) in
      try await redeem(code, for: link)
    }
    return .json(DevicesCodec.encode(linked: id))
  }

  private func device(_ attributes: AccountAttributes, password: Secret, agent: String?) -> Device {
    let now = clock.now()
    // The store gives it its id.
    return Device(
      id: .master, password: Passwords.hash(password), signalingKey: attributes.signalingKey,
      registrationID: attributes.registrationID, fetchesMessages: attributes.fetchesMessages, name: attributes.name,
      userAgent: agent, lastSeen: now.startOfDay, created: now)
  }

  private func redeem(_ code: Secret, for link: DeviceLink) async throws(Problem) -> DeviceID {
    let outcome = try await accounts.attempt(link.account) { () async throws(StoreError) in
      try await store.linkDevice(link, code: code, triesMax: policy.triesMax, now: clock.now())
    }
    switch outcome {
    case .linked(let id):
      await accounts.changed(link.account)
      return id
    case .codeRefused: throw Problem(.codeRefused)
    case .tooManyDevices(let current): throw full(current)
    }
  }

  private func full(_ current: Int) -> Problem {
    Problem(.tooManyDevices, devices: .full(current: current, max: policy.devicesMax))
  }

  // MARK: GET /v1/devices/, DELETE /v1/devices/{id}

  @Sendable private func list(_ request: Request, _ context: DeviceContext) async throws(Problem) -> Response {
    .json(DevicesCodec.encode(context.caller.account.devices))
  }

  /// Success also for a device that does not exist.
  @Sendable private func remove(_ request: Request, _ context: DeviceContext) async throws(Problem) -> Response {
    let text = try context.segment("device")
    guard Int64(text) != nil else { throw Problem(.notFound) }
    try context.requireMaster()
    // An integer that no device can have.
    guard let id = DeviceID(text: text) else { return .done }
    guard id != .master else { throw Problem(.masterDevice) }
    let device = DeviceAddress(context.caller.address.account, id)
    let isRemoved = try await accounts.attempt(device.account) { () async throws(StoreError) in
      try await store.removeDevice(device)
    }
    if isRemoved { await accounts.changed(device.account) }
    return .done
  }
}
