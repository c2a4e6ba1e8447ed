// A connection to Redis inside TLS: hiredis connects and reads the protocol, OpenSSL encrypts. The hiredis that Debian
// has knows no TLS of its own.

import CHiredis
import COpenSSL
import Glibc
import RelayCore

/// hiredis's parser behind OpenSSL's records, on a reactor's thread.
///
/// Connecting -> shaking hands -> open -> closed; any state may become closed, which frees all of it.
final class RedisSecureLink: RedisLink {
  private enum State {
    case connecting
    case shakingHands
    case open
    case closed
  }
  private enum Bounds {
    static let recordBytes = 16_384
    /// Read in one go before others of the reactor have their turn.
    static let recordsMax = 16
  }

  private let host: String
  private let reactor: Reactor
  private let handler: (RedisLinkEvent) -> Void
  /// Owns the descriptor and the parser.
  private let context: UnsafeMutablePointer<redisContext>
  private let descriptor: Int32
  private let ssl: OpaquePointer
  private var state = State.connecting
  private var incoming = [UInt8](repeating: 0, count: Bounds.recordBytes)
  private var outgoing: [UInt8] = []
  /// How much of `outgoing` OpenSSL has taken.
  private var taken = 0
  private var isFlushPlanned = false
  /// OpenSSL has something of its own to write before it can read on.
  private var mustWriteToRead = false

  /// Begins to connect.
  /// - Parameters:
  ///   - host: that the certificate must be for.
  ///   - address: of the host.
  /// - Throws: when that fails at once, or a file of `files` cannot be used.
  init(
    host: String, at address: String, port: Int, _ files: RedisTLSFiles, on reactor: Reactor,
    handler: @escaping (RedisLinkEvent) -> Void
  ) throws(RedisLinkFault) {
    let tls = try RedisTLS(files)
    guard let context = redisConnectNonBlock(address, Int32(clamping: port)) else { throw .cannotConnect }
    guard context.pointee.err == 0 else {
      redisFree(context)
      throw .cannotConnect
    }
    do throws(RedisLinkFault) {
      ssl = try tls.start(host: host, on: context.pointee.fd)
    } catch {
      redisFree(context)
      throw error
    }
    RedisReplyBounds.apply(to: context.pointee.reader)
    self.host = host
    self.reactor = reactor
    self.handler = handler
    self.context = context
    descriptor = context.pointee.fd
    reactor.watch(descriptor, for: .write) { [self] _ in ready() }
  }

  var encryption: String? { state == .open ? String(cString: SSL_get_version(ssl)) : nil }

  var hurdle: String? {
    state == .shakingHands ? "\(host) does not answer TLS: is it the port of Redis's tls-port?" : nil
  }

  func send(_ command: RedisCommand) {
    guard state != .closed else { return }
    outgoing.append(contentsOf: command.terminated.dropLast())
    guard state == .open, !isFlushPlanned else { return }
    isFlushPlanned = true
    reactor.afterRound { [self] in
      isFlushPlanned = false
      flush()
    }
  }

  func close() {
    guard state != .closed else { return }
    // Says good-bye as far as the socket takes it; nobody waits for the answer.
    if state == .open { SSL_shutdown(ssl) }
    state = .closed
    // The descriptor is still open here, so that epoll can forget it before its number is used again.
    reactor.unwatch(descriptor)
    SSL_free(ssl)
    redisFree(context)
  }
}

// MARK: - On the reactor's thread

extension RedisSecureLink {
  private func end(_ fault: RedisLinkFault?) {
    guard state != .closed else { return }
    close()
    handler(.closed(fault))
  }

  private func ready() {
    switch state {
    case .closed: return
    case .connecting:
      var code: Int32 = 0
      var size = socklen_t(MemoryLayout<Int32>.size)
      guard getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &code, &size) == 0, code == 0 else { return end(nil) }
      state = .shakingHands
      shakeHands()
    case .shakingHands: shakeHands()
    case .open:
      read()
      flush()
    }
  }

  private func shakeHands() {
    ERR_clear_error()
    let code = SSL_do_handshake(ssl)
    guard code != 1 else {
      state = .open
      reactor.update(descriptor, for: .read)
      handler(.connected)
      // Bytes that came with the end of the handshake lie in OpenSSL, and epoll does not see them.
      return read()
    }
    switch SSL_get_error(ssl, code) {
    case SSL_ERROR_WANT_READ: reactor.update(descriptor, for: .read)
    case SSL_ERROR_WANT_WRITE: reactor.update(descriptor, for: .write)
    default: end(.ofTLS(ssl, host: host))
    }
  }

  /// Reads until there is nothing left: epoll speaks of the socket alone.
  private func read() {
    mustWriteToRead = false
    for _ in 0..<Bounds.recordsMax {
      guard state == .open else { return }
      ERR_clear_error()
      let count = SSL_read(ssl, &incoming, Int32(Bounds.recordBytes))
      guard count > 0 else {
        switch SSL_get_error(ssl, count) {
        case SSL_ERROR_WANT_READ: return
        case SSL_ERROR_WANT_WRITE: mustWriteToRead = true
        default: end(.ofTLS(ssl, host: host))
        }
        return
      }
      parse(Int(count))
    }
    reactor.schedule(after: .zero) { [self] in ready() }
  }

  private func parse(_ count: Int) {
    let isFed = incoming.withUnsafeBytes { bytes in
      redisReaderFeed(context.pointee.reader, bytes.baseAddress?.assumingMemoryBound(to: CChar.self), count)
    }
    guard isFed == REDIS_OK else { return end(Self.nonsense) }
    // Each reply may close the link.
    while state == .open {
      var reply: UnsafeMutableRawPointer?
      guard redisReaderGetReply(context.pointee.reader, &reply) == REDIS_OK else { return end(Self.nonsense) }
      guard let reply else { return }
      let copy = RedisReply(UnsafePointer(reply.assumingMemoryBound(to: redisReply.self)))
      freeReplyObject(reply)
      handler(.reply(copy))
    }
  }

  private func flush() {
    guard state == .open else { return }
    var isSocketFull = false
    while taken < outgoing.count, !isSocketFull {
      ERR_clear_error()
      let count = outgoing[taken...].withUnsafeBytes { SSL_write(ssl, $0.baseAddress, Int32(clamping: $0.count)) }
      guard count <= 0 else {
        taken += Int(count)
        continue
      }
      switch SSL_get_error(ssl, count) {
      case SSL_ERROR_WANT_WRITE: isSocketFull = true
      // The next thing that arrives brings us here again.
      case SSL_ERROR_WANT_READ: return
      default:
        // The alert that says why may have arrived.
        read()
        return end(nil)
      }
    }
    if taken == outgoing.count {
      outgoing.removeAll(keepingCapacity: outgoing.count <= Bounds.recordBytes)
      taken = 0
    }
    reactor.update(descriptor, for: isSocketFull || mustWriteToRead ? [.read, .write] : .read)
  }

  private static let nonsense = RedisLinkFault("what answers does not speak Redis's protocol")
}
