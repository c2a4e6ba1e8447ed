package import Hummingbird
import NIOCore
package import RelayCore
package import RelayHTTP

/// Which contacts are here or at a peer (reference 1.11), and which of them have changed (docs/protocol.md,
/// "Directory").
///
/// Answered from memory, this process's or that of others that hold parts of the directory: a request whose address
/// book this process has seen before waits for the limiter, and for those parts.
package struct DirectoryController: Sendable {
  package struct Policy: Sendable {
    /// Tokens of one request, 1 or more.
    package let tokensMax: Int
    /// Whether look-ups that look like an enumeration are refused, or only counted.
    package let refusesEnumeration: Bool
    package init(tokensMax: Int, refusesEnumeration: Bool) {
      self.tokensMax = tokensMax
      self.refusesEnumeration = refusesEnumeration
    }
  }

  private let source: any ContactSource
  private let search: ContactSearch
  private let gate: LookUpGate
  private let tokensMax: Int
  private let oblivious: ObliviousController

  /// - Parameters:
  ///   - accounts: asked whose tokens some are, where a look-up may be an enumeration.
  ///   - purse: of a budget that is shared with whatever else tells whether a number is registered.
  ///   - finder: asked for what `source` does not know; nil where no peer can be.
  ///   - oblivious: nil where look-ups that do not tell what is looked for are not offered.
  package init(
    source: any ContactSource, accounts: any AccountStore, limiter: any RateLimiter, purse: ContactPurse,
    finder: (any ContactFinder)?, policy: Policy, oblivious: ObliviousDirectory? = nil
  ) {
    self.source = source
    search = ContactSearch(source: source, finder: finder)
    gate = LookUpGate(
      limiter: limiter, purse: purse, detector: EnumerationDetector(accounts: accounts),
      refusesEnumeration: policy.refusesEnumeration)
    tokensMax = policy.tokensMax
    self.oblivious = ObliviousController(source: source, gate: gate, limiter: limiter, directory: oblivious)
  }

  package func addRoutes(to router: some RouterMethods<DeviceContext>) {
    router.resource("/v1/directory/tokens", [(.put, lookUpAll)])
    router.resource("/v1/directory/changes", [(.put, lookUpChanges)])
    oblivious.addRoutes(to: router)
    // Standard base64 contains slashes: a token may span segments (reference 1.11).
    router.resource("/v1/directory/**", [(.get, lookUp)])
  }

  @Sendable private func lookUpAll(_ request: Request, _ context: DeviceContext) async throws(Problem) -> Response {
    let tokens = try await query(request, context).tokens
    return .json(await search.answer(tokens, try await find(WantedContacts(tokens), context)))
  }

  @Sendable private func lookUpChanges(_ request: Request, _ context: DeviceContext) async throws(Problem) -> Response {
    let query = try await query(request, context, hasCursor: true)
    let since = query.cursor.flatMap { DirectoryPlace(cursorText: $0) }
    let result = try await find(WantedContacts(query.tokens, telling: .changes(since: since)), context)
    guard let next = result.next else { throw Problem(.unavailable, retryAfter: .seconds(1)) }
    return .json(await search.changes(of: query.tokens, result, next: next))
  }

  @Sendable private func lookUp(_ request: Request, _ context: DeviceContext) async throws(Problem) -> Response {
    let account = context.caller.address.account
    // Not the router's segments: it drops empty ones, and a token may begin with a slash or hold two in a row.
    let path = request.uri.path.drop { $0 == "/" }.dropFirst("v1/directory/".count)
    let token = PercentEncoding.decode(String(path)).flatMap(Self.token)
    try source.demandReady(for: token.map { [$0] })
    try await gate.charge(1, to: account)
    guard let token else { throw Problem(.notFound) }
    try await gate.spend([token], of: account)
    guard let entry = try await search.entry(of: token) else { throw Problem(.notFound) }
    return .json(ContactAnswer.bare(entry))
  }

  /// A trailing slash is the token's own, or, where it would make the token too long, makes no difference.
  private static func token(_ text: String) -> ContactToken? {
    ContactCodec.token(text) ?? (text.hasSuffix("/") ? ContactCodec.token(text.dropLast()) : nil)
  }

  private func query(_ request: Request, _ context: DeviceContext, hasCursor: Bool = false) async throws(Problem)
    -> ContactQuery
  {
    let body = try await context.jsonBody(of: request, max: WireLimits.directoryRequestBytesMax)
    do throws(ContactQuery.Refusal) {
      return try ContactQuery.decode(body.readableBytesUInt8Span.bytes, tokensMax: tokensMax, hasCursor: hasCursor)
    } catch {
      switch error {
      case .undecodable: throw Problem(.undecodableToken)
      case .tooMany: throw Problem(.tooManyTokens)
      case .json(let error): throw Problem(error)
      }
    }
  }

  /// Looks contacts up, if the caller may ask for them.
  private func find(_ wanted: WantedContacts, _ context: DeviceContext) async throws(Problem) -> ContactSearch.Result {
    // Before anything is charged.
    try source.demandReady(for: wanted.telling == .entries ? wanted.tokens : nil)
    let admission = try await gate.admit(wanted.tokens, of: context.caller.address.account)
    let result = try await search.find(wanted)
    try await gate.examine(admission, wanted.tokens, result.hits, directory: source.count)
    return result
  }
}
