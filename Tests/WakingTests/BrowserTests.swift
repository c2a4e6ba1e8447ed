import ChildProcesses
import Foundation
import Glibc
import RelayCore
import TestSupport
import TestTags
import Testing

/// Browsers: how their devices are woken, and which pages may use the API.
@Suite(.tags(.processes)) struct BrowserTests {
  /// Runs `body` with a relay that wakes browsers, and the push service of theirs.
  private static func with(
    _ settings: [String: String] = [:],
    _ body: (FakeWebPush, RelayOperator, RelayProcess) async throws -> Void
  ) async throws {
    let files = try PushFiles()
    let service = try await FakeWebPush(files, key: try files.makeVAPIDKey())
    let own = [
      "RELAY_PUSH_WEBPUSH_KEY_FILE": files.vapidKey, "RELAY_PUSH_WEBPUSH_CONTACT": "mailto:push@example.org",
      "RELAY_PUSH_WEBPUSH_ALLOW_PRIVATE": "true", "RELAY_PUSH_ENDPOINTS_TRUST": files.trust,
      "RELAY_PUSH_PAUSE_SECONDS": "0",
      "RELAY_LIMITS_SMS_DESTINATION_SIZE": "1000", "RELAY_LIMITS_VERIFY_NUMBER_SIZE": "1000",
    ]
    let outcome: Result<Void, any Error>
    do {
      try await RelayOperator.with(settings: own.merging(settings) { $1 }) { site in
        let relay = try await site.serve()
        do {
          try await body(service, site, relay)
        } catch {
          print("--- the end of the relay's log\n\(relay.log().suffix(2000))")
          await relay.kill9()
          throw error
        }
        #expect(await relay.terminate() == .code(0))
      }
      outcome = .success(())
    } catch {
      outcome = .failure(error)
    }
    try await service.close()
    try outcome.get()
  }

  private static func json(_ subscription: TestSubscription) -> String {
    #"{"endpoint":"\#(subscription.endpoint)","p256dh":"\#(subscription.p256dh)","auth":"\#(subscription.auth)"}"#
  }

  /// As `PushSubscription.toJSON` has it.
  private static func nested(_ subscription: TestSubscription) -> String {
    #"{"endpoint":"\#(subscription.endpoint)","expirationTime":null,"keys":{"p256dh":"\#(subscription.p256dh)","#
      + #""auth":"\#(subscription.auth)"}}"#
  }

  private static func put(_ body: String, _ device: WokenDevice, _ relay: RelayProcess) async throws -> Int {
    try await relay.send("PUT", "/v1/accounts/webpush/", json: body, as: device.account).status
  }

  @Test func `a browser is woken by its push service, until that says that it is gone`() async throws {
    try await Self.with { service, site, relay in
      let (browser, sender) = (try await WokenDevice(at: relay), try await WokenDevice(at: relay))
      let key = try await relay.send("GET", "/v1/accounts/webpush", as: browser.account)
      #expect(key.status == 200 && key.text.contains(#""publicKey":"B"#), "\(key.text)")
      let subscription = service.subscribe()
      #expect(try await Self.put(Self.nested(subscription), browser, relay) == 200)
      #expect(try await sender.send(to: browser, at: relay) == 200)
      try await eventually("it is woken") { service.messages.count == 1 }
      #expect(service.messages == [#"{"type":"message","message":"","notification":"true"}"#])
      #expect(service.requests[0].headers["urgency"] == "high" && service.requests[0].headers["topic"] == "messages")
      #expect(service.faults.isEmpty, "\(service.faults)")
      // Dead, and so cleared: nobody is asked again.
      service.service.answer(.answer(410))
      #expect(try await sender.send(to: browser, at: relay, timestamp: 2) == 200)
      try await eventually("it is said to be gone") {
        try await WakingTests.history(of: browser, site).contains { $0.fault == "dead-push-id" }
      }
      #expect(service.requests.count == 2)
      // A newer subscription is taken, and DELETE clears it.
      #expect(try await Self.put(Self.json(service.subscribe()), browser, relay) == 200)
      #expect(try await sender.send(to: browser, at: relay, timestamp: 3) == 200)
      try await eventually("it is woken again") { service.requests.count == 3 }
      #expect(try await relay.send("DELETE", "/v1/accounts/webpush/", as: browser.account).status == 200)
      let last = try await WokenDevice(at: relay)
      #expect(try await Self.put(Self.json(service.subscribe("/push/last")), last, relay) == 200)
      // The browser can be reached no more.
      #expect(try await sender.send(to: browser, at: relay, timestamp: 4) == 404)
      #expect(try await sender.send(to: last, at: relay) == 200)
      try await eventually("the last is woken") { service.requests.last?.path == "/push/last" }
      #expect(service.requests.count == 4)
    }
  }

  @Test func `with content the message goes with the push`() async throws {
    try await Self.with(["RELAY_PUSH_CONTENT": "envelope"]) { service, _, relay in
      let (browser, sender) = (try await WokenDevice(at: relay), try await WokenDevice(at: relay))
      #expect(try await Self.put(Self.json(service.subscribe()), browser, relay) == 200)
      #expect(try await sender.send(to: browser, at: relay) == 200)
      try await eventually("it is woken") { service.messages.count == 1 }
      #expect(service.messages[0].hasPrefix(#"{"type":"message","message":""#) && service.messages[0].count > 60)
      // A message that does not fit goes as a wake-up.
      let large = Data((0..<6000).map { _ in UInt8.random(in: 0...255) }).base64EncodedString()
      #expect(try await Self.put(Self.json(service.subscribe()), sender, relay) == 200)
      #expect(try await browser.send(large, to: sender, at: relay) == 200)
      try await eventually("the other is woken") { service.messages.count == 2 }
      #expect(service.messages[1].contains("notification"))
    }
  }

  @Test func `a subscription that could never be pushed to is refused`() async throws {
    let settings = [
      "RELAY_PUSH_WEBPUSH_ALLOW_PRIVATE": "false", "RELAY_PUSH_WEBPUSH_ALLOWED_ENDPOINTS": "*.example.net",
    ]
    try await Self.with(settings) { service, _, relay in
      let browser = try await WokenDevice(at: relay)
      func at(_ endpoint: String) -> String { Self.json(TestSubscription(endpoint: endpoint)) }
      let good = TestSubscription(endpoint: "https://push.example.net/x")
      #expect(try await Self.put(Self.json(good), browser, relay) == 200)
      let refused = [
        at("http://push.example.net/x"), at("https://127.0.0.1/x"), at("https://push.example.org/x"), at("nonsense"),
        at("https://user@push.example.net/x"),
        Self.json(good).replacing(good.auth, with: "c2hvcnQ"), Self.json(good).replacing(good.p256dh, with: good.auth),
      ]
      for body in refused { #expect(try await Self.put(body, browser, relay) == 400, "\(body)") }
      let malformed = [
        "{}", #"{"endpoint":5}"#, #"{"endpoint":"https://push.example.net/x"}"#,
        Self.json(TestSubscription(endpoint: "https://push.example.net/a b")),
        at("https://push.example.net/" + String(repeating: "x", count: 5000)),
      ]
      for body in malformed { #expect(try await Self.put(body, browser, relay) == 415, "\(body.prefix(80))") }
    }
  }

  @Test func `a browser says its subscription at a relay that wakes none, and is told that it has no key`() async throws
  {
    try await RelayOperator.with(settings: [:]) { site in
      let relay = try await site.serve()
      let browser = try await WokenDevice(at: relay)
      #expect(try await relay.send("GET", "/v1/accounts/webpush/", as: browser.account).status == 404)
      let subscription = TestSubscription(endpoint: "https://push.example.net/x")
      #expect(try await Self.put(Self.json(subscription), browser, relay) == 200)
      #expect(await relay.terminate() == .code(0))
    }
  }

  // MARK: Pages

  private static let page = "https://app.example.org"

  @Test func `pages of the configured origins may use the API, and others may not`() async throws {
    try await Self.with(["RELAY_CLIENT_ORIGINS": "\(Self.page), https://other.example.org:8443"]) { _, _, relay in
      let device = try await WokenDevice(at: relay)
      let asked = [
        ("Access-Control-Request-Method", "PUT"), ("Access-Control-Request-Headers", "authorization,content-type"),
      ]
      let preflight = try await relay.send("OPTIONS", "/v1/accounts/webpush/", headers: [("Origin", Self.page)] + asked)
      #expect(preflight.status == 204)
      #expect(preflight.headers["access-control-allow-origin"] == Self.page)
      #expect(preflight.headers["access-control-allow-methods"]?.contains("PUT") == true)
      #expect(preflight.headers["access-control-allow-headers"] == "authorization,content-type")
      // Refusals are readable too.
      for (account, status) in [(Optional(device.account), 200), (nil, 401)] {
        let answer = try await relay.send("GET", "/v2/keys", as: account, headers: [("Origin", Self.page)])
        #expect(answer.status == status && answer.headers["access-control-allow-origin"] == Self.page)
        #expect(answer.headers["vary"]?.contains("Origin") == true)
      }
      let stranger = [("Origin", "https://evil.example.org")]
      let refused = try await relay.send("OPTIONS", "/v1/accounts/webpush/", headers: stranger + asked)
      #expect([401, 405].contains(refused.status) && refused.headers["access-control-allow-origin"] == nil)
      let plain = try await relay.send("GET", "/v2/keys", as: device.account, headers: stranger)
      #expect(plain.status == 200 && plain.headers["access-control-allow-origin"] == nil)
      for path in ["/v1/websocket/", "/v1/websocket/provisioning/"] {
        #expect(try await Self.upgrade(path, at: relay, device, origin: Self.page) == 101, "\(path)")
        #expect(try await Self.upgrade(path, at: relay, device, origin: "https://other.example.org:8443") == 101)
        #expect(try await Self.upgrade(path, at: relay, device, origin: "https://evil.example.org") == 403, "\(path)")
        #expect(try await Self.upgrade(path, at: relay, device, origin: nil) == 101, "\(path)")
      }
    }
  }

  @Test func `if no pages are configured, none is told anything and WebSockets may come from anywhere`()
    async throws
  {
    try await Self.with { _, _, relay in
      let device = try await WokenDevice(at: relay)
      let answer = try await relay.send("GET", "/v2/keys", as: device.account, headers: [("Origin", Self.page)])
      #expect(answer.status == 200 && answer.headers["access-control-allow-origin"] == nil)
      #expect(try await Self.upgrade("/v1/websocket/provisioning/", at: relay, device, origin: Self.page) == 101)
    }
  }

  /// - Returns: the status that the opening of a WebSocket is answered with.
  private static func upgrade(
    _ path: String, at relay: RelayProcess, _ device: WokenDevice, origin: String?
  ) async throws -> Int {
    let password = device.account.password.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? ""
    let login =
      path.contains("provisioning") ? "" : "?login=%2B\(device.account.number.dropFirst())&password=\(password)"
    let url = try #require(URL(string: relay.url))
    let port = try #require(url.port)
    let request =
      "GET \(path)\(login) HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
      + "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
      + (origin.map { "Origin: \($0)\r\n" } ?? "") + "\r\n"
    return try await Loopback.blocking {
      let descriptor = try Loopback.connect(to: port, patience: 10)
      defer { close(descriptor) }
      let bytes = Array(request.utf8)
      guard send(descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL)) == bytes.count else {
        throw TestFailure("send: errno \(errno)")
      }
      var buffer = [UInt8](repeating: 0, count: 64)
      let count = recv(descriptor, &buffer, buffer.count, 0)
      let words = String(decoding: buffer.prefix(max(0, count)), as: UTF8.self).split(separator: " ")
      guard words.count > 1, let status = Int(words[1]) else { throw TestFailure("no answer to the upgrade") }
      return status
    }
  }
}
