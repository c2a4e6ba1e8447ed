import HTTPTypes
import Metrics
import RelayMetrics
import Synchronization

/// Counts and times requests by method, route and status; handles are made once and kept.
final class RequestMetrics: Sendable {
  private struct Key: Hashable {
    let method: String
    let path: String
    let status: Int
  }
  private struct Handles {
    let requests: Counter
    let duration: Timer
  }

  private let edge: String
  /// Bounded by routes, known methods and the statuses of `Problem`.
  private let handles = Mutex<[Key: Handles]>([:])

  init(edge: String) { self.edge = edge }

  /// - Parameters:
  ///   - path: the route's pattern, never the path of the request.
  ///   - elapsed: nil for a request that is not timed.
  func record(method: HTTPRequest.Method, path: String, status: Int, elapsed: Duration?) {
    let key = Key(method: Self.label(method), path: path, status: status)
    let (requests, duration) = handles.withLock { handles in
      let found = handles[key] ?? make(key)
      handles[key] = found
      return (found.requests, found.duration)
    }
    requests.increment()
    if let elapsed { duration.recordNanoseconds(elapsed.nanoseconds) }
  }

  private func make(_ key: Key) -> Handles {
    let (edge, method, path) = (EdgeLabel.edge(edge), MethodLabel.method(key.method), PathLabel.path(key.path))
    return Handles(
      requests: RelayMetric.requests.answered.counter(edge, method, path, .status(key.status)),
      duration: RelayMetric.requests.duration.timer(edge, method, path))
  }

  /// A client may send any method: only known ones become a label.
  static func label(_ method: HTTPRequest.Method) -> String {
    switch method {
    case .get, .put, .post, .delete, .head, .options, .patch: method.rawValue
    default: "other"
    }
  }
}

extension Duration {
  /// Clamped to what a timer can hold.
  package var nanoseconds: Int64 {
    let (seconds, attoseconds) = components
    return seconds > 9_000_000_000 ? .max : seconds * 1_000_000_000 + attoseconds / 1_000_000_000
  }
}
