package import Hummingbird
package import Logging
package import NIOCore
package import RelayCore

/// The context of every request of the client edge.
package struct ClientContext: RequestContext {
  package var coreContext: CoreRequestContextStorage
  /// Set by the authentication middleware.
  package var caller: Caller?
  /// The origin of the request. Until `ForwardedMiddleware` has looked, the holder of the connection.
  package var origin: RequestOrigin
  /// Whether it came over a WebSocket: then its caller and its origin are the WebSocket's.
  package let isOverSocket: Bool
  /// The event loop that writes the answer; nil over a WebSocket.
  package let eventLoop: (any EventLoop)?

  package init(source: ApplicationRequestContextSource) {
    coreContext = .init(source: source)
    origin = RequestOrigin(address: source.channel.remoteAddress.flatMap(ClientAddress.init), isSecure: false)
    isOverSocket = false
    eventLoop = source.channel.eventLoop
  }

  /// The context of a request that came over a WebSocket.
  /// - Parameters:
  ///   - caller: the device that opened the WebSocket.
  ///   - origin: its origin, trusted proxies looked through.
  package init(caller: Caller, origin: RequestOrigin, logger: Logger) {
    coreContext = .init(source: SocketSource(logger: logger))
    self.caller = caller
    self.origin = origin
    isOverSocket = true
    eventLoop = nil
  }
}

private struct SocketSource: RequestContextSource {
  let logger: Logger
}

/// The device that a request proved itself to come from, and its account at that moment.
package struct Caller: Sendable {
  package let address: DeviceAddress
  package let account: Account
  /// Whether the device still is the one that proved itself: not removed, nor part of a former installation.
  let isStillProved: @Sendable () async throws(Problem) -> Bool

  package init(
    address: DeviceAddress, account: Account, isStillProved: @escaping @Sendable () async throws(Problem) -> Bool
  ) {
    self.address = address
    self.account = account
    self.isStillProved = isStillProved
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

extension DeviceContext {
  /// `Request.jsonBody` of a device's request: the one way in which these read their bodies.
  ///
  /// The device proved itself when the request's head came. Its body may come long after, and must not take effect once
  /// the device was removed or the account registered anew.
  /// - Throws: as `Request.jsonBody`; `.unauthorized` when the device is not any more the one that proved itself;
  ///   `.unavailable`.
  package func jsonBody(of request: Request, max: Int) async throws(Problem) -> ByteBuffer {
    let body = try await request.jsonBody(max: max)
    guard try await caller.isStillProved() else { throw Problem(.unauthorized) }
    return body
  }
}
