import HTTPTypes
package import Hummingbird
import Logging
import RelayCore

/// Gives every request its id, turns every error into an answer, once, at the edge, and counts and times every
/// request.
///
/// An error that is not a `Problem` of ours becomes 404 or 500 without detail; the detail goes to the log.
package struct ProblemMiddleware<Context: RequestContext>: RouterMiddleware {
  private let metrics: RequestMetrics
  private let takesIDs: Bool
  private let untimed: Set<String>
  private let failures = FailedRequests()

  /// - Parameters:
  ///   - edge: which listener this is, for metrics: `client` or `federation`.
  ///   - takesIDs: whether callers are relays, whose ids of requests go on here.
  ///   - untimed: routes whose requests may be kept waiting on purpose: they are counted alone.
  package init(edge: String, takesIDs: Bool = false, untimed: Set<String> = []) {
    metrics = RequestMetrics(edge: edge)
    self.takesIDs = takesIDs
    self.untimed = untimed
  }

  package func handle(
    _ request: Request, context: Context, next: (Request, Context) async throws -> Response
  ) async throws -> Response {
    let start = ContinuousClock.now
    let id = (takesIDs ? request.headers[.requestID].flatMap { RequestID($0) } : nil) ?? RequestID()
    var response = await RequestID.$current.withValue(id) { await answer(request, context: context, next: next) }
    response.headers[.requestID] = id.description
    let path = context.endpointPath ?? "none"
    metrics.record(
      method: request.method, path: path, status: response.status.code,
      elapsed: untimed.contains(path) ? nil : ContinuousClock.now - start)
    // No resource serves HEAD, but a refusal's body would be taken for the beginning of the next answer.
    return request.method == .head ? response.createHeadResponse() : response
  }

  private func answer(
    _ request: Request, context: Context, next: (Request, Context) async throws -> Response
  ) async -> Response {
    do {
      return try await next(request, context)
    } catch let problem as Problem {
      return refuse(problem, request, context)
    } catch let error as HTTPError where error.status == .notFound {
      return Problem(.notFound).response
    } catch {
      // The type says enough to find the place; the text could carry request data.
      return refuse(Problem(.internalError, reason: "\(type(of: error))"), request, context)
    }
  }

  private func refuse(_ problem: Problem, _ request: Request, _ context: Context) -> Response {
    failures.note(
      problem,
      at: ["method": "\(RequestMetrics.label(request.method))", "route": "\(context.endpointPath ?? "none")"],
      in: context.logger)
    return problem.response
  }
}

extension HTTPField.Name {
  /// The id of a request, in its answer, and in what one relay asks of another for it.
  package static let requestID = HTTPField.Name("X-Request-ID")!  // It is a token.
}
