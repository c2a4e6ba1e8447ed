package import Hummingbird
import RelayCore

/// Answers 503 for resources that other processes of the operator serve. A 404 would tell a client that something is
/// not there, when only a balancer has sent the request to the wrong process.
package struct ElsewhereMiddleware<Context: RequestContext>: RouterMiddleware {
  private let reason: String
  private let isElsewhere: @Sendable (_ path: String) -> Bool

  /// - Parameters:
  ///   - reason: for the log.
  ///   - isElsewhere: whether others serve `path`. Asked only of what has no route here.
  package init(_ reason: String, _ isElsewhere: @escaping @Sendable (_ path: String) -> Bool) {
    self.reason = reason
    self.isElsewhere = isElsewhere
  }

  package func handle(
    _ request: Request, context: Context, next: (Request, Context) async throws -> Response
  ) async throws -> Response {
    do {
      return try await next(request, context)
    } catch let error as HTTPError where error.status == .notFound {
      guard isElsewhere(request.uri.path) else { throw error }
      throw Problem(.unavailable, retryAfter: .seconds(1), reason: reason)
    }
  }
}
