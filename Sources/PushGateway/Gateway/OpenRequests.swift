import NIOCore
import Synchronization

/// The requests that are being served, so that those whose caller has gone are given up (reference 9).
final class OpenRequests: Sendable {
  private struct State {
    /// By connection: HTTP/1.1 has one request at a time on each.
    var requests: [ObjectIdentifier: OpenRequest] = [:]
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
    let request = OpenRequest()
    let isStopped = state.withLock { state in
      state.requests[connection] = request
      return state.isStopped
    }
    if isStopped { request.cancel() }
    defer { state.withLock { $0.requests[connection] = nil } }
    // Begins on this thread at once: as a rule it goes on there until it waits for the provider.
    let work = Task.immediate { await body() }
    request.began { work.cancel() }
    return await withTaskCancellationHandler {
      await work.value
    } onCancel: {
      work.cancel()
    }
  }

  /// Gives all of them up, and those that come later; what is under way at a provider is let finish.
  func giveUpAll() {
    let requests = state.withLock { state in
      state.isStopped = true
      return Array(state.requests.values)
    }
    for request in requests { request.cancel() }
  }

  fileprivate func callerLeft(_ connection: ObjectIdentifier) {
    state.withLock { $0.requests[connection] }?.cancel()
  }
}

/// A request whose work may be cancelled before it has begun.
private final class OpenRequest: Sendable {
  private let state = Mutex<(isCancelled: Bool, cancel: (@Sendable () -> Void)?)>((false, nil))

  func began(_ cancel: @escaping @Sendable () -> Void) {
    let isCancelled = state.withLock { state in
      state.cancel = cancel
      return state.isCancelled
    }
    if isCancelled { cancel() }
  }

  func cancel() {
    let cancel = state.withLock { state in
      state.isCancelled = true
      return state.cancel
    }
    cancel?()
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

/// How much of bodies is open at a time: a notification takes several times its body in memory until it is answered,
/// also one that only waits for another.
final class OpenBytes: Sendable {
  private let max: Int
  private let taken = Mutex(0)

  init(max: Int) { self.max = max }

  /// - Returns: false if there is no room. Bytes that were taken must be given back.
  func take(_ count: Int) -> Bool {
    taken.withLock { taken in
      guard count <= max - taken else { return false }
      taken += count
      return true
    }
  }

  func giveBack(_ count: Int) {
    taken.withLock { $0 -= count }
  }
}
