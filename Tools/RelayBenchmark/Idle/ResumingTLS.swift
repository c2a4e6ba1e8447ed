import COpenSSL
import NIOCore

/// A client's side of TLS 1.3 that resumes sessions, which NIOSSL's cannot: OpenSSL between two buffers in memory. The
/// server's certificate is not looked at, because the relay alone is measured.
///
/// Handlers behind it learn that the connection is active when the handshake is over.
final class ResumingTLS: ChannelDuplexHandler {
  typealias InboundIn = ByteBuffer
  typealias InboundOut = ByteBuffer
  typealias OutboundIn = ByteBuffer
  typealias OutboundOut = ByteBuffer

  private let ssl: OpaquePointer
  private let encrypted: (incoming: OpaquePointer, outgoing: OpaquePointer)
  private let shookHands: (_ isResumed: Bool) -> Void
  private let ended: (TLSTicket) -> Void
  private var isOpen = false

  private static let pieceBytes = 16 << 10

  /// - Parameters:
  ///   - ticket: of an earlier connection to the same server; nil for a full handshake.
  ///   - shookHands: called once the handshake is over.
  ///   - ended: called with the ticket for the next connection, when this one is over.
  init(
    _ context: borrowing TLSClientContext, resuming ticket: TLSTicket?,
    shookHands: @escaping (_ isResumed: Bool) -> Void, ended: @escaping (TLSTicket) -> Void
  ) throws(BenchmarkFailure) {
    guard let ssl = SSL_new(context.pointer), let incoming = BIO_new(BIO_s_mem()), let outgoing = BIO_new(BIO_s_mem())
    else { throw BenchmarkFailure("OpenSSL has no memory left") }
    // They are freed with it.
    SSL_set_bio(ssl, incoming, outgoing)
    SSL_set_connect_state(ssl)
    let protocols = [8] + Array("http/1.1".utf8)
    SSL_set_alpn_protos(ssl, protocols, UInt32(protocols.count))
    if let ticket { SSL_set_session(ssl, ticket.pointer) }
    self.ssl = ssl
    encrypted = (incoming, outgoing)
    self.shookHands = shookHands
    self.ended = ended
  }

  deinit {
    // OpenSSL would not resume the session of a connection that was not closed properly.
    SSL_set_shutdown(ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN)
    SSL_free(ssl)
  }

  func channelActive(context: ChannelHandlerContext) { shakeHands(context) }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    unwrapInboundIn(data).withUnsafeReadableBytes { bytes in
      _ = BIO_write(encrypted.incoming, bytes.baseAddress, Int32(bytes.count))
    }
    if !isOpen { shakeHands(context) }
    if isOpen { read(context) }
  }

  func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
    let plain = unwrapOutboundIn(data)
    // The buffer for what is sent takes all of it.
    let written = plain.withUnsafeReadableBytes { SSL_write(ssl, $0.baseAddress, Int32($0.count)) }
    guard written == plain.readableBytes else {
      promise?.fail(BenchmarkFailure("OpenSSL does not encrypt"))
      return
    }
    context.write(wrapOutboundOut(takeOutgoing(context)), promise: promise)
  }

  func channelInactive(context: ChannelHandlerContext) {
    if isOpen, let session = SSL_get1_session(ssl) { ended(TLSTicket(taking: session)) }
    context.fireChannelInactive()
  }

  private func shakeHands(_ context: ChannelHandlerContext) {
    ERR_clear_error()
    let code = SSL_do_handshake(ssl)
    let isWaiting = code != 1 && SSL_get_error(ssl, code) == SSL_ERROR_WANT_READ
    context.writeAndFlush(wrapOutboundOut(takeOutgoing(context)), promise: nil)
    if code == 1 {
      isOpen = true
      shookHands(SSL_session_reused(ssl) == 1)
      context.fireChannelActive()
    } else if !isWaiting {
      context.fireErrorCaught(BenchmarkFailure("a TLS handshake failed"))
      context.close(promise: nil)
    }
  }

  private func read(_ context: ChannelHandlerContext) {
    while true {
      ERR_clear_error()
      var plain = context.channel.allocator.buffer(capacity: Self.pieceBytes)
      var code: Int32 = 0
      plain.writeWithUnsafeMutableBytes(minimumWritableBytes: Self.pieceBytes) { bytes in
        code = SSL_read(ssl, bytes.baseAddress, Int32(bytes.count))
        return Int(max(0, code))
      }
      guard code > 0 else {
        // More is to come, or the server has closed.
        if SSL_get_error(ssl, code) != SSL_ERROR_WANT_READ { context.close(promise: nil) }
        break
      }
      context.fireChannelRead(wrapInboundOut(plain))
    }
  }

  private func takeOutgoing(_ context: ChannelHandlerContext) -> ByteBuffer {
    let count = BIO_ctrl_pending(encrypted.outgoing)
    var all = context.channel.allocator.buffer(capacity: count)
    all.writeWithUnsafeMutableBytes(minimumWritableBytes: count) { bytes in
      Int(max(0, BIO_read(encrypted.outgoing, bytes.baseAddress, Int32(count))))
    }
    return all
  }
}

/// What TLS has in common for all connections of the devices.
struct TLSClientContext: ~Copyable, Sendable {
  // OpenSSL's contexts may be used by several threads at once.
  nonisolated(unsafe) fileprivate let pointer: OpaquePointer

  init() throws(BenchmarkFailure) {
    guard let pointer = SSL_CTX_new(TLS_client_method()) else { throw BenchmarkFailure("OpenSSL has no memory left") }
    self.pointer = pointer
  }

  deinit { SSL_CTX_free(pointer) }
}

/// The session that a server lets a client resume.
final class TLSTicket: Sendable {
  // Never changed, and used by one connection at a time.
  nonisolated(unsafe) fileprivate let pointer: OpaquePointer

  fileprivate init(taking pointer: OpaquePointer) { self.pointer = pointer }

  deinit { SSL_SESSION_free(pointer) }
}
