package import HTTPTypes
package import Hummingbird
package import RelayCore

/// Answers one request of one resource.
package typealias Handler<Context> = @Sendable (Request, Context) async throws(Problem) -> Response

extension RouterMethods {
  /// Adds everything that stands under `path`; any other known method is answered with 405 (reference 1.1).
  ///
  /// A trailing slash makes no difference.
  package func resource(_ path: RouterPath, _ handlers: [(method: HTTPRequest.Method, handler: Handler<Context>)]) {
    for (method, handler) in handlers {
      on(path, method: method) { request, context in try await handler(request, context) }
    }
    let allowed = handlers.map(\.method)
    for method in [.get, .put, .post, .delete, .head, .patch, .options] as [HTTPRequest.Method]
    where !allowed.contains(method) {
      on(path, method: method) { _, _ -> Response in
        var response = Problem(.methodNotAllowed).response
        response.headers[.allow] = allowed.map(\.rawValue).joined(separator: ", ")
        return response
      }
    }
  }
}

extension RequestContext {
  /// A path segment after percent-decoding. A `+` stays a `+` (reference 1.1).
  /// - Throws: `.notFound` when the segment is missing or does not decode to UTF-8.
  package func segment(_ name: String) throws(Problem) -> String {
    guard let raw = parameters.get(name), let text = PercentEncoding.decode(raw) else { throw Problem(.notFound) }
    return text
  }

  /// A segment that must be a number. - Throws: `.notFound` for anything else.
  package func number(_ name: String) throws(Problem) -> AccountNumber {
    guard let number = AccountNumber(e164: try segment(name)) else { throw Problem(.notFound) }
    return number
  }
}
