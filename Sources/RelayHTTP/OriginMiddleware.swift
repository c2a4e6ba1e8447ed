import HTTPTypes
package import Hummingbird
package import RelayCore

/// Tells browsers which pages may use the API (Fetch, "CORS protocol"). Says nothing where nobody has said which may,
/// and to callers that are no browsers.
///
/// It guards nothing by itself: credentials stand in each request, and no browser adds them of its own accord.
package struct OriginMiddleware<Context: RequestContext>: RouterMiddleware {
  private let origins: AllowedOrigins

  package init(_ origins: AllowedOrigins) { self.origins = origins }

  package func handle(
    _ request: Request, context: Context, next: (Request, Context) async throws -> Response
  ) async throws -> Response {
    guard let origin = request.headers[.origin], origins.allows(origin) else { return try await next(request, context) }
    // Asked by browsers before requests of their pages; no resource knows this method.
    let isPreflight = request.method == .options && request.headers[.accessControlRequestMethod] != nil
    var response = isPreflight ? preflight(request) : try await next(request, context)
    response.headers[.accessControlAllowOrigin] = origin
    response.headers[values: .vary] += ["Origin"]
    if !isPreflight { response.headers[.accessControlExposeHeaders] = "Retry-After, X-Request-ID" }
    return response
  }

  private func preflight(_ request: Request) -> Response {
    var response = Response(status: .noContent)
    response.headers[.accessControlAllowMethods] = "GET, PUT, POST, DELETE, PATCH"
    if let names = request.headers[.accessControlRequestHeaders] {
      response.headers[.accessControlAllowHeaders] = names
      response.headers[values: .vary] += ["Access-Control-Request-Headers"]
    }
    response.headers[.accessControlMaxAge] = "600"
    return response
  }
}
