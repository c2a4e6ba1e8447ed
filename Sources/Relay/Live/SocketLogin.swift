import HTTPTypes
import RelayCore
import RelayHTTP

/// The caller that asks for a WebSocket, by the query or by the `Authorization` header, and the dialect that it wants
/// to speak (reference 1.12.2).
struct SocketLogin: Sendable {
  enum Means: Sendable, Equatable {
    /// `user` and `password`: the first clients, which speak JSON.
    case user
    /// `login` and `password`.
    case login
    /// No parameters: our own addition, since a query may end up in somebody's log.
    case header
  }

  let means: Means
  /// nil when they are none: of a device that cannot be, or given in part.
  let credentials: BasicCredentials?

  /// - Returns: nil when nothing, or more than one thing, says who asks.
  init?(_ request: SocketRequest) {
    guard let parameters = Self.parameters(request.query) else { return nil }
    switch (parameters["user"], parameters["login"]) {
    case (.some, .some): return nil
    case (let user?, nil):
      means = .user
      credentials = parameters["password"].flatMap { BasicCredentials(user: user, password: Secret($0)) }
    case (nil, let login?):
      means = .login
      credentials = parameters["password"].flatMap { BasicCredentials(user: login, password: Secret($0)) }
    case (nil, nil):
      guard let header = request.headers[.authorization] else { return nil }
      means = .header
      credentials = BasicCredentials(header: header)
    }
  }

  /// The parameters that matter. A space is a plus sign that the client has not escaped, or has escaped as a form
  /// does.
  /// - Returns: nil if one of them comes twice, or is no text.
  private static func parameters(_ query: Substring) -> [String: String]? {
    var parameters: [String: String] = [:]
    for part in query.split(separator: "&") {
      let pair = part.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
      guard let name = PercentEncoding.decode(String(pair[0])), names.contains(name) else { continue }
      guard parameters[name] == nil, pair.count == 2, pair[1].utf8.count <= valueBytesMax,
        let value = PercentEncoding.decode(String(pair[1]))
      else { return nil }
      parameters[name] = value.replacing(" ", with: "+")
    }
    return parameters
  }

  private static let names: Set<String> = ["user", "login", "password"]
  /// As for the header (`BasicCredentials`).
  private static let valueBytesMax = 16 << 10
}
