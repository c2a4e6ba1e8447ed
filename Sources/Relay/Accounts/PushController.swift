package import Hummingbird
package import RelayCore
package import RelayHTTP

/// How a device can be reached, and what it says of itself (reference 1.5). All acts on the asking device alone.
package struct PushController: Sendable {
  private let store: any AccountStore
  private let accounts: AccountCache
  private let directory: (any DirectoryMirror)?
  private let limiter: any RateLimiter
  private let clock: WallClock
  private let webPush: WebPushTerms

  /// The terms for waking browsers.
  package struct WebPushTerms: Sendable {
    /// The key for making subscriptions: base64url of our public key; nil if this process wakes no browsers.
    let publicKey: @Sendable () -> String?
    /// Whether pushes to a subscription could ever be sent.
    let isUsable: @Sendable (WebPushRegistration) -> Bool

    package init(
      publicKey: @escaping @Sendable () -> String?, isUsable: @escaping @Sendable (WebPushRegistration) -> Bool
    ) {
      self.publicKey = publicKey
      self.isUsable = isUsable
    }
  }

  /// - Parameter directory: what look-ups of this process see; nil where they see the store itself.
  package init(
    store: any AccountStore, accounts: AccountCache, directory: (any DirectoryMirror)?, limiter: any RateLimiter,
    webPush: WebPushTerms, clock: WallClock
  ) {
    self.store = store
    self.accounts = accounts
    self.directory = directory
    self.limiter = limiter
    self.webPush = webPush
    self.clock = clock
  }

  package func addRoutes(to router: some RouterMethods<DeviceContext>) {
    router.resource("/v1/accounts/gcm", [(.put, registerFCM), (.delete, changing { _ in .forget(.fcm) })])
    router.resource("/v1/accounts/apn", [(.put, registerAPNs), (.delete, changing { _ in .forget(.apns) })])
    router.resource(
      "/v1/accounts/webpush",
      [(.get, webPushKey), (.put, registerWebPush), (.delete, changing { _ in .forget(.webPush) })])
    router.resource(
      "/v1/accounts/wsc", [(.put, changing { _ in .fetches(true) }), (.delete, changing { _ in .fetches(false) })])
    router.resource("/v1/accounts/attributes", [(.put, setAttributes)])
  }

  @Sendable private func registerFCM(_ request: Request, _ context: DeviceContext) async throws(Problem) -> Response {
    let body = try await context.jsonBody(of: request, max: WireLimits.smallRequestBytesMax)
    let form = try body.decodeJSON(GCMRegistration.decode)
    return try await apply(.register(.fcm(form.id), fetchesMessages: form.fetchesMessages, at: clock.now()), context)
  }

  @Sendable private func registerAPNs(_ request: Request, _ context: DeviceContext) async throws(Problem) -> Response {
    let body = try await context.jsonBody(of: request, max: WireLimits.smallRequestBytesMax)
    let form = try body.decodeJSON(APNRegistration.decode)
    return try await apply(.register(.apns(form.id, voip: form.voip), at: clock.now()), context)
  }

  /// Answers the key that a page hands to `PushManager.subscribe` as `applicationServerKey`.
  @Sendable private func webPushKey(_ request: Request, _ context: DeviceContext) async throws(Problem) -> Response {
    guard let key = webPush.publicKey() else { throw Problem(.notFound) }
    var json = JSONWriter(capacity: 128)
    json.beginObject()
    json.key("publicKey")
    json.string(key)
    json.endObject()
    return .json(json.bytes)
  }

  @Sendable private func registerWebPush(_ request: Request, _ context: DeviceContext) async throws(Problem) -> Response
  {
    let body = try await context.jsonBody(of: request, max: WireLimits.smallRequestBytesMax)
    let registration = try body.decodeJSON(WebPushRegistration.decode)
    guard webPush.isUsable(registration) else { throw Problem(.subscriptionRefused) }
    return try await apply(.register(.webPush(registration.id), at: clock.now()), context)
  }

  /// A request without a body that counts; one that comes is not looked at.
  private func changing(_ change: @escaping @Sendable (DeviceContext) -> DeviceChange) -> Handler<DeviceContext> {
    { request, context throws(Problem) in try await apply(change(context), context) }
  }

  /// Whether texts can be sent is said at registration alone: the clients that know this call do not say it. A pin has
  /// its own resource.
  @Sendable private func setAttributes(_ request: Request, _ context: DeviceContext) async throws(Problem) -> Response {
    let body = try await context.jsonBody(of: request, max: WireLimits.smallRequestBytesMax)
    let attributes = try body.attributes()
    var change = DeviceChange()
    change.signalingKey = .set(attributes.signalingKey)
    change.fetchesMessages = .set(attributes.fetchesMessages)
    change.registrationID = .set(attributes.registrationID)
    change.name = .set(attributes.name)
    change.userAgent = .set(request.signalAgent)
    change.voice = .set(attributes.voice)
    if let isDiscoverable = attributes.isDiscoverable { change.isDiscoverable = .set(isDiscoverable) }
    change.lastSeen = .set(clock.now().startOfDay)
    return try await apply(change, context)
  }

  private func apply(_ change: DeviceChange, _ context: DeviceContext) async throws(Problem) -> Response {
    try await limiter.charge(.accountChanges, LimitKey(context.caller.address.account))
    try await accounts.update(context.caller.address, change, in: store)
    await directory?.catchUp()
    return .done
  }
}
