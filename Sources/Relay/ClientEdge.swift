package import Hummingbird
import RelayCore
package import RelayHTTP

/// The client API as one router: a table of contents of who answers what.
package struct ClientEdge: Sendable {
  let accounts: AccountCache
  let registration: RegistrationController
  let keys: KeysController
  let messages: MessagesController
  /// Routes of other features for authenticated devices.
  let others: @Sendable (any RouterMethods<DeviceContext>) -> Void

  package init(
    accounts: AccountCache, registration: RegistrationController, keys: KeysController, messages: MessagesController,
    others: @escaping @Sendable (any RouterMethods<DeviceContext>) -> Void
  ) {
    self.accounts = accounts
    self.registration = registration
    self.keys = keys
    self.messages = messages
    self.others = others
  }

  package func router() -> Router<ClientContext> {
    let router = Router(context: ClientContext.self)
    router.add(middleware: ProblemMiddleware(edge: "client"))
    // Before the authenticated ones: these endpoints ignore credentials that do not exist yet (reference 1.1).
    registration.addRoutes(to: router)
    let devices = router.group()
      .add(middleware: Authentication(accounts: accounts))
      .group(context: DeviceContext.self)
    keys.addRoutes(to: devices)
    messages.addRoutes(to: devices)
    others(devices)
    return router
  }
}
