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

  /// The server has said that it is about to close the connection (GOAWAY). Servers say so twice, as a rule: the second
  /// time with the last stream that they serve.
  func announced(_ code: HTTP2ErrorCode) {
    state.withLock { $0.word = code == .noError && $0.word != .fault ? .farewell : .fault }
  }
}
