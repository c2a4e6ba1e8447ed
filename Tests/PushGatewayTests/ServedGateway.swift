// The gateway as operators run it: `relay serve` with a YAML file, in front of fakes of every provider.

import AsyncHTTPClient
import Foundation
import NIOCore
import OrderedCollections
import RelayCore
import TestSupport
import Testing

struct ServedGateway: Sendable {
  static let (ios, android, web) = ("com.example.ios", "com.example.android", "com.example.web")
  static let token = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="

  let site: RelayOperator
  let files: PushFiles
  let apple: FakeAPNs
  let google: FakeFCM
  let browsers: FakeWebPush
  let subscription: TestSubscription

  static func with(
    isolation: isolated (any Actor)? = #isolation, _ body: (ServedGateway) async throws -> Void
  ) async throws {
    try await RelayOperator.with { site in
      let files = try PushFiles()
      let gateway = try await ServedGateway(site, files)
      let outcome: Result<Void, any Error>
      do {
        try gateway.write(gateway.yaml())
        outcome = .success(try await body(gateway))
      } catch {
        outcome = .failure(error)
      }
      try await gateway.apple.close()
      try await gateway.google.close()
      try await gateway.browsers.close()
      try outcome.get()
    }
  }

  private init(_ site: RelayOperator, _ files: PushFiles) async throws {
    self.site = site
    self.files = files
    apple = try await FakeAPNs(files, key: try files.makeAPNsKey())
    google = try await FakeFCM(files, key: try files.makeServiceAccount())
    browsers = try await FakeWebPush(files, key: try files.makeVAPIDKey())
    subscription = browsers.subscribe()
  }

  var configuration: String { site.folder + "/relay.yaml" }

  func write(_ yaml: String) throws { try yaml.write(toFile: configuration, atomically: true, encoding: .utf8) }

  /// - Parameter more: further apps, each on lines of its own, six spaces in.
  func yaml(more: String = "") -> String {
    """
    push:
      endpoints:
        apns: \(apple.url)
        fcm: \(google.url)
        fcm-oauth: \(google.tokenURL)
        trust: \(files.trust)
      webpush:
        allow-private: true
    push-gateway:
      apps:
        \(Self.ios):
          type: apns
          keyfile: \(files.apnsKey)
          key_id: \(PushFiles.keyID)
          team_id: \(PushFiles.teamID)
          topic: \(PushFiles.topic)
        "com.example.a*":
          type: gcm
          api_version: v1
          project_id: \(PushFiles.project)
          service_account_file: \(files.serviceAccount)
          fcm_options:
            apns: {payload: {aps: {mutable-content: 1, alert: {}}}}
        "*.web":
          type: webpush
          vapid_private_key: \(files.vapidKey)
          vapid_contact_email: push@example.org
    \(more)
    """
  }

  /// Starts a process with a gateway on a port of its own.
  func serve() async throws -> (relay: RelayProcess, client: GatewayClient) {
    let port = try Loopback.freePorts(1)[0]
    let relay = try await site.serve(variables(port: port))
    return (relay, GatewayClient(port: port))
  }

  func variables(port: Int) -> [String: String] {
    ["RELAY_CONFIG": configuration, "RELAY_PUSH_GATEWAY_PORT": "\(port)"]
  }

  /// Repeats a notification as homeservers do, until it is answered 200.
  func deliver(
    _ app: String, key: String, event: String, by client: GatewayClient
  ) async throws -> GatewayClient.Reply {
    try await eventually("\(event) is delivered", within: .seconds(180), every: .milliseconds(200)) {
      let reply = try await client.notify(
        [(app, key)], event: event,
        data: app == Self.web ? ["endpoint": .text(subscription.endpoint), "auth": .text(subscription.auth)] : nil)
      return reply.status == 200 ? reply : nil
    }
  }

  /// The metrics on the operator's listener.
  static func metrics(of relay: RelayProcess) async throws -> [String] {
    let answer = try await HTTPClient.shared.execute(
      HTTPClientRequest(url: relay.operatorURL + "/metrics"), timeout: .seconds(60))
    return String(buffer: try await answer.body.collect(upTo: 4 << 20)).split(separator: "\n").map(String.init)
  }
}
