package import Logging
import NIOHTTP1
package import RelayCore
import RelayHTTP
package import RelayWork
import ServiceLifecycle
import Synchronization

/// Push services of browsers and others, wherever a subscription says (RFC 8030; push gateway reference, 7).
package final class WebPushProvider: PushProvider, Service {
  /// How many bytes a payload may have.
  package static let payloadMax = WebPushEncryption.plaintextMax

  private let settings: WebPushSettings
  private let clock: WallClock
  private let credentials: Reloading<WebPushCredentials, PushCredentialError>

  /// - Throws: when the files cannot be used. Later on the former content stays.
  package init(
    _ settings: WebPushSettings, clock: WallClock, logger: Logger, resolver: HostResolver = .system()
  ) throws(PushCredentialError) {
    self.settings = settings
    self.clock = clock
    let former = Mutex<WebPushCredentials?>(nil)
    credentials = try Reloading(
      files: [settings.keyFile] + (settings.trust.map { [$0] } ?? []), logger: logger
    ) { () throws(PushCredentialError) in
      let loaded = try WebPushCredentials.load(
        settings, former: former.withLock { $0 }, clock: clock, resolver: resolver)
      former.withLock { $0 = loaded }
      return loaded
    }
  }

  /// Ours, in base64url: what subscriptions for this provider are made with (`applicationServerKey`).
  package var publicKey: String { credentials.current.publicKey }

  package func run() async throws { try await credentials.run() }

  /// Takes up changed files now. - Returns: whether there were any.
  @discardableResult
  package func reload() -> Bool { credentials.reloadIfChanged() }

  package func destination(of target: PushTarget) -> String {
    guard case .webPush(let subscription) = target else { return "" }
    return subscription.place.origin
  }

  package func send(_ message: PushMessage, deadline: ContinuousClock.Instant) async -> PushOutcome {
    guard case .webPush(let subscription) = message.target else {
      return .refused(PushReason(.message, "wrong-target"))
    }
    let endpoint = subscription.place
    guard settings.allows(subscription.endpoint) else { return .refused(.endpointNotAllowed) }
    guard message.payload.bytes.count <= Self.payloadMax else { return .refused(.tooLarge) }
    let credentials = credentials.current
    do throws(WebPushServices.Refusal) {
      let service = try await credentials.services.service(for: endpoint, until: deadline)
      return await post(
        message, to: endpoint, of: subscription, by: service, with: credentials, deadline: deadline)
    } catch {
      return error.outcome
    }
  }

  private func post(
    _ message: PushMessage, to endpoint: WebPushEndpoint, of subscription: WebPushSubscription,
    by service: WebPushServices.Service, with credentials: WebPushCredentials, deadline: ContinuousClock.Instant
  ) async -> PushOutcome {
    let token: SharedToken.Token
    do throws(SharedToken.Failure) {
      token = try await service.token.current(now: clock.now(), until: deadline)
    } catch {
      return error.outcome
    }
    let body: [UInt8]
    do {
      body = try WebPushEncryption.encrypt(message.payload.bytes, for: subscription)
    } catch {
      return .dead(.badSubscription)
    }
    var headers = headers(message)
    headers.add(name: "authorization", value: token.authorization)
    do throws(PushFailure) {
      let request = PushRequest(
        url: PushURL(endpoint.server, path: endpoint.path), headers: headers, body: body)
      let answer = try await service.client.post(request, deadline: deadline)
      return WebPushAnswer.outcome(answer, now: clock.now())
    } catch {
      // No answer began: the address may be one that swallows whatever is sent to it.
      if error != .cancelled { credentials.services.failed(service, for: endpoint) }
      return error.outcome
    }
  }

  private func headers(_ message: PushMessage) -> HTTPHeaders {
    let life = message.expires.map { max(0, ($0.millis - clock.now().millis) / 1000) }
    var headers: HTTPHeaders = [
      "content-encoding": "aes128gcm", "content-type": "application/octet-stream",
      "ttl": "\(life ?? settings.timeToLive.components.seconds)", "urgency": message.urgency.rawValue,
    ]
    if let collapse = message.collapse, Self.isTopic(collapse) { headers.add(name: "topic", value: collapse) }
    return headers
  }

  /// RFC 8030, 5.4.
  private static func isTopic(_ text: String) -> Bool {
    (1...32).contains(text.utf8.count)
      && text.utf8.allSatisfy { byte in
        switch byte {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, UInt8(ascii: "-"), UInt8(ascii: "_"): true
        default: false
        }
      }
  }
}

enum WebPushAnswer {
  /// A redirection is never followed: it could lead anywhere. A refused token speaks of this subscription: it may have
  /// been made for another key.
  static func outcome(_ answer: PushAnswer, now: Timestamp) -> PushOutcome {
    let asked = RetryAfter.read(answer.headers.first(name: "Retry-After"), now: now)
    func reason(_ kind: PushReason.Kind) -> PushReason { PushReason(kind, provider: nil, status: answer.status) }
    switch answer.status {
    case 200..<300: return .delivered(id: nil)
    case 404, 410: return .dead(reason(.target))
    case 429: return .temporary(reason(.quota), retryAfter: asked)
    // It asks for the same again: too slow, on the wrong connection, too early.
    case 408, 421, 425, 500...: return .temporary(reason(.server), retryAfter: asked)
    default: return .refused(reason(.message))
    }
  }
}

extension PushReason {
  package static let badSubscription = PushReason(.target, "bad-subscription")
  package static let endpointNotAllowed = PushReason(.message, "endpoint-not-allowed")
  package static let tooLarge = PushReason(.message, "too-large")
}
