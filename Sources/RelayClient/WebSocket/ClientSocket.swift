import NIOCore

/// A WebSocket as its client holds it. Safe to use from many tasks; it does not close by itself.
package final class ClientSocket: Sendable {
  /// A whole message, or a control frame that carries one.
  package enum Message: Sendable, Equatable {
    case text(String)
    case binary([UInt8])
    /// At most 125 bytes. Only sent: pings that come are answered without a word.
    case ping([UInt8])
    case pong([UInt8])
  }

  private let channel: any Channel
  private let handler: NIOLoopBound<ClientSocketHandler>
  private let end: EventLoopFuture<ConnectionEnd>

  /// On the channel's event loop.
  init(channel: any Channel, handler: ClientSocketHandler, end: EventLoopFuture<ConnectionEnd>) {
    self.channel = channel
    self.handler = NIOLoopBound(handler, eventLoop: channel.eventLoop)
    self.end = end
  }

  /// Sends `message`; on return it has been handed to the network. - Throws: how the connection ended.
  package func send(_ message: Message) async throws(ConnectionEnd) {
    let promise = channel.eventLoop.makePromise(of: Void.self)
    onLoop { $0.send(message, promise: promise) }
    do {
      try await promise.futureResult.get()
    } catch let end as ConnectionEnd {
      throw end
    } catch {
      throw .lost(reason: ClientSocketOpener.reason(error))
    }
  }

  /// Reads on, after the receiver had no room.
  package func resume() { onLoop { $0.resume() } }

  /// Begins to close by this client's word.
  package func beginClosing(code: UInt16 = 1000) { onLoop { $0.close(code: code) } }

  /// Closes by this client's word, and waits until that is done: at most some seconds.
  package func close(code: UInt16 = 1000) async {
    beginClosing(code: code)
    _ = await ended()
  }

  /// Drops the connection without a word.
  package func cut() { channel.close(promise: nil) }

  /// Waits for the end, and says why it came.
  package func ended() async -> ConnectionEnd {
    do {
      return try await end.get()
    } catch {
      return .lost(reason: ClientSocketOpener.reason(error))  // Its promise is never failed.
    }
  }

  private func onLoop(_ body: @escaping @Sendable (ClientSocketHandler) -> Void) {
    let handler = handler
    if channel.eventLoop.inEventLoop {
      body(handler.value)
    } else {
      channel.eventLoop.execute { body(handler.value) }
    }
  }
}
