package import Hummingbird
package import RelayCore
package import RelayHTTP

/// The client API as one router: a table of contents of who answers what.
package struct ClientEdge: Sendable {
  /// The controllers of this feature.
  package struct Controllers: Sendable {
    let account: AccountController
    let registration: RegistrationController
    let push: PushController
    let lock: LockController
    let devices: DevicesController
    let provisioning: ProvisioningController
    let keys: KeysController
    let messages: MessagesController

    package init(
      account: AccountController, registration: RegistrationController, push: PushController, lock: LockController,
      devices: DevicesController, provisioning: ProvisioningController, keys: KeysController,
      messages: MessagesController
    ) {
      self.account = account
      self.registration = registration
      self.push = push
      self.lock = lock
      self.devices = devices
      self.provisioning = provisioning
      self.keys = keys
      self.messages = messages
    }
  }

  private let accounts: AccountCache
  private let forwarded: ForwardedMiddleware
  private let origins: AllowedOrigins
  private let controllers: Controllers?
  private let elsewhere: ElsewhereMiddleware<ClientContext>?
  private let openRoutes: @Sendable (any RouterMethods<ClientContext>) -> Void
  private let deviceRoutes: @Sendable (any RouterMethods<DeviceContext>) -> Void

  /// - Parameters:
  ///   - controllers: nil in a process that leaves this feature to others.
  ///   - elsewhere: answers for what this process leaves to others; nil when it has all of the API.
  ///   - openRoutes: adds routes of other features for everybody.
  ///   - deviceRoutes: adds routes of other features for authenticated devices.
  package init(
    accounts: AccountCache, forwarded: ForwardedMiddleware, origins: AllowedOrigins = .unsaid,
    controllers: Controllers?, elsewhere: ElsewhereMiddleware<ClientContext>? = nil,
    openRoutes: @escaping @Sendable (any RouterMethods<ClientContext>) -> Void = { _ in },
    deviceRoutes: @escaping @Sendable (any RouterMethods<DeviceContext>) -> Void
  ) {
    self.accounts = accounts
    self.forwarded = forwarded
    self.origins = origins
    self.controllers = controllers
    self.elsewhere = elsewhere
    self.openRoutes = openRoutes
    self.deviceRoutes = deviceRoutes
  }

  package func router() -> Router<ClientContext> {
    let router = Router(context: ClientContext.self)
    // Refusals are for pages to read, too.
    if origins != .unsaid { router.add(middleware: OriginMiddleware(origins)) }
    router.add(middleware: ProblemMiddleware(edge: "client"))
    router.add(middleware: forwarded)
    if let elsewhere { router.add(middleware: elsewhere) }
    // Before the authenticated ones: these endpoints ignore credentials, or create them (reference 1.1, 1.2).
    controllers?.registration.addRoutes(to: router)
    controllers?.devices.addRoutes(to: router)
    openRoutes(router)
    let devices = DeviceRoutes(
      open: router,
      authenticated: router.group().add(middleware: Authentication(accounts: accounts))
        .group(context: DeviceContext.self))
    if let controllers { Self.add(controllers, to: devices) }
    deviceRoutes(devices)
    return router
  }

  private static func add(_ controllers: Controllers, to devices: some RouterMethods<DeviceContext>) {
    controllers.account.addRoutes(to: devices)
    controllers.registration.addDeviceRoutes(to: devices)
    controllers.push.addRoutes(to: devices)
    controllers.lock.addRoutes(to: devices)
    controllers.devices.addDeviceRoutes(to: devices)
    controllers.provisioning.addRoutes(to: devices)
    controllers.keys.addRoutes(to: devices)
    controllers.messages.addRoutes(to: devices)
  }
}

/// The routes of authenticated devices.
private struct DeviceRoutes: RouterMethods, GuardedRoutes {
  let open: Router<ClientContext>
  let authenticated: RouterGroup<DeviceContext>

  func on<Responder: HTTPResponder>(_ path: RouterPath, method: HTTPRequest.Method, responder: Responder) -> Self
  where Responder.Context == DeviceContext {
    authenticated.on(path, method: method, responder: responder)
    return self
  }

  func add(middleware: any MiddlewareProtocol<Request, Response, DeviceContext>) -> Self {
    authenticated.add(middleware: middleware)
    return self
  }

  func refuse(at path: RouterPath, allowing allowed: [HTTPRequest.Method]) {
    open.refuse(at: path, allowing: allowed)
  }
}
