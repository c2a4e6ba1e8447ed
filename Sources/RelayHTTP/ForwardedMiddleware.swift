import HTTPTypes
package import Hummingbird
package import RelayCore

/// Finds out where each request comes from, also when a trusted proxy brought it.
package struct ForwardedMiddleware: RouterMiddleware {
  private let proxies: TrustedProxies
  private let isSecure: Bool

  /// - Parameter isSecure: whether the listener itself speaks TLS.
  package init(proxies: TrustedProxies, isSecure: Bool) {
    self.proxies = proxies
    self.isSecure = isSecure
  }

  package func handle(
    _ request: Request, context: ClientContext, next: (Request, ClientContext) async throws -> Response
  ) async throws -> Response {
    var context = context
    context.origin.isSecure = isSecure
    if !proxies.isEmpty {
      context.origin = proxies.origin(
        context.origin, forwardedFor: request.headers[values: .forwardedFor],
        forwardedProto: request.headers[values: .forwardedProto])
    }
    return try await next(request, context)
  }
}

// Valid names, so never nil.
extension HTTPField.Name {
  fileprivate static let forwardedFor = HTTPField.Name("X-Forwarded-For")!
  fileprivate static let forwardedProto = HTTPField.Name("X-Forwarded-Proto")!
}
