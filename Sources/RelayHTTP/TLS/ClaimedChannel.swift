package import HummingbirdCore
package import Logging
package import NIOCore
import Synchronization

/// Sets a connection up only once a task stands ready to serve it, and ends it before that task does.
///
/// NIO's asynchronous channels end the process when one is dropped unserved ("Deinited NIOAsyncWriter without calling
/// finish()"). Hummingbird drops them where a shutdown meets a connection, or an HTTP/2 stream, that has just come
/// in. Here a dropped connection is closed, and a cancelled one is closed before its streams lose their reader.
///
/// A connection that has not ended by itself within `grace` of a graceful shutdown is closed: a client that is stopped
/// or cut off must not keep the process.
package struct ClaimedChannel<Base: ServerChildChannel>: ServerChildChannel {
  package struct Value: ServerChildChannelValue {
    fileprivate let claim: Claim
    package var channel: any Channel { claim.channel }
  }

  private let base: Base
  private let grace: Duration

  package init(_ base: Base, grace: Duration = .seconds(20)) {
    self.base = base
    self.grace = grace
  }

  package func setup(channel: any Channel, logger: Logger) -> EventLoopFuture<Value> {
    channel.eventLoop.makeCompletedFuture {
      let guardian = QuiesceGuard(grace: TimeAmount(grace), holdsReads: true)
      try channel.pipeline.syncOperations.addHandler(guardian)
      // Nothing is read until there is someone to read it.
      try channel.syncOptions?.setOption(.autoRead, value: false)
      return Value(claim: Claim(channel, guardian))
    }
  }

  package func handle(value: Value, logger: Logger) async {
    let channel = value.channel
    let guardian = value.claim.take()
    let served: Base.Value
    do {
      served = try await channel.eventLoop.flatSubmit {
        base.setup(channel: channel, logger: logger).flatMapThrowing { served in
          guardian.value.servingBegan()
          try channel.syncOptions?.setOption(.autoRead, value: true)
          return served
        }
      }.get()
    } catch {
      logger.debug("connection could not be set up", metadata: ["error": "\(FaultWords.of(error))"])
      channel.close(promise: nil)
      return
    }
    // A task of its own, which inherits task-locals but not the cancellation: the channel is closed first.
    let serving = Task { await base.handle(value: served, logger: logger) }
    await withTaskCancellationHandler {
      await serving.value
    } onCancel: {
      channel.close(promise: nil)
      channel.closeFuture.whenComplete { _ in serving.cancel() }
    }
  }
}

/// A connection that waits for a task; closes it when it is dropped.
private final class Claim: Sendable {
  let channel: any Channel
  private let guardian: NIOLoopBound<QuiesceGuard>
  private let isTaken = Atomic(false)

  init(_ channel: any Channel, _ guardian: QuiesceGuard) {
    self.channel = channel
    self.guardian = NIOLoopBound(guardian, eventLoop: channel.eventLoop)
  }

  deinit {
    if !isTaken.load(ordering: .acquiring) { channel.close(promise: nil) }
  }

  func take() -> NIOLoopBound<QuiesceGuard> {
    isTaken.store(true, ordering: .releasing)
    return guardian
  }
}

/// Sees to it that a connection ends when the server shuts down: at once while nobody serves it, since nobody else
/// would close it then, and after a time of grace when it is served.
final class QuiesceGuard: ChannelInboundHandler, RemovableChannelHandler {
  typealias InboundIn = NIOAny

  /// Whether handlers behind this one finish what is under way.
  private var isServing = false
  private let grace: TimeAmount
  /// Whether what is read before somebody serves is kept for them. NIO asks nobody when a client has closed its side:
  /// then all that it sent comes at once, and would be lost, and the connection with it be forgotten open.
  private let holdsReads: Bool
  private var held: [NIOAny] = []
  private var isInputClosed = false
  private var context: ChannelHandlerContext?
  private var timer: Scheduled<Void>?

  /// Reads of NIO that are held: together far more than a kernel's buffer holds.
  private static let heldMax = 4096

  init(grace: TimeAmount, holdsReads: Bool = false) {
    self.grace = grace
    self.holdsReads = holdsReads
  }

  /// Handlers stand behind this one: what has come goes on to them.
  func servingBegan() {
    isServing = true
    guard let context else { return }
    let reads = held
    held = []
    for read in reads { context.fireChannelRead(read) }
    if !reads.isEmpty { context.fireChannelReadComplete() }
    if isInputClosed { context.fireUserInboundEventTriggered(ChannelEvent.inputClosed) }
  }

  func handlerAdded(context: ChannelHandlerContext) { self.context = context }
  func handlerRemoved(context: ChannelHandlerContext) {
    timer?.cancel()
    self.context = nil
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    guard holdsReads, !isServing else { return context.fireChannelRead(data) }
    guard held.count < Self.heldMax else { return context.close(promise: nil) }
    held.append(data)
  }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    if holdsReads, !isServing, case ChannelEvent.inputClosed = event {
      isInputClosed = true
      return
    }
    guard event is ChannelShouldQuiesceEvent else { return context.fireUserInboundEventTriggered(event) }
    guard isServing else { return context.close(promise: nil) }
    let channel = context.channel
    timer = context.eventLoop.scheduleTask(in: grace) { channel.close(promise: nil) }
    context.fireUserInboundEventTriggered(event)
  }

  func channelInactive(context: ChannelHandlerContext) {
    timer?.cancel()
    held = []
    context.fireChannelInactive()
  }
}
