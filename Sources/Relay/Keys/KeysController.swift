package import Hummingbird
package import RelayCore
package import RelayHTTP

/// Prekeys of version 1 (reference 1.6).
package struct KeysController: Sendable {
  private let store: any PreKeyStore
  private let accounts: AccountCache
  private let local: any PreKeyDispenser
  private let courier: any Courier
  private let limiter: any RateLimiter

  package init(
    store: any PreKeyStore, accounts: AccountCache, local: any PreKeyDispenser, courier: any Courier,
    limiter: any RateLimiter
  ) {
    self.store = store
    self.accounts = accounts
    self.local = local
    self.courier = courier
    self.limiter = limiter
  }

  package func addRoutes(to router: some RouterMethods<DeviceContext>) {
    router.resource("/v1/keys", [(.put, upload), (.get, count)])
    router.resource("/v1/keys/:number", [(.get, drawOne)])
    router.resource("/v1/keys/:number/:device", [(.get, draw)])
  }

  @Sendable private func upload(_ request: Request, _ context: DeviceContext) async throws(Problem) -> Response {
    let body = try await request.jsonBody(max: WireLimits.preKeyRequestBytesMax)
    let upload = try body.decodeJSON(PreKeyCodec.decodeUpload)
    let address = context.caller.address
    let isStored: Bool
    do throws(StoreError) {
      isStored = try await store.replacePreKeys(of: address, with: upload)
    } catch {
      // A commit whose answer was lost may have replaced the identity key all the same.
      await accounts.changed(address.account)
      throw Problem(error)
    }
    await accounts.changed(address.account)
    // The device was removed since it proved itself.
    guard isStored else { throw Problem(.unauthorized) }
    return .done
  }

  @Sendable private func count(_ request: Request, _ context: DeviceContext) async throws(Problem) -> Response {
    do throws(StoreError) {
      return .json(PreKeyCodec.encode(count: try await store.preKeyCount(of: context.caller.address)))
    } catch {
      throw Problem(error)
    }
  }

  /// One bare object, of device 1.
  @Sendable private func drawOne(_ request: Request, _ context: DeviceContext) async throws(Problem) -> Response {
    let drawn = try await draw(request, context, .one(.master))
    guard let key = drawn.first else { throw Problem(.notFound) }
    return .json(PreKeyCodec.encode(key, withDevice: true))
  }

  @Sendable private func draw(_ request: Request, _ context: DeviceContext) async throws(Problem) -> Response {
    let selector = try DeviceSelector(text: try context.segment("device"))
    return .json(PreKeyCodec.encode(try await draw(request, context, selector)))
  }

  private func draw(_ request: Request, _ context: DeviceContext, _ selector: DeviceSelector) async throws(Problem)
    -> [DrawnPreKey]
  {
    let number = try context.number("number")
    try await limiter.charge(.preKeys, LimitKey(context.caller.address.account, number, selector))
    guard let relay = try request.relay() else { return try await local.draw(from: number, devices: selector) }
    return try await courier.preKeys(of: number, devices: selector, at: relay)
  }
}

extension Request {
  /// The `relay` of the query; an empty one counts as absent (reference 1.6).
  /// - Throws: `.notFound` for what cannot be a relay's name.
  func relay() throws(Problem) -> RelayName? {
    guard let text = uri.queryParameters.get("relay"), !text.isEmpty else { return nil }
    guard let relay = RelayName(text) else { throw Problem(.notFound) }
    return relay
  }
}
