package import Hummingbird
package import RelayCore

/// What travels with every request of the client edge.
package struct ClientContext: RequestContext {
  package var coreContext: CoreRequestContextStorage
  /// Set by the authentication middleware.
  package var caller: Caller?
  /// Where the request comes from. Until `ForwardedMiddleware` has looked, whoever holds the connection.
  package var origin: RequestOrigin

  package init(source: ApplicationRequestContextSource) {
    coreContext = .init(source: source)
    origin = RequestOrigin(address: source.channel.remoteAddress.flatMap(ClientAddress.init), isSecure: false)
  }
}

/// The device that a request proved itself to come from, and its account at that moment.
package struct Caller: Sendable {
  package let address: DeviceAddress
  package let account: Account

  package init(address: DeviceAddress, account: Account) {
    self.address = address
    self.account = account
  }
}

/// A request that has proved its device.
package struct DeviceContext: ChildRequestContext {
  package var coreContext: CoreRequestContextStorage
  package let caller: Caller
  package let origin: RequestOrigin

  package init(context: ClientContext) throws {
    guard let caller = context.caller else { throw Problem(.unauthorized) }
    self.coreContext = context.coreContext
    self.caller = caller
    self.origin = context.origin
  }
}
