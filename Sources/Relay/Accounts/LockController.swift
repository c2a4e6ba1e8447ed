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

  package init(store: any AccountStore, accounts: AccountCache, limits: CodeLimits, locks: RegistrationLocks) {
    self.store = store
    self.accounts = accounts
    self.limits = limits
    self.locks = locks
  }

  package func addRoutes(to router: some RouterMethods<DeviceContext>) {
    router.resource("/v1/accounts/pin", [(.put, set), (.delete, remove)])
  }

  @Sendable private func set(_ request: Request, _ context: DeviceContext) async throws(Problem) -> Response {
    try context.requireMaster()
    let body = try await request.jsonBody(max: WireLimits.smallRequestBytesMax)
    let pin = try body.decodeJSON(PinCodec.decode)
    try await limits.chargeLock(by: context.caller.address)
    return try await store(try await locks.hash(pin), context)
  }

  @Sendable private func remove(_ request: Request, _ context: DeviceContext) async throws(Problem) -> Response {
    try context.requireMaster()
    return try await store(nil, context)
  }

  private func store(_ lock: PasswordHash?, _ context: DeviceContext) async throws(Problem) -> Response {
    var change = DeviceChange()
    change.registrationLock = .set(lock)
    try await accounts.update(context.caller.address, change, in: store)
    return .done
  }
}
