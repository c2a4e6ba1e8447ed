import NIOCore
import NIOPosix

/// Asks a server on loopback whether it is there.
enum Probe {
  private static let limit = TimeAmount.seconds(2)

  /// - Throws: when nobody listens.
  static func connect(port: Int) async throws {
    let channel = try await ClientBootstrap(group: .singletonMultiThreadedEventLoopGroup)
      .connectTimeout(limit).connect(host: "127.0.0.1", port: port).get()
    try await channel.close().get()
  }

  /// Sends one `GET` and waits for its answer.
  static func get(_ path: String, port: Int) async throws -> Answer {
    let loop = MultiThreadedEventLoopGroup.singleton.next()
    let promise = loop.makePromise(of: Answer.self)
    let cutOff = loop.scheduleTask(in: limit) { promise.fail(BenchmarkFailure("no answer in time")) }
    defer { cutOff.cancel() }
    let request = ByteBuffer(string: "GET \(path) HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
    let channel: any Channel
    do {
      channel = try await ClientBootstrap(group: loop)
        .connectTimeout(limit)
        .channelInitializer { channel in
          channel.eventLoop.makeCompletedFuture {
            try channel.pipeline.syncOperations.addHandler(OneAnswer(promise))
          }
        }
        .connect(host: "127.0.0.1", port: port).get()
      channel.writeAndFlush(request, promise: nil)
    } catch {
      promise.fail(error)
      throw error
    }
    defer { channel.close(promise: nil) }
    return try await promise.futureResult.get()
  }
}

/// Keeps the first answer of a connection.
private final class OneAnswer: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer
  private var reader = AnswerReader()
  private let promise: EventLoopPromise<Answer>

  init(_ promise: EventLoopPromise<Answer>) { self.promise = promise }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    var bytes = unwrapInboundIn(data)
    reader.append(&bytes)
    do {
      if let answer = try reader.next() { promise.succeed(answer) }
    } catch {
      promise.fail(error)
    }
  }

  func channelInactive(context: ChannelHandlerContext) { promise.fail(ChannelError.eof) }
  func errorCaught(context: ChannelHandlerContext, error: any Error) { promise.fail(error) }
}
