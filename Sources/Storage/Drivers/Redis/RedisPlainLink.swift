// A connection in clear: hiredis's asynchronous context, tied to the reactor.

import CHiredis
import RelayCore

/// A hiredis context on a reactor's thread, in clear.
final class RedisPlainLink: RedisLink {
  private let reactor: Reactor
  private let handler: (RedisLinkEvent) -> Void
  /// nil once hiredis has freed it, or was told to.
  private var context: UnsafeMutablePointer<redisAsyncContext>?
  private let descriptor: Int32
  /// The events that hiredis waits for; epoll learns of them once a round, not at each change.
  private var interest: Reactor.Interest = []
  private var isConnected = false
  /// Why it did not come about.
  private var fault: RedisLinkFault?
  private var isFlushPlanned = false

  /// Begins to connect.
  /// - Throws: when that fails at once.
  init(_ address: RedisEndpoint.Address, on reactor: Reactor, handler: @escaping (RedisLinkEvent) -> Void)
    throws(RedisLinkFault)
  {
    let made =
      switch address {
      case .tcp(let host, let port): redisAsyncConnect(host, Int32(clamping: port))
      case .unix(let path): redisAsyncConnectUnix(path)
      }
    guard let context = made else { throw .cannotConnect }
    guard context.pointee.err == 0 else {
      let fault = Self.fault(of: context)
      redisAsyncFree(context)
      throw fault ?? .cannotConnect
    }
    self.reactor = reactor
    self.handler = handler
    self.context = context
    descriptor = context.pointee.c.fd
    RedisReplyBounds.apply(to: context.pointee.c.reader)
    attach(context)
  }

  func send(_ command: RedisCommand) {
    guard let context else { return }
    _ = command.terminated.withUnsafeBytes { bytes in
      redisAsyncFormattedCommand(
        context, { context, reply, _ in RedisPlainLink.of(context?.pointee.data)?.received(reply) }, nil,
        bytes.baseAddress?.assumingMemoryBound(to: CChar.self), command.byteCount)
    }
    planFlush()
  }

  func close() {
    guard let context else { return }
    self.context = nil
    // From within a callback hiredis does it when the callback has returned.
    redisAsyncFree(context)
  }
}

// MARK: - hiredis's hooks

extension RedisPlainLink {
  /// The context holds a reference to the link until hiredis calls `cleanup`, as it does exactly once.
  private func attach(_ context: UnsafeMutablePointer<redisAsyncContext>) {
    let owned = Unmanaged.passRetained(self).toOpaque()
    context.pointee.data = owned
    context.pointee.ev.data = owned
    context.pointee.ev.addRead = { RedisPlainLink.of($0)?.interest.insert(.read) }
    context.pointee.ev.delRead = { RedisPlainLink.of($0)?.interest.remove(.read) }
    context.pointee.ev.addWrite = { RedisPlainLink.of($0)?.interest.insert(.write) }
    context.pointee.ev.delWrite = { RedisPlainLink.of($0)?.interest.remove(.write) }
    context.pointee.ev.cleanup = { data in
      guard let data else { return }
      Unmanaged<RedisPlainLink>.fromOpaque(data).takeRetainedValue().freed()
    }
    redisAsyncSetConnectCallback(context) { context, status in
      guard let context, let link = RedisPlainLink.of(context.pointee.data) else { return }
      if status == REDIS_OK {
        link.connected()
      } else {
        // hiredis itself does not know why: it has asked the system twice.
        link.fault =
          RedisPlainLink.fault(of: UnsafeMutablePointer(mutating: context))
          ?? RedisLinkFault("cannot connect: nobody listens there, or no way leads there")
      }
    }
    interest = [.write]
    reactor.watch(descriptor, for: interest) { [self] in ready($0) }
  }

  private static func of(_ data: UnsafeMutableRawPointer?) -> RedisPlainLink? {
    data.map { Unmanaged<RedisPlainLink>.fromOpaque($0).takeUnretainedValue() }
  }

  /// Why a connection did not come about: names do not resolve, nobody listens.
  private static func fault(of context: UnsafeMutablePointer<redisAsyncContext>) -> RedisLinkFault? {
    guard context.pointee.err != 0, let words = context.pointee.errstr else { return nil }
    return RedisLinkFault("cannot connect: \(String(cString: words))")
  }

  private func connected() {
    isConnected = true
    handler(.connected)
  }

  /// hiredis calls every waiting callback without a reply when a connection ends: `closed` says it once for all.
  private func received(_ reply: UnsafeMutableRawPointer?) {
    guard context != nil, let reply else { return }
    handler(.reply(RedisReply(UnsafePointer(reply.assumingMemoryBound(to: redisReply.self)))))
  }

  /// The descriptor is still open here, so that epoll can forget it before its number is used again.
  private func freed() {
    reactor.unwatch(descriptor)
    guard context != nil else { return }
    context = nil
    handler(.closed(fault))
  }

  /// Each call into hiredis may free the context.
  private func ready(_ readiness: Reactor.Interest) {
    if readiness.contains(.read), let context { redisAsyncHandleRead(context) }
    if readiness.contains(.write), let context { redisAsyncHandleWrite(context) }
    applyInterest()
  }

  /// Before the connection stands only epoll may say that it can be written to: hiredis would take a connect that is
  /// still under way for a success.
  private func planFlush() {
    guard isConnected, !isFlushPlanned else { return }
    isFlushPlanned = true
    reactor.afterRound { [self] in
      isFlushPlanned = false
      if let context { redisAsyncHandleWrite(context) }
      applyInterest()
    }
  }

  private func applyInterest() {
    if context != nil { reactor.update(descriptor, for: interest) }
  }
}
