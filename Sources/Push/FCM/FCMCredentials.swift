import NIOCore
import NIOHTTP1
import RelayCore

/// The credentials that prove us to Google, and the connections that use them.
final class FCMCredentials: Sendable {
  let projectID: String
  let client: PushClient
  let token: SharedToken
  /// The URL that its tokens come from.
  let tokenURL: String
  private let source: [String]

  /// Reads the files. - Returns: `former` when nothing in them has changed.
  static func load(
    _ settings: FCMSettings, former: FCMCredentials?, clock: WallClock
  ) throws(PushCredentialError) -> FCMCredentials {
    let text = try CredentialFile.read(settings.serviceAccountFile)
    var source = [text]
    if let trust = settings.trust { source.append(try CredentialFile.read(trust)) }
    if let former, former.source == source { return former }
    return try FCMCredentials(settings, text, source, clock)
  }

  private init(
    _ settings: FCMSettings, _ text: String, _ source: [String], _ clock: WallClock
  ) throws(PushCredentialError) {
    let account = try FCMAccount(file: settings.serviceAccountFile, text: text)
    guard let projectID = settings.projectID ?? account.projectID, Self.isName(projectID) else {
      throw PushCredentialError(settings.serviceAccountFile, "no project_id, and none is configured")
    }
    guard let tokenURL = settings.tokenEndpoint ?? account.tokenURL else {
      throw PushCredentialError(settings.serviceAccountFile, "no token_uri")
    }
    var client = PushClient.Settings()
    client.connectionsMax = settings.connectionsMax
    client.trust = try CredentialFile.authorities(settings.trust)
    let connections = PushClient(client)
    self.projectID = projectID
    self.tokenURL = tokenURL
    self.source = source
    self.client = connections
    token = SharedToken {
      await FCMExchange(account: account, url: tokenURL, client: connections, clock: clock).run()
    }
  }

  /// Whether `text` may stand in a path as it is.
  private static func isName(_ text: String) -> Bool {
    !text.isEmpty
      && text.utf8.allSatisfy { byte in
        switch byte {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: "."),
          UInt8(ascii: ":"):
          true
        default: false
        }
      }
  }
}

/// A signed assertion for an access token (push gateway reference, 5.1).
struct FCMExchange: Sendable {
  let account: FCMAccount
  let url: String
  let client: PushClient
  let clock: WallClock

  /// The same for whatever address the account names (push gateway reference, 5.1).
  private static let audience = "https://oauth2.googleapis.com/token"
  private static let scope = "https://www.googleapis.com/auth/firebase.messaging"
  private static let grant = "urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer"
  /// How long before its end a token is not used any more.
  private static let margin = Duration.seconds(225)
  private static let timeout = Duration.seconds(10)

  func run() async -> SharedToken.Made {
    let now = clock.now()
    let seconds = now.millis / 1000
    let claims = FCMClaims(
      iss: account.email, scope: Self.scope, aud: Self.audience, iat: seconds, exp: seconds + 3600)
    let assertion: String
    do {
      assertion = try await TokenSigning.sign(claims, by: account.key, keyID: account.keyID)
    } catch {
      return .failure(.init(outcome: .refused(PushReason(.credentials, "unsigned"))))
    }
    // The characters of a token need no escape in a form.
    let request = PushRequest(
      url: PushURL(url), headers: ["content-type": "application/x-www-form-urlencoded"],
      body: Array("grant_type=\(Self.grant)&assertion=\(assertion)".utf8))
    do throws(PushFailure) {
      return made(try await client.post(request, deadline: .now + Self.timeout), now: now)
    } catch {
      return .failure(.init(outcome: error.outcome))
    }
  }

  private func made(_ answer: PushAnswer, now: Timestamp) -> SharedToken.Made {
    guard answer.status == 200 else {
      let asked = RetryAfter.read(answer.headers.first(name: "Retry-After"), now: now)
      return .failure(
        .init(
          outcome: (400..<500).contains(answer.status) && answer.status != 429
            ? .temporary(PushReason(.credentials, "token-refused"), retryAfter: asked)
            : .temporary(PushReason(.server, "token-failed"), retryAfter: asked)))
    }
    // A body that cannot be read is no token.
    guard let body = answer.body, let (text, life) = try? Self.read(body.readableBytesUInt8Span.bytes) else {
      return .failure(.init(outcome: .temporary(PushReason(.server, "token-unreadable"))))
    }
    // One that lives shorter than the margin is used for a single push.
    let left = max(.zero, .seconds(min(life, 24 * 3600)) - Self.margin)
    return .success(.init(authorization: "Bearer \(text)", made: now, renewal: now.adding(left)))
  }

  private static func read(_ body: RawSpan) throws(JSONError) -> (text: String, seconds: Int64) {
    var reader = JSONReader(body)
    var (text, seconds): (String?, Int64?) = (nil, nil)
    try reader.beginObject()
    while let key = try reader.nextKey() {
      if reader.matches(key, "access_token") {
        text = try reader.string()
      } else if reader.matches(key, "expires_in") {
        seconds = try reader.integer()
      } else {
        try reader.skip()
      }
    }
    try reader.finish()
    // It becomes a header: nothing but what stands in one.
    guard let text, !text.isEmpty, text.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) else { throw .wrongShape }
    return (text, seconds ?? 3600)
  }
}
