import Foundation
import Logging
import Push
import PushGateway
import RelayConfiguration
import RelayCore

/// Checks the ways of pushes: credentials and the way to each provider, as `relay serve` would use them.
struct PushChecks {
  private let site: DoctorSite
  private let endpoints: PushEndpoints

  init(_ site: DoctorSite) {
    self.site = site
    endpoints = PushEndpoints(site.settings.push)
  }

  var all: [DoctorCheck] {
    guard site.settings.roles.has(.push) else {
      return [DoctorCheck(group: .push, name: "service") { [.skipped("left to other processes by roles")] }]
    }
    let checks = waking + notifications + gateway
    return checks.isEmpty ? [DoctorCheck(group: .push, name: "service") { [.skipped("nothing is pushed")] }] : checks
  }

  private var waking: [DoctorCheck] {
    let (own, endpoints) = (site.settings.push.waking, endpoints)
    return [
      own.apns.map { apns in apnsCheck("waking apns", APNsSettings(apns, endpoints)) },
      own.fcm.map { fcm in fcmCheck("waking fcm", FCMSettings(fcm, endpoints)) },
      own.webPush.map { webPush in webPushCheck("waking webpush", WebPushSettings(webPush, site.settings.push)) },
    ].compactMap(\.self)
  }

  private func webPushCheck(_ name: String, _ settings: WebPushSettings) -> DoctorCheck {
    DoctorCheck(group: .push, name: name) {
      await Self.findings(of: name, settings.trust) { logger throws(PushCredentialError) in
        try WebPushProvider(settings, clock: .system, logger: logger)
      }
    }
  }

  private var notifications: [DoctorCheck] {
    let (own, endpoints) = (site.settings.deviceNotifications, endpoints)
    return [
      own.apns.map { apns in apnsCheck("device-notifications apns", APNsSettings(apns, endpoints)) },
      own.fcm.map { fcm in fcmCheck("device-notifications fcm", FCMSettings(fcm, endpoints)) },
    ].compactMap(\.self)
  }

  private func apnsCheck(_ name: String, _ settings: APNsSettings) -> DoctorCheck {
    DoctorCheck(group: .push, name: name) {
      await Self.findings(of: name, settings.trust) { logger throws(PushCredentialError) in
        try APNsProvider(settings, clock: .system, logger: logger)
      }
    }
  }

  private func fcmCheck(_ name: String, _ settings: FCMSettings) -> DoctorCheck {
    DoctorCheck(group: .push, name: name) {
      await Self.findings(of: name, settings.trust) { logger throws(PushCredentialError) in
        try FCMProvider(settings, clock: .system, logger: logger)
      }
    }
  }

  /// Apps that are configured are looked at whether or not the gateway is on.
  private var gateway: [DoctorCheck] {
    guard let tree = site.settings.pushGateway.apps else { return [] }
    let apps: [PushApp]
    do throws(PushAppFaults) {
      apps = try PushApps(tree).apps
    } catch {
      let text = error.faults.map(\.description).joined(separator: "; ")
      return [
        DoctorCheck(group: .push, name: "gateway") {
          [.failed(text, remedy: "docs/configuration.md lists the options.")]
        }
      ]
    }
    return apps.map { app in
      DoctorCheck(group: .push, name: "gateway \(app.name)") { [endpoints] in
        await Self.findings(of: "gateway \(app.name)", endpoints.trust) { logger throws(PushCredentialError) in
          try app.provider(endpoints, tokens: APNsTokens(), clock: .system, logger: logger)
        }
      }
    }
  }

  /// One line when all is well, or one for each thing that is not.
  /// - Parameter make: the provider as it is served with.
  private static func findings(
    of name: String, _ trust: String?, _ make: (Logger) throws(PushCredentialError) -> any PushProvider
  ) async -> [Finding] {
    let provider: any PushProvider
    do throws(PushCredentialError) {
      // This check reports their faults, so their log is dropped.
      provider = try make(Logger(label: "relay.doctor") { _ in SwiftLogNoOpLogHandler() })
    } catch {
      return [Finding.failed("\(error)", remedy: PushGatewayGraph.remedy).named("\(name) credentials")]
    }
    let judged = provider.credentialsExpire.map {
      CertificateChecks.judge($0, remedy: "Get a new one and replace the file; running relays take it up.")
    }
    var findings: [Finding] = []
    if let judged, judged.outcome != .ok { findings.append(judged.named("\(name) credentials")) }
    for server in provider.servers {
      if let fault = await ProviderReach.fault(at: server, trust: trust, within: reachLimit) {
        findings.append(
          Finding.failed(
            "\(server): \(fault)",
            remedy: "Let this host out to it, past firewalls; behind a proxy that opens TLS, set push.endpoints.trust."
          ).named("\(name) provider"))
      }
    }
    guard findings.isEmpty else { return findings }
    let credentials = judged.map { "credentials: \($0.text)" } ?? "credentials can be read"
    let reached = provider.servers.map { "\($0) reached" }
    return [.ok(([credentials] + reached).joined(separator: ", "))]
  }

  /// FCM has two servers: both fit into a check's time.
  private static let reachLimit = Duration.seconds(4)
}
