package import HummingbirdCore
package import Logging
package import NIOCore

/// The events by which a connection tells its counter, as outbound events.
enum ConnectionEvent: Sendable {
  /// Its first request has come.
  case requestCame
  /// It is a WebSocket from here on.
  case isSocket
}

/// Serves those connections alone that have a place among `ConnectionShares`. To be served inside a `ClaimedChannel`.
package struct SharedChannel<Base: ServerChildChannel>: ServerChildChannel {
  package typealias Value = Base.Value
  private struct Refused: Error {}

  private let base: Base
  private let shares: ConnectionShares

  package init(_ base: Base, _ shares: ConnectionShares) {
    self.base = base
    self.shares = shares
  }

  package func setup(channel: any Channel, logger: Logger) -> EventLoopFuture<Base.Value> {
    do {
      guard let place = shares.take(for: channel) else { throw Refused() }
      try channel.pipeline.syncOperations.addHandler(PlaceHolder(place, shares))
      return base.setup(channel: channel, logger: logger)
    } catch {
      return channel.eventLoop.makeFailedFuture(error)
    }
  }

  package func handle(value: Base.Value, logger: Logger) async { await base.handle(value: value, logger: logger) }
}

/// Holds a connection's place until it ends or is a WebSocket.
private final class PlaceHolder: ChannelOutboundHandler, RemovableChannelHandler {
  typealias OutboundIn = Never

  private let place: ConnectionShares.Place
  private let shares: ConnectionShares
  private var isServing = false

  init(_ place: ConnectionShares.Place, _ shares: ConnectionShares) {
    self.place = place
    self.shares = shares
  }

  func triggerUserOutboundEvent(context: ChannelHandlerContext, event: Any, promise: EventLoopPromise<Void>?) {
    switch event {
    case ConnectionEvent.requestCame:
      promise?.succeed()
      guard !isServing else { return }
      isServing = shares.requestCame(place)
    case ConnectionEvent.isSocket:
      promise?.succeed()
      context.pipeline.syncOperations.removeHandler(self, promise: nil)
    default: context.triggerUserOutboundEvent(event, promise: promise)
    }
  }

  func handlerRemoved(context: ChannelHandlerContext) { shares.giveBack(place, wasServing: isServing) }
}
