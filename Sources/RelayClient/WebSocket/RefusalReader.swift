import NIOCore
import NIOHTTP1

/// Gathers an answer that is no upgrade.
final class RefusalReader: ChannelInboundHandler {
  typealias InboundIn = HTTPClientResponsePart

  private static let bodyBytesMax = 64 << 10
  private let promise: EventLoopPromise<ClientSocketOpener.Refusal>
  private var head: HTTPResponseHead?
  private var body: [UInt8] = []

  init(_ promise: EventLoopPromise<ClientSocketOpener.Refusal>) { self.promise = promise }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    switch Self.unwrapInboundIn(data) {
    case .head(let head): self.head = head
    case .body(let part): body += part.readableBytesView.prefix(Self.bodyBytesMax - body.count)
    case .end: finish()
    }
  }

  func channelInactive(context: ChannelHandlerContext) { finish() }
  func handlerRemoved(context: ChannelHandlerContext) { finish() }
  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    promise.fail(error)
    context.close(promise: nil)
  }

  /// The first word counts: a promise that was kept stays as it is.
  private func finish() {
    guard let head else { return promise.fail(ChannelError.ioOnClosedChannel) }
    var headers: [String: String] = [:]
    for field in head.headers { headers[field.name.lowercased()] = field.value }
    promise.succeed(ClientSocketOpener.Refusal(status: Int(head.status.code), headers: headers, body: body))
  }
}
