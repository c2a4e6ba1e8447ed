import ChildProcesses
import Foundation
import OrderedCollections
import RelayCore
import Synchronization
import TestSupport
import TestTags
import Testing

/// The gateway of a real `relay serve`, from the homeserver's request to the provider's answer.
@Suite(.tags(.processes)) struct ServeTests {
  private typealias Site = ServedGateway

  @Test func `each provider once, and the metrics that dashboards know`() async throws {
    try await ServedGateway.with { site in
      let (relay, client) = try await site.serve()
      for (app, key) in [(Site.ios, Site.token), (Site.android, "k1"), (Site.web, site.subscription.p256dh)] {
        let reply = try await site.deliver(app, key: key, event: "$of-\(app)", by: client)
        #expect(reply.rejected == [])
      }
      let unknown = try await client.notify([("no.such", "k2")], event: "$unknown")
      #expect(unknown.status == 200 && unknown.rejected == ["k2"])
      #expect(site.apple.faults.isEmpty && site.google.faults.isEmpty && site.browsers.faults.isEmpty)
      #expect(site.apple.requests.allSatisfy { $0.text.contains("$of-\(Site.ios)") })
      #expect(site.google.requests.allSatisfy { $0.text.contains(#""mutable-content":1"#) })
      #expect(site.browsers.messages.allSatisfy { $0.contains("$of-\(Site.web)") })
      #expect(!site.apple.requests.isEmpty && !site.google.requests.isEmpty && !site.browsers.messages.isEmpty)
      try Self.checkNames(in: try await Site.metrics(of: relay))
      #expect(!relay.log().contains("k1") && !relay.log().contains(site.subscription.p256dh))
      let exit = await relay.terminate(within: .seconds(120))
      #expect(exit == .code(0))
    }
  }

  /// Reference, 10.
  private static func checkNames(in lines: [String]) throws {
    let names = [
      "sygnal_notifications_received_total", "sygnal_notifications_devices_received_total",
      #"sygnal_per_pushkin_type_total{pushkin="com.example.ios"}"#,
      #"sygnal_per_pushkin_type_total{pushkin="com.example.a*"}"#,
      #"sygnal_pushgateway_status_codes_total{code="200"}"#, #"sygnal_notify_time_bucket{code="200",le="0.005"}"#,
      #"sygnal_requests_in_flight{resource="V1NotifyHandler"}"#,
      #"sygnal_inflight_request_limit_drop_total{pushkin="*.web"}"#,
      "sygnal_apns_request_time_count", "sygnal_active_apns_requests",
      #"sygnal_apns_status_codes_total{code="200",pushkin="com.example.ios"}"#,
      "sygnal_gcm_queue_time_count", "sygnal_gcm_request_time_count", "sygnal_pending_gcm_requests",
      "sygnal_active_gcm_requests", #"sygnal_gcm_status_codes_total{code="200",pushkin="com.example.a*"}"#,
      "sygnal_webpush_queue_time_count", "sygnal_webpush_request_time_count", "sygnal_pending_webpush_requests",
      "sygnal_active_webpush_requests", #"relay_push_halted{app="*.web",provider="webpush"}"#,
      #"relay_push_gateway_rejected_total{app="none",reason="unknown-app"}"#,
    ]
    for name in names { #expect(lines.contains { $0.hasPrefix(name + " ") }, "\(name)") }
  }

  @Test func `a provider that does not answer slows no other, and hides no other's outcome`() async throws {
    try await ServedGateway.with { site in
      let (relay, client) = try await site.serve()
      site.apple.service.answerAlways(.silence)
      let stuck = (0..<20).map { number in
        Task { try await client.notify([(Site.ios, Site.token)], event: "$stuck-\(number)").status }
      }
      try await eventually("Apple is asked") { !site.apple.requests.isEmpty }
      for number in 0..<20 {
        _ = try await site.deliver(Site.android, key: "k", event: "$android-\(number)", by: client)
        _ = try await site.deliver(Site.web, key: site.subscription.p256dh, event: "$web-\(number)", by: client)
      }
      for task in stuck { #expect(try await task.value == 502) }
      try await eventually("Apple's lane is halted", within: .seconds(120)) {
        try await Site.metrics(of: relay).contains(#"relay_push_halted{app="com.example.ios",provider="apns"} 1"#)
      }
      // One request for both: what Google took is not pushed again with the repeat.
      let both = [(app: Site.ios, key: Site.token), (app: Site.android, key: "k-both")]
      for _ in 0..<2 { #expect(try await client.notify(both, event: "$both").status == 502) }
      #expect(site.google.requests.count { $0.text.contains("k-both") } == 1)
      await relay.kill9()
    }
  }

  @Test func `connections end when they are told to, and name one host`() async throws {
    try await ServedGateway.with { site in
      let (relay, client) = try await site.serve()
      try await ConnectionRules(port: client.port, path: "/health").expectAll()
      #expect(await relay.terminate() == .code(0))
    }
  }

  @Test func `replaced credentials are taken up without a restart`() async throws {
    try await ServedGateway.with { site in
      let (relay, client) = try await site.serve()
      _ = try await site.deliver(Site.web, key: site.subscription.p256dh, event: "$before", by: client)
      site.browsers.trust(try site.files.makeVAPIDKey())
      // Until then the service refuses our token, and what it refuses is dropped (reference 7.5).
      try await eventually("the key is taken up") { relay.log().contains("files reloaded") }
      _ = try await site.deliver(Site.web, key: site.subscription.p256dh, event: "$after", by: client)
      #expect(site.browsers.tokens.count >= 2)
      // One that cannot be read leaves the former in use.
      try site.files.write("no key", to: "vapid.pem")
      try await eventually("it is said") { relay.log().contains("changed files cannot be loaded") }
      _ = try await site.deliver(Site.web, key: site.subscription.p256dh, event: "$still", by: client)
      await relay.kill9()
    }
  }

  @Test func `a request under way is finished at SIGTERM`() async throws {
    try await ServedGateway.with { site in
      let (relay, client) = try await site.serve()
      site.google.service.pause(.seconds(2))
      let open = Task { try await client.notify([(Site.android, "k")], event: "$open") }
      try await eventually("Google is asked") { !site.google.requests.isEmpty }
      let exit = await relay.terminate(within: .seconds(120))
      #expect(exit == .code(0), "\(relay.log())")
      let reply = try await open.value
      #expect(reply.status == 200 && reply.rejected == [])
    }
  }

  @Test func `a killed process loses nothing that the homeserver's repeat does not bring`() async throws {
    try await ServedGateway.with { site in
      let (relay, client) = try await site.serve()
      site.google.service.answer(.silence)
      let cut = Task { try await client.notify([(Site.android, "k")], event: "$cut").status }
      try await eventually("Google is asked") { !site.google.requests.isEmpty }
      await relay.kill9()
      let status = try? await cut.value
      #expect(status == nil, "nobody answered")
      let (second, other) = try await site.serve()
      _ = try await site.deliver(Site.android, key: "k", event: "$cut", by: other)
      #expect(site.google.requests.count >= 2)
      await second.kill9()
    }
  }
}
