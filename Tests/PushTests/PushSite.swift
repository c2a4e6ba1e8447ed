import Crypto
import Foundation
import Logging
import RelayCore
import RelayHTTP
import RelayWork
import Synchronization
import TestSupport

@testable import Push

/// A clock that a test moves.
final class MovedClock: Sendable {
  private let time: Mutex<Timestamp>
  init(_ start: Timestamp = Timestamp(millis: Int64(Date().timeIntervalSince1970 * 1000))) { time = Mutex(start) }

  var now: Timestamp { time.withLock { $0 } }
  var wall: WallClock { WallClock { self.now } }
  func advance(_ duration: Duration) { time.withLock { $0 = $0.adding(duration) } }
}

/// Remembers what was logged.
final class LogLines: Sendable {
  private let lines = Mutex<[String]>([])

  var all: [String] { lines.withLock { $0 } }
  func count(_ text: String) -> Int { all.count { $0.contains(text) } }
  var logger: Logger { Logger(label: "test") { _ in Handler(lines: self) } }

  private func append(_ line: String) { lines.withLock { $0.append(line) } }

  private struct Handler: LogHandler {
    let lines: LogLines
    var metadata: Logger.Metadata = [:]
    var logLevel = Logger.Level.debug

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
      get { metadata[key] }
      set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
      lines.append("\(event.level) \(event.message) \(metadata.merging(event.metadata ?? [:]) { _, new in new })")
    }
  }
}

extension ContinuousClock.Instant {
  /// Long enough for a slow machine.
  static var patient: Self { .now + .seconds(60) }
}

/// Keys, the services that verify them, and the providers under test.
struct PushSite: Sendable {
  static let device = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"

  let files: PushFiles
  let clock = MovedClock()
  let log = LogLines()

  init() throws { files = try PushFiles() }

  // MARK: APNs

  func apns(key: P256.Signing.PublicKey) async throws -> FakeAPNs {
    let apns = try await FakeAPNs(files, key: key)
    apns.tell(now: { [clock] in clock.now })
    return apns
  }

  func provider(of apns: FakeAPNs) throws -> APNsProvider {
    try APNsProvider(
      APNsSettings(
        authentication: .token(
          keyFile: files.apnsKey, keyID: PushFiles.keyID, teamID: PushFiles.teamID, topic: PushFiles.topic),
        endpoint: apns.url, trust: files.trust),
      clock: clock.wall, logger: log.logger)
  }

  /// Runs `body` with a provider and its service.
  func withAPNs(_ body: (APNsProvider, FakeAPNs) async throws -> Void) async throws {
    let apns = try await apns(key: try files.makeAPNsKey())
    try await body(try provider(of: apns), apns)
    try await apns.close()
  }

  static func apnsMessage(_ payload: String = #"{"aps":{"badge":1}}"#) -> PushMessage {
    PushMessage(to: .apns(deviceToken: device), PushPayload(payload))
  }

  // MARK: FCM

  func withFCM(_ body: (FCMProvider, FakeFCM) async throws -> Void) async throws {
    let fcm = try await FakeFCM(files, key: try files.makeServiceAccount())
    fcm.tell(now: { [clock] in clock.now })
    try files.makeServiceAccount(tokenURL: fcm.tokenURL)
    let provider = try FCMProvider(
      FCMSettings(serviceAccountFile: files.serviceAccount, endpoint: fcm.url, trust: files.trust), clock: clock.wall,
      logger: log.logger)
    try await body(provider, fcm)
    try await fcm.close()
  }

  static func fcmMessage(_ token: String = "fcm-token-1") -> PushMessage {
    PushMessage(
      to: .fcm(registrationToken: token), PushPayload(#"{"message":{"data":{"k":"v"},"token":"\#(token)"}}"#))
  }

  // MARK: WebPush

  func webPush(
    allowed: [String]? = nil, allowsPrivate: Bool = true, resolver: HostResolver = .system()
  ) throws -> WebPushProvider {
    try WebPushProvider(
      WebPushSettings(
        keyFile: files.vapidKey, contact: "mailto:admin@example.org", allowedEndpoints: allowed,
        allowsPrivate: allowsPrivate, trust: files.trust),
      clock: clock.wall, logger: log.logger, resolver: resolver)
  }

  func withWebPush(_ body: (WebPushProvider, FakeWebPush) async throws -> Void) async throws {
    let service = try await FakeWebPush(files, key: try files.makeVAPIDKey())
    service.tell(now: { [clock] in clock.now })
    try await body(try webPush(), service)
    try await service.close()
  }

  static func webMessage(_ subscription: TestSubscription, _ text: String = #"{"unread":2}"#) throws -> PushMessage {
    guard
      let target = WebPushSubscription(
        endpoint: subscription.endpoint, p256dh: subscription.p256dh, auth: subscription.auth)
    else { throw TestFailure("no subscription") }
    return PushMessage(to: .webPush(target), PushPayload(text), urgency: .normal)
  }
}
