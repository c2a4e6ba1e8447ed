package import Hummingbird
package import RelayCore
package import RelayHTTP

/// The account's registration lock: what a new installation must know beside the code (reference Part 6, 4; our own
/// resource). Device 1 sets and removes it.
package struct LockController: Sendable {
  private let store: any AccountStore
  private let accounts: AccountCache
  private let limits: CodeLimits
  private let locks: RegistrationLocks
  private let clock: WallClock

  package init(
    store: any AccountStore, accounts: AccountCache, limits: CodeLimits, locks: RegistrationLocks, clock: WallClock
  ) {
    self.store = store
    self.accounts = accounts
    self.limits = limits
    self.locks = locks
    self.clock = clock
  }

  package func addRoutes(to router: some RouterMethods<DeviceContext>) {
    router.resource("/v1/accounts/pin", [(.put, set), (.delete, remove)])
  }

  @Sendable private func set(_ request: Request, _ context: DeviceContext) async throws(Problem) -> Response {
    try context.requireMaster()
    let body = try await context.jsonBody(of: request, max: WireLimits.smallRequestBytesMax)
    let pin = try body.decodeJSON(PinCodec.decode)
    try await limits.chargeLock(by: context.caller.address)
    var change = DeviceChange()
    change.registrationLock = .set(try await locks.hash(pin))
    // A lock holds from the day the account was last seen: one that is set today must not be void at once.
    change.lastSeen = .set(clock.now().startOfDay)
    return try await apply(change, context)
  }

  @Sendable private func remove(_ request: Request, _ context: DeviceContext) async throws(Problem) -> Response {
    try context.requireMaster()
    var change = DeviceChange()
    change.registrationLock = .set(nil)
    return try await apply(change, context)
  }

  private func apply(_ change: DeviceChange, _ context: DeviceContext) async throws(Problem) -> Response {
    try await accounts.update(context.caller.address, change, in: store)
    return .done
  }
}
