import HTTPTypes
import NIOCore
import NIOHTTP1
import NIOHTTPTypesHTTP1
import NIOWebSocket
import RelayCore

/// The opening of a WebSocket (RFC 6455, 4.2).
enum SocketHandshake {
  /// The refusal of a request to a path of the door, before the door is asked; nil for a well-formed request.
  ///
  /// `Origin` is anything (reference 1.12.1).
  static func refusal(of head: HTTPRequestHead) -> Problem? {
    guard head.method == .GET else { return Problem(.methodNotAllowed) }
    let headers = head.headers
    guard HostField.isProper(headers["host"], isOptional: head.version != .http1_1) else {
      return Problem(.invalidHost)
    }
    guard head.version == .http1_1,
      headers[canonicalForm: "upgrade"].contains(where: { $0.lowercased() == "websocket" }),
      headers[canonicalForm: "connection"].contains(where: { $0.lowercased() == "upgrade" }),
      headers["sec-websocket-version"] == ["13"], isKey(headers["sec-websocket-key"]), !hasBody(headers)
    else { return Problem(.upgradeRequired) }
    return nil
  }

  /// One, the base64 of 16 bytes.
  private static func isKey(_ values: [String]) -> Bool {
    guard values.count == 1, values[0].utf8.count == 24 else { return false }
    return Base64.decode(values[0])?.count == 16
  }

  private static func hasBody(_ headers: HTTPHeaders) -> Bool {
    headers.contains(name: "transfer-encoding") || headers["content-length"].contains { $0 != "0" }
  }

  /// The fields of the answer that opens the WebSocket. No extension is ever among them.
  static func fields(for head: HTTPRequestHead, on channel: any Channel) -> EventLoopFuture<HTTPHeaders> {
    // NIO's upgrader knows how to compute the answer; its handlers are not used
    // (docs/decisions/2026-11-21-websocket-transport.md).
    let upgrader = NIOTypedWebSocketServerUpgrader<Void>(
      shouldUpgrade: { channel, _ in channel.eventLoop.makeSucceededFuture([:]) },
      upgradePipelineHandler: { channel, _ in channel.eventLoop.makeSucceededVoidFuture() })
    return upgrader.buildUpgradeResponse(channel: channel, upgradeRequest: head, initialResponseHeaders: [:])
  }
}

/// Reads the head of one request that has come whole, and leaves: NIO's parser and what it feeds.
final class HeadReader: ChannelInboundHandler, RemovableChannelHandler {
  typealias InboundIn = HTTPServerRequestPart

  /// nil when it could not be read.
  private(set) var head: HTTPRequestHead?
  private var hasFailed = false

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    if case .head(let head) = unwrapInboundIn(data), !hasFailed { self.head = head }
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    hasFailed = true
    head = nil
  }

  /// - Parameter gate: the handler behind which the parser stands for the moment.
  /// - Returns: the head, and when the parser is gone again.
  static func read(
    _ bytes: ByteBuffer, limits: NIOHTTPDecoderLimitConfiguration, behind gate: any ChannelHandler,
    _ context: ChannelHandlerContext
  ) throws -> (head: HTTPRequestHead?, gone: EventLoopFuture<Void>) {
    let parser = ByteToMessageHandler(HTTPRequestDecoder(limitConfiguration: limits))
    let reader = HeadReader()
    let pipeline = context.pipeline.syncOperations
    try pipeline.addHandlers([parser, reader], position: .after(gate))
    context.fireChannelRead(NIOAny(bytes))
    let gone = pipeline.removeHandler(parser)
    return (reader.head, gone.and(pipeline.removeHandler(reader)).map { _ in })
  }
}
