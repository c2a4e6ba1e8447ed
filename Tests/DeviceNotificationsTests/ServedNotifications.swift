// Device notifications as operators run them: `relay serve` with its settings, in front of a fake of Google's service.

import AsyncHTTPClient
import NIOCore
import NIOHTTP1
import TestSupport
import Testing

struct ServedNotifications: Sendable {
  let site: RelayOperator
  let files: PushFiles
  let google: FakeFCM

  static func with(
    stores: RelayOperator.Stores = .embedded, isolation: isolated (any Actor)? = #isolation,
    _ body: (ServedNotifications) async throws -> Void
  ) async throws {
    try await RelayOperator.with(stores: stores) { site in
      let files = try PushFiles()
      let google = try await FakeFCM(files, key: try files.makeServiceAccount())
      let outcome: Result<Void, any Error>
      do {
        outcome = .success(try await body(ServedNotifications(site: site, files: files, google: google)))
      } catch {
        outcome = .failure(error)
      }
      try await google.close()
      try outcome.get()
    }
  }

  /// Starts a process; its interface is at the second of what is returned.
  func serve() async throws -> (relay: RelayProcess, base: String) {
    let port = try Loopback.freePorts(1)[0]
    let relay = try await site.serve([
      "RELAY_DEVICE_NOTIFICATIONS_PORT": "\(port)", "RELAY_DEVICE_NOTIFICATIONS_PLAIN": "true",
      "RELAY_DEVICE_NOTIFICATIONS_FCM_SERVICE_ACCOUNT_FILE": files.serviceAccount,
      "RELAY_PUSH_ENDPOINTS_FCM": google.url, "RELAY_PUSH_ENDPOINTS_FCM_OAUTH": google.tokenURL,
      "RELAY_PUSH_ENDPOINTS_TRUST": files.trust,
    ])
    return (relay, "http://127.0.0.1:\(port)/external/notifications/")
  }

  /// The second line of a positive answer.
  static func call(_ base: String, _ method: String, _ form: String) async throws -> String {
    let reply = try await NotificationSite.request(
      base + method, .POST, body: form, headers: ["content-type": "application/x-www-form-urlencoded"])
    let lines = reply.text.split(separator: "\n")
    guard lines.count == 2, lines[0] == "A" else { throw TestFailure("\(method): \(reply.status) \(reply.text)") }
    return String(lines[1])
  }

  /// A new user with a password that is made for it.
  func addUser(_ name: String) async throws -> String {
    try await site.relay("notifications", "user", "add", name).split(separator: "\n").joined()
  }
}
