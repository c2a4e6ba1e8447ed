package import HTTPTypes
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
    guard !context.isOverSocket else { return try await next(request, context) }
    var context = context
    context.origin = origin(of: context.origin.address, request.headers)
    return try await next(request, context)
  }

  /// The origin of a request that `direct` brought with `headers`.
  package func origin(of direct: ClientAddress?, _ headers: HTTPFields) -> RequestOrigin {
    let origin = RequestOrigin(address: direct, isSecure: isSecure)
    guard !proxies.isEmpty else { return origin }
    return proxies.origin(
      origin, forwardedFor: headers[values: .forwardedFor], forwardedProto: headers[values: .forwardedProto])
  }
}

// Valid names, so never nil.
extension HTTPField.Name {
  fileprivate static let forwardedFor = HTTPField.Name("X-Forwarded-For")!
  fileprivate static let forwardedProto = HTTPField.Name("X-Forwarded-Proto")!
}
