import Foundation
import NIOCore

/// One client of an XMPP server (RFC 6120): it logs in by PLAIN, binds a resource, and then sends and counts messages.
/// It takes only what the server of the benchmark sends. Belongs to the load's event loop.
final class XMPPConnection: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer
  typealias OutboundOut = ByteBuffer

  private enum State {
    case opening, authenticating, reopening, binding, ready
  }

  private let user: String
  private let domain: String
  private let password: String
  private let opened: EventLoopPromise<Void>
  private var state = State.opening
  private var received = ByteBuffer()
  private var context: ChannelHandlerContext?
  /// Called with the id of each message that comes.
  var delivered: (Int64) -> Void = { _ in }
  /// Called when the server has answered a ping.
  var ponged: () -> Void = {}

  init(_ user: String, at domain: String, password: String, opened: EventLoopPromise<Void>) {
    (self.user, self.domain, self.password, self.opened) = (user, domain, password, opened)
  }

  func channelActive(context: ChannelHandlerContext) {
    self.context = context
    openStream()
  }

  /// - Parameter id: a number, which its recipient is told.
  func send(to user: String, id: Int64, body: String, flushing: Bool = true) {
    write("<message type='chat' to='\(user)@\(domain)' id='\(id)'><body>\(body)</body></message>", flushing)
  }

  /// The server answers it behind all that was sent before.
  func ping() {
    write("<iq type='get' id='ping' to='\(domain)'><ping xmlns='urn:xmpp:ping'/></iq>", true)
  }

  private func openStream() {
    write(
      "<stream:stream to='\(domain)' xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' "
        + "version='1.0'>", true)
  }

  private func write(_ text: String, _ flushing: Bool) {
    guard let context else { return }
    context.write(wrapOutboundOut(ByteBuffer(string: text)), promise: nil)
    if flushing { context.flush() }
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    var bytes = unwrapInboundIn(data)
    received.writeBuffer(&bytes)
    guard state != .ready else { return readStanzas() }
    switch state {
    case .opening where take("</stream:features>"):
      state = .authenticating
      let plain = Data("\0\(user)\0\(password)".utf8).base64EncodedString()
      write("<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>\(plain)</auth>", true)
    case .authenticating where take("<success"):
      // Its end is in the same bytes, or is passed over with the next stream's head.
      state = .reopening
      openStream()
    case .authenticating where take("<failure"): opened.fail(BenchmarkFailure("ejabberd refused a login"))
    case .reopening where take("</stream:features>"):
      state = .binding
      write("<iq type='set' id='bind'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></iq>", true)
    case .binding where take("</iq>"):
      state = .ready
      write("<presence/>", true)
      opened.succeed(())
    default: break
    }
  }

  /// Takes all that came when `mark` is in it: the server says nothing more by itself then.
  private func take(_ mark: String) -> Bool {
    guard received.readableBytesView.firstRange(of: Array(mark.utf8)) != nil else { return false }
    received.clear()
    return true
  }

  private func readStanzas() {
    while let end = received.readableBytesView.firstRange(of: Self.messageEnd) {
      let length = end.upperBound - received.readerIndex
      guard let stanza = received.readSlice(length: length) else { break }
      if stanza.readableBytesView.firstRange(of: Self.pong) != nil { ponged() }
      if let id = Self.id(stanza.readableBytesView) { delivered(id) }
    }
    // What is no message is short, and nobody looks for its end.
    if received.readableBytesView.firstRange(of: Self.pong) != nil {
      received.clear()
      ponged()
    }
    received.discardReadBytes()
  }

  private static let messageEnd = Array("</message>".utf8)
  private static let pong = Array("id='ping'".utf8)

  /// The number that a message has for its id.
  private static func id(_ stanza: ByteBufferView) -> Int64? {
    guard let message = stanza.firstRange(of: Array("<message".utf8)),
      let mark = stanza[message.upperBound...].firstRange(of: Array(" id='".utf8))
    else { return nil }
    let digits = stanza[mark.upperBound...].prefix { $0 != UInt8(ascii: "'") }
    return Int64(String(decoding: digits, as: UTF8.self))
  }

  func channelInactive(context: ChannelHandlerContext) {
    self.context = nil
    opened.fail(BenchmarkFailure("ejabberd closed a connection"))
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    opened.fail(error)
    context.close(promise: nil)
  }
}
