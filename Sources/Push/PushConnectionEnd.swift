import NIOCore
import NIOHTTP2
import Synchronization

/// How a connection of HTTP/2 ended, and whether that was told: many requests see the same end, which is one failure.
final class PushConnectionEnd: Sendable {
  private enum Word: Sendable {
    /// No error: nobody is at fault for what follows.
    case farewell
    case fault
  }
  private struct State {
    /// The server's last word.
    var word: Word?
    var isTold = false
  }

  private let state = Mutex(State())

  /// Whether the server has said that it takes no more.
  var hasCome: Bool { state.withLock { $0.word != nil } }

  /// - Returns: what a request is told that ended with `failure`: the first one alone that the connection was lost, and
  /// none where the server had announced it.
  func tell(_ failure: PushFailure) -> PushFailure {
    state.withLock { state in
      switch (failure, state.word) {
      case (.lost, .farewell): return .lostToo
      case (.lost, _), (.notTaken, .fault):
        defer { state.isTold = true }
        return state.isTold ? .lostToo : .lost
      default: return failure
      }
    }
  }

  /// Servers announce twice, as a rule: first that they are about to, then with the last stream that they serve.
  fileprivate func announced(_ code: HTTP2ErrorCode) {
    state.withLock { $0.word = code == .noError && $0.word != .fault ? .farewell : .fault }
  }
}

/// Listens for the server's word that it is about to close the connection (GOAWAY).
final class PushConnectionWatch: ChannelInboundHandler, Sendable {
  typealias InboundIn = HTTP2Frame
  typealias InboundOut = HTTP2Frame
  private let end: PushConnectionEnd

  init(_ end: PushConnectionEnd) { self.end = end }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    if case .goAway(_, let code, _) = unwrapInboundIn(data).payload { end.announced(code) }
    context.fireChannelRead(data)
  }
}
