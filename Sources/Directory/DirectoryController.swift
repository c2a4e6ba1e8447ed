package import Hummingbird
import NIOCore
package import RelayCore
package import RelayHTTP

/// Which contacts are here or at a peer (reference 1.11).
package struct DirectoryController: Sendable {
  private let store: any DirectoryStore
  private let limiter: any RateLimiter
  private let finder: (any ContactFinder)?

  /// - Parameter finder: asked for what `store` does not know; nil where no peer can be.
  package init(store: any DirectoryStore, limiter: any RateLimiter, finder: (any ContactFinder)?) {
    self.store = store
    self.limiter = limiter
    self.finder = finder
  }

  package func addRoutes(to router: some RouterMethods<DeviceContext>) {
    router.resource("/v1/directory/tokens", [(.put, lookUpAll)])
    // Standard base64 contains slashes: a token may span segments (reference 1.11).
    router.resource("/v1/directory/**", [(.get, lookUp)])
  }

  @Sendable private func lookUpAll(_ request: Request, _ context: DeviceContext) async throws(Problem) -> Response {
    let body = try await context.jsonBody(of: request, max: WireLimits.directoryRequestBytesMax)
    let tokens = try decode(body)
    try await limiter.charge(.contactQueries, LimitKey(context.caller.address.account), amount: Double(tokens.count))
    return .json(ContactCodec.encode(try await entries(for: tokens)))
  }

  @Sendable private func lookUp(_ request: Request, _ context: DeviceContext) async throws(Problem) -> Response {
    try await limiter.charge(.contactQueries, LimitKey(context.caller.address.account))
    // Not the router's segments: it drops empty ones, and a token may begin with a slash or hold two in a row.
    let path = request.uri.path.drop { $0 == "/" }.dropFirst("v1/directory/".count)
    guard let text = PercentEncoding.decode(String(path)), let token = Self.token(text),
      let entry = try await entries(for: [token]).first
    else { throw Problem(.notFound) }
    return .json(ContactCodec.encode(entry))
  }

  /// A trailing slash is the token's own, or, where it would make the token too long, makes no difference.
  private static func token(_ text: String) -> ContactToken? {
    ContactCodec.token(text) ?? (text.hasSuffix("/") ? ContactCodec.token(text.dropLast()) : nil)
  }

  private func decode(_ body: ByteBuffer) throws(Problem) -> [ContactToken] {
    do throws(ContactCodec.TokenError) {
      return try ContactCodec.decodeTokens(body.readableBytesUInt8Span.bytes)
    } catch {
      switch error {
      case .undecodable: throw Problem(.undecodableToken)
      case .json(let error): throw Problem(error)
      }
    }
  }

  /// Known tokens in request order, repeated ones once.
  private func entries(for tokens: [ContactToken]) async throws(Problem) -> [DirectoryEntry] {
    let known: [DirectoryEntry]
    do throws(StoreError) {
      known = try await store.entries(for: tokens)
    } catch {
      throw Problem(error)
    }
    var unanswered = Dictionary(known.map { ($0.token, $0) }) { first, _ in first }
    if let finder {
      let unknown = Set(tokens).subtracting(unanswered.keys)
      for entry in unknown.isEmpty ? [] : await finder.find(Array(unknown)) { unanswered[entry.token] = entry }
    }
    return tokens.compactMap { unanswered.removeValue(forKey: $0) }
  }
}
