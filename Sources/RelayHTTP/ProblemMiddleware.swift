package import Hummingbird
import Logging
import RelayCore

/// Turns every error into an answer, once, at the edge, and counts and times every request.
///
/// What is not a `Problem` of ours becomes 404 or 500 without detail; the detail goes to the log.
package struct ProblemMiddleware<Context: RequestContext>: RouterMiddleware {
  private let metrics: RequestMetrics

  /// - Parameter edge: which listener this is, for metrics: `client` or `federation`.
  package init(edge: String) { metrics = RequestMetrics(edge: edge) }

  package func handle(
    _ request: Request, context: Context, next: (Request, Context) async throws -> Response
  ) async throws -> Response {
    let start = ContinuousClock.now
    let response = await answer(request, context: context, next: next)
    metrics.record(
      method: request.method, path: context.endpointPath ?? "none", status: response.status.code,
      elapsed: ContinuousClock.now - start)
    // No resource serves HEAD, but a refusal's body would be taken for the beginning of the next answer.
    return request.method == .head ? response.createHeadResponse() : response
  }

  private func answer(
    _ request: Request, context: Context, next: (Request, Context) async throws -> Response
  ) async -> Response {
    do {
      return try await next(request, context)
    } catch let problem as Problem {
      if let reason = problem.reason {
        // During an outage every request has one: the store says once in the log that it is away.
        let level: Logger.Level = problem.kind == .internalError ? .error : .debug
        context.logger.log(level: level, "request failed", metadata: ["reason": "\(reason)"])
      }
      return problem.response
    } catch let error as HTTPError where error.status == .notFound {
      return Problem(.notFound).response
    } catch {
      // The type says enough to find the place; the text could carry request data.
      context.logger.error("request failed", metadata: ["error": "\(type(of: error))"])
      return Problem(.internalError).response
    }
  }
}
