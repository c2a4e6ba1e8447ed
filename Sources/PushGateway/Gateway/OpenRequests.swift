import NIOCore
import Synchronization

/// The requests that are being served, so that those whose caller has gone are given up (reference 9).
final class OpenRequests: Sendable {
  private struct State {
    /// By connection: HTTP/1.1 has one request at a time on each.
    var cancels: [ObjectIdentifier: @Sendable () -> Void] = [:]
    /// Whether all are given up, those too whose bodies are still to come.
    var isStopped = false
  }
  private let state = Mutex(State())

  /// Whether no request is to be begun any more.
  var isStopped: Bool { state.withLock { $0.isStopped } }

  /// Runs `body` in a task that is cancelled when the caller at the other end of `connection` leaves, and once all are
  /// given up.
  func serve<Value: Sendable>(
    over connection: ObjectIdentifier, _ body: @escaping @Sendable () async -> Value
  ) async -> Value {
    let work = Task { await body() }
    let isStopped = state.withLock { state in
      state.cancels[connection] = { work.cancel() }
      return state.isStopped
    }
    if isStopped { work.cancel() }
    defer { state.withLock { $0.cancels[connection] = nil } }
    return await withTaskCancellationHandler {
      await work.value
    } onCancel: {
      work.cancel()
    }
  }

  /// Gives all of them up, and those that come later; what is under way at a provider is let finish.
  func giveUpAll() {
    let cancels = state.withLock { state in
      state.isStopped = true
      return Array(state.cancels.values)
    }
    for cancel in cancels { cancel() }
  }

  fileprivate func callerLeft(_ connection: ObjectIdentifier) {
    state.withLock { $0.cancels[connection] }?()
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
