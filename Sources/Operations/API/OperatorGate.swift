import HTTPTypes
import Hummingbird
package import RelayCore

/// Lets holders of tokens into the operator API, and turns what fails behind it into JSON.
struct OperatorGate: RouterMiddleware {
  typealias Context = OperatorContext

  let tokens: @Sendable () -> OperatorTokens

  func handle(
    _ request: Request, context: OperatorContext, next: (Request, OperatorContext) async throws -> Response
  ) async throws -> Response {
    do {
      var context = context
      context.actor = .token(try holder(of: request))
      return try await next(request, context)
    } catch {
      return APIProblem(error).response
    }
  }

  private func holder(of request: Request) throws(APIProblem) -> String {
    let tokens = tokens()
    guard !tokens.isEmpty else {
      throw APIProblem(
        .forbidden, "api-off", "The operator API is off: set operator.read-tokens and operator.change-tokens.")
    }
    guard let given = Self.bearer(request.headers[.authorization]), let holder = tokens.token(of: given) else {
      var problem = APIProblem(.unauthorized, "unauthorized", "Send `Authorization: Bearer TOKEN`.")
      problem.headers[.wwwAuthenticate] = "Bearer"
      throw problem
    }
    guard holder.mayChange || request.method == .get || request.method == .head || Self.asks(request) else {
      throw APIProblem(
        .forbidden, "read-only", "This token may only read: use one of operator.change-tokens.")
    }
    return holder.token.name
  }

  /// Requests that change nothing, though they have a body.
  private static func asks(_ request: Request) -> Bool {
    request.method == .post && request.uri.path == OperatorAPI.handlesPath
  }

  private static func bearer(_ field: String?) -> String? {
    guard let field, let space = field.firstIndex(of: " "), field[..<space].lowercased() == "bearer" else { return nil }
    return String(field[field.index(after: space)...].trimmingPrefix { $0 == " " })
  }
}

/// The tokens that open the operator API: to look, and to change.
package struct OperatorTokens: Sendable, Equatable {
  package let read: [OperatorToken]
  /// They may look as well.
  package let change: [OperatorToken]

  package init(read: [OperatorToken], change: [OperatorToken]) {
    self.read = read
    self.change = change
  }

  var isEmpty: Bool { read.isEmpty && change.isEmpty }

  /// Compares with every token, in a time that tells nothing of where they differ.
  /// - Returns: nil for what is none of them.
  func token(of text: String) -> (token: OperatorToken, mayChange: Bool)? {
    let given = Array(text.utf8)
    var found: (token: OperatorToken, mayChange: Bool)?
    for (tokens, mayChange) in [(read, false), (change, true)] {
      for token in tokens where constantTimeEquals(Array(token.token.value.utf8), given) { found = (token, mayChange) }
    }
    return found
  }

  func has(_ token: OperatorToken) -> Bool { read.contains(token) || change.contains(token) }
}
