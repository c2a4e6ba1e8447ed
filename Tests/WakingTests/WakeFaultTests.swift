import ChildProcesses
import Foundation
import RelayCore
import Storage
import TestSupport
import TestTags
import Testing

/// Every kind of failure that an operator may meet is seeded, and named by `relay push test` or `relay push history`.
@Suite(.tags(.processes)) struct WakeFaultTests {
  private struct Report: Decodable {
    let outcome: String
    let fault: String?
  }

  private static func test(_ name: String, _ site: RelayOperator, _ overrides: [String: String] = [:]) async throws
    -> Report
  {
    let result = try await site.run(
      ["push", "test", name, "--json"], overrides: overrides, within: .seconds(240))
    guard let report = try? JSONDecoder().decode(Report.self, from: Data(result.output.utf8)) else {
      throw TestFailure("relay push test \(result.exit): \(result.errors)")
    }
    #expect(result.exit == .code(report.outcome == "woken" ? 0 : 1))
    if let fault = report.fault { #expect(result.errors.contains(fault)) }
    #expect(!result.output.contains(name.dropFirst()) && !result.errors.contains(name.dropFirst()))
    return report
  }

  /// A provider's answer, and the name of the fault that it causes.
  private struct Seed: Sendable {
    let place: WakingSite.Place
    let fault: String?
    let prepare: @Sendable (WakingSite) async throws -> Void
  }

  /// Under which everything is too old at once.
  private static let brief = WakeTerms(providers: [.fcm], lifetime: .zero)

  private static let seeds: [Seed] = [
    Seed(place: .google, fault: nil) { _ in },
    Seed(place: .apple, fault: nil) { _ in },
    Seed(place: .google, fault: "quota") { $0.fcm.answer(429, "RESOURCE_EXHAUSTED", code: "QUOTA_EXCEEDED") },
    Seed(place: .google, fault: "provider-in-trouble") { $0.fcm.answer(503, "UNAVAILABLE") },
    Seed(place: .google, fault: "dead-push-id") { $0.fcm.answer(404, "NOT_FOUND", code: "UNREGISTERED") },
    Seed(place: .google, fault: "refused") { $0.fcm.answer(403, "PERMISSION_DENIED", code: "SENDER_ID_MISMATCH") },
    Seed(place: .apple, fault: "wrong-topic") { $0.apns.answer(400, reason: "TopicDisallowed") },
    Seed(place: .apple, fault: "too-large") { $0.apns.answer(413, reason: "PayloadTooLarge") },
    // Answers that say nothing of a registration.
    Seed(place: .google, fault: "refused") { $0.fcm.answer(404, "NOT_FOUND") },
    Seed(place: .apple, fault: "wrong-environment") { $0.apns.answer(400, reason: "BadDeviceToken") },
    Seed(place: .apple, fault: "dead-push-id") { $0.apns.answer(410, reason: "Unregistered") },
    Seed(place: .apple, fault: "provider-silent") { $0.apns.service.answer(.silence) },
    // These stop what comes behind them for a while.
    Seed(place: .apple, fault: "credentials-refused") { $0.apns.answer(403, reason: "InvalidProviderToken") },
    Seed(place: .google, fault: "credentials-refused") { $0.fcm.answer(403, "PERMISSION_DENIED") },
    Seed(place: .google, fault: "provider-unreachable") { try await $0.fcm.service.close() },
  ]

  @Test func `each answer of a provider, and each silence, has its name`() async throws {
    try await WakingSite.with { waking in
      try await RelayOperator.with(settings: waking.settings()) { site in
        let relay = try await site.serve()
        let storage = try SQLiteStorage(path: site.folder + "/relay.sqlite", clock: .now)
        for seed in Self.seeds {
          let device = try await WokenDevice(at: relay)
          switch seed.place {
          case .google: try await device.register(gcm: "token-\(UUID().uuidString)", at: relay)
          case .apple: try await device.register(apn: WokenDevice.appleToken(), at: relay)
          }
          try await seed.prepare(waking)
          let report = try await Self.test(device.name, site)
          #expect(report.fault == seed.fault, "\(seed.place) \(seed.fault ?? "no fault")")
          #expect(report.outcome == (seed.fault == nil ? "woken" : "failed"))
          // Its next attempt would take the answer that is meant for another.
          _ = try await storage.askToWake([], afterForgetting: [WakeRelease(device.address)], Self.brief)
        }

        // Faults that need no provider.
        let (unregistered, nobody) = (try await WokenDevice(at: relay), TestDevice.freshNumber())
        #expect(try await Self.test(unregistered.name, site).fault == "no-push-id")
        #expect(try await Self.test(nobody + ".1", site).fault == "no-such-device")
        #expect(try await Self.test(unregistered.account.number + ".7", site).fault == "no-such-device")

        // A wake-up that was too old when somebody came to it.
        let late = try await WokenDevice(at: relay)
        try await late.register(gcm: "token-late", at: relay)
        #expect(try await storage.askToWake([WakeAsk(late.address)], afterForgetting: [], Self.brief) == 1)
        await storage.close()
        try await eventually("it is written down", within: .seconds(120), every: .milliseconds(500)) {
          try await WakingTests.history(of: late, site).contains { $0.fault == "expired" }
        }
        #expect(waking.pushes(toGoogle: "token-late").isEmpty)
        #expect(await relay.terminate() == .code(0))
      }
    }
  }

  @Test func `each lack of this relay has its name`() async throws {
    try await WakingSite.with { waking in
      try await RelayOperator.with(settings: waking.settings([.google])) { site in
        let relay = try await site.serve()
        let (android, iPhone) = (try await WokenDevice(at: relay), try await WokenDevice(at: relay))
        try await android.register(gcm: "token", at: relay)
        try await iPhone.register(apn: WokenDevice.appleToken(), at: relay)
        #expect(try await Self.test(iPhone.name, site).fault == "provider-not-configured")
        #expect(await relay.terminate() == .code(0))
        #expect(try await Self.test(android.name, site).fault == "no-process")
      }
    }
  }

  @Test func `a provider that is not who it should be has its name`() async throws {
    let stranger = try PushFiles()
    try await WakingSite.with { waking in
      let settings = waking.settings([.google], ["RELAY_PUSH_ENDPOINTS_TRUST": stranger.trust])
      try await RelayOperator.with(settings: settings) { site in
        let relay = try await site.serve()
        let device = try await WokenDevice(at: relay)
        try await device.register(gcm: "token", at: relay)
        #expect(try await Self.test(device.name, site).fault == "tls-not-trusted")
        #expect(await relay.terminate() == .code(0))
      }
    }
  }
}

extension WallClock {
  fileprivate static let now = WallClock { Timestamp(millis: Int64(Date().timeIntervalSince1970 * 1000)) }
}
