import NIOCore
import Synchronization

/// The requests that are being served, so that those whose caller has gone are given up (reference 9).
final class OpenRequests: Sendable {
  /// By connection: HTTP/1.1 has one request at a time on each.
  private let state = Mutex<[ObjectIdentifier: @Sendable () -> Void]>([:])

  /// Runs `body` in a task that is cancelled when the caller at the other end of `channel` leaves.
  func serve<Value: Sendable>(
    over channel: any Channel, _ body: @escaping @Sendable () async -> Value
  ) async -> Value {
    let work = Task { await body() }
    let connection = ObjectIdentifier(channel)
    state.withLock { $0[connection] = { work.cancel() } }
    defer { state.withLock { $0[connection] = nil } }
    return await withTaskCancellationHandler {
      await work.value
    } onCancel: {
      work.cancel()
    }
  }

  /// Gives all of them up; what is under way at a provider is let finish.
  func giveUpAll() {
    for cancel in state.withLock({ Array($0.values) }) { cancel() }
  }

  fileprivate func callerLeft(_ connection: ObjectIdentifier) {
    state.withLock { $0[connection] }?()
  }
}

/// Notices that a caller has left while its answer is being made: HTTP/1.1 itself tells nobody.
///
/// Half of a connection is taken for all of it: no homeserver closes its own half and waits for the answer.
final class CallerWatch: ChannelInboundHandler, RemovableChannelHandler {
  typealias InboundIn = NIOAny
  typealias InboundOut = NIOAny
  private let open: OpenRequests

  init(_ open: OpenRequests) { self.open = open }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    if case .inputClosed? = event as? ChannelEvent { open.callerLeft(ObjectIdentifier(context.channel)) }
    context.fireUserInboundEventTriggered(event)
  }

  func channelInactive(context: ChannelHandlerContext) {
    open.callerLeft(ObjectIdentifier(context.channel))
    context.fireChannelInactive()
  }
}
