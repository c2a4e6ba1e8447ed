import FoundationEssentials
package import Logging
import NIOHTTP1
package import RelayCore
import RelayHTTP
import Synchronization

/// Apple's service over HTTP/2, with a token or a certificate (push gateway reference, 4).
package final class APNsProvider: PushProvider {
  /// Apple's limits, in bytes.
  private static let payloadMax = 4096
  private static let callPayloadMax = 5120
  private static let tokenLengthMax = 400

  private let endpoint: String
  /// nil where the endpoint is no URL.
  private let url: PushURL?
  private let clock: WallClock
  private let credentials: Reloading<APNsCredentials, PushCredentialError>

  /// - Parameter tokens: to be shared by all providers that may have the same key.
  /// - Throws: when the files cannot be used. Later on the former content stays.
  package init(
    _ settings: APNsSettings, tokens: APNsTokens = APNsTokens(), clock: WallClock, logger: Logger
  ) throws(PushCredentialError) {
    endpoint = settings.endpoint
    url = PushURL(settings.endpoint)
    self.clock = clock
    let former = Mutex<APNsCredentials?>(nil)
    credentials = try Reloading(
      files: [settings.authentication.file] + (settings.trust.map { [$0] } ?? []), logger: logger
    ) { () throws(PushCredentialError) in
      let loaded = try APNsCredentials.load(
        settings, former: former.withLock { $0 }, tokens: tokens, clock: clock)
      former.withLock { $0 = loaded }
      return loaded
    }
  }

  package var credentialsExpire: Timestamp? { credentials.current.expires }

  package var servers: [String] { [endpoint] }

  package func run() async throws { try await credentials.run() }

  package func send(_ message: PushMessage, deadline: ContinuousClock.Instant) async -> PushOutcome {
    guard case .apns(let device) = message.target else { return .refused(PushReason(.message, "wrong-target")) }
    guard Self.isToken(device) else { return .dead(PushReason(.target, "bad-device-token")) }
    guard message.payload.bytes.count <= (message.kind == .voip ? Self.callPayloadMax : Self.payloadMax) else {
      return .refused(PushReason(.message, "PayloadTooLarge"))
    }
    let credentials = credentials.current
    do throws(SharedToken.Failure) {
      let token = try await credentials.token?.current(now: clock.now(), until: deadline)
      let headers = headers(message, topic: credentials.topic, token: token)
      let request = PushRequest(
        url: url?.appending("/3/device/\(device)"), headers: headers, body: message.payload.bytes)
      let outcome = await post(request, by: credentials.client, deadline: deadline)
      if let token, outcome.reason?.kind == .credentials { discard(token, of: credentials) }
      return outcome
    } catch {
      return error.outcome
    }
  }

  /// Takes up changed files now. - Returns: whether there were any.
  @discardableResult
  package func reload() -> Bool { credentials.reloadIfChanged() }

  private func post(
    _ request: PushRequest, by client: PushClient, deadline: ContinuousClock.Instant
  ) async -> PushOutcome {
    do throws(PushFailure) {
      return APNsAnswer.outcome(try await client.post(request, deadline: deadline), now: clock.now())
    } catch {
      return error.outcome
    }
  }

  /// A token that Apple refuses is made anew, but never sooner than Apple allows.
  private func discard(_ token: SharedToken.Token, of credentials: APNsCredentials) {
    let now = clock.now()
    guard token.isFromAhead(at: now) || now >= token.made.adding(APNsCredentials.tokenAgeMin) else { return }
    credentials.token?.discard(token)
  }

  private func headers(_ message: PushMessage, topic: String, token: SharedToken.Token?) -> HTTPHeaders {
    var headers = HTTPHeaders()
    headers.add(name: "apns-id", value: UUID().uuidString.lowercased())
    headers.add(name: "apns-topic", value: message.topicSuffix.map { "\(topic).\($0)" } ?? topic)
    headers.add(name: "apns-priority", value: message.urgency == .low ? "5" : "10")
    if let kind = message.kind { headers.add(name: "apns-push-type", value: kind.rawValue) }
    if let expires = message.expires { headers.add(name: "apns-expiration", value: "\(max(0, expires.millis / 1000))") }
    if let collapse = message.collapse, collapse.utf8.count <= 64 {
      headers.add(name: "apns-collapse-id", value: collapse)
    }
    if let token { headers.add(name: "authorization", value: token.authorization) }
    headers.add(name: "content-type", value: "application/json")
    return headers
  }

  /// Whether `text` may stand in the path: hexadecimal digits.
  private static func isToken(_ text: String) -> Bool {
    (1...tokenLengthMax).contains(text.utf8.count)
      && text.utf8.allSatisfy { byte in
        switch byte {
        case 0x30...0x39, 0x41...0x46, 0x61...0x66: true
        default: false
        }
      }
  }
}
