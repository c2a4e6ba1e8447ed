// Fakes of every provider, credentials of all the apps that the recorded exchanges know, and gateways in front of them.

import Foundation
import Logging
import Push
import PushGateway
import RelayCore
import TestSupport
import Testing

struct PushSite: Sendable {
  let files: PushFiles
  /// Takes tokens, and the other one certificates.
  let apple: FakeAPNs
  let appleByCertificate: FakeAPNs
  /// Google's messages of both kinds. It takes whatever comes: the recorded ones hold what the real service refuses.
  let google: FakeService
  let exchange: FakeFCM
  let browsers: FakeWebPush
  let subscription: TestSubscription
  let vectors: Vectors
  /// All of the vectors' configuration.
  let apps: [PushApp]
  private let providers: [any PushProvider]

  static let clock = WallClock { Timestamp(millis: Int64(Date().timeIntervalSince1970 * 1000)) }

  static func with(
    isolation: isolated (any Actor)? = #isolation, _ body: (PushSite) async throws -> Void
  ) async throws {
    try await MachineRoom.withDesk {
      let site = try await PushSite()
      let outcome: Result<Void, any Error>
      do {
        outcome = .success(try await body(site))
      } catch {
        outcome = .failure(error)
      }
      try await site.close()
      try outcome.get()
    }
  }

  private init() async throws {
    files = try PushFiles()
    apple = try await FakeAPNs(files, key: try files.makeAPNsKey())
    appleByCertificate = try await FakeAPNs(files, key: nil)
    google = try await FakeService(files, usual: Self.googleAnswer)
    exchange = try await FakeFCM(files, key: try files.makeServiceAccount())
    browsers = try await FakeWebPush(files, key: try files.makeVAPIDKey())
    subscription = browsers.subscribe("/push/subscriber-1")
    try files.makeCertificate(userID: "com.example.uid.topic")
    vectors = try Vectors([
      "P256DH": subscription.p256dh, "AUTH": subscription.auth, "ENDPOINT": subscription.endpoint,
      "ENDPOINT_ORIGIN": browsers.url, "APNS_KEY_P8": files.apnsKey, "VAPID_KEY": files.vapidKey,
      "SERVICE_ACCOUNT": files.serviceAccount, "APNS_CERTIFICATE_WITH_UID com.example.uid.topic": files.certificate,
    ])
    apps = try PushApps(try vectors.object("apps")).apps
    var providers: [any PushProvider] = []
    let tokens = APNsTokens()
    for app in apps {
      var endpoints = PushEndpoints()
      endpoints.apns = app.hasCertificate ? appleByCertificate.url : apple.url
      (endpoints.fcm, endpoints.fcmOAuth) = (google.url, exchange.tokenURL)
      (endpoints.trust, endpoints.allowsPrivate) = (files.trust, true)
      providers.append(try app.provider(endpoints, tokens: tokens, clock: Self.clock, logger: .silent))
    }
    self.providers = providers
  }

  private func close() async throws {
    try await apple.close()
    try await appleByCertificate.close()
    try await google.close()
    try await exchange.close()
    try await browsers.close()
  }

  /// A name for what both kinds of Google's service answer when all is well.
  private static func googleAnswer(_ request: FakeRequest) -> FakeAnswer {
    guard request.path == "/fcm/send" else { return .answer(200, #"{"name":"projects/example-project/messages/0:1"}"#) }
    let count = (request.json["registration_ids"] as? [Any])?.count ?? 1
    let results = Array(repeating: #"{"message_id":"m"}"#, count: count).joined(separator: ",")
    return .answer(200, #"{"multicast_id":1,"results":[\#(results)]}"#)
  }

  /// Lanes that have not failed yet. - Parameter inflightMax: of every app; nil leaves what is configured.
  func lanes(_ time: PushTime = .system, inflightMax: Int? = nil) -> [GatewayApp] {
    zip(apps, providers).map { app, provider in
      var app = app
      app.inflightMax = inflightMax ?? app.inflightMax
      // Attempts never end by the time that a slow machine takes.
      return GatewayApp(
        app, provider: provider, clock: Self.clock, logger: .silent, time: time, attemptTimeout: .seconds(120))
    }
  }

  /// Serves with fresh lanes and no memory while `body` runs.
  func gateway(
    _ time: PushTime = .system, deadline: Duration = .seconds(100), inflightMax: Int? = nil, openBytesMax: Int? = nil,
    board: (any PushBoard)? = nil, isolation: isolated (any Actor)? = #isolation,
    _ body: (GatewayClient) async throws -> Void
  ) async throws {
    var settings = PushGatewaySettings(host: "127.0.0.1", port: 0)
    settings.deadline = deadline
    settings.openBytesMax = openBytesMax ?? settings.openBytesMax
    try await GatewayClient.with(settings, lanes(time, inflightMax: inflightMax), time, board: board, body)
  }
}

extension PushApp {
  fileprivate var hasCertificate: Bool {
    if case .apns(let apns) = service, case .certificate = apns.authentication { true } else { false }
  }
}

extension Logger {
  static var silent: Logger { Logger(label: "test") { _ in SwiftLogNoOpLogHandler() } }
}
