// From an entry of the configuration to the way to its provider.

package import Logging
package import Push
package import RelayCore
import RelayMetrics

extension PushApp {
  /// The provider that sends for the entry.
  /// - Parameter tokens: one for all entries, and for all others that send by the same keys.
  /// - Throws: when a file of the credentials cannot be used.
  package func provider(
    _ endpoints: PushEndpoints, tokens: APNsTokens, clock: WallClock, logger: Logger
  ) throws(PushCredentialError) -> any PushProvider {
    switch service {
    case .apns(let apns): try APNsProvider(APNsSettings(apns, endpoints), tokens: tokens, clock: clock, logger: logger)
    case .fcm(let fcm): try FCMProvider(FCMSettings(fcm, endpoints), clock: clock, logger: logger)
    case .fcmLegacy(let legacy): try FCMLegacyProvider(FCMLegacySettings(legacy, endpoints), clock: clock)
    case .webPush(let webPush):
      try WebPushProvider(WebPushSettings(webPush, endpoints), clock: clock, logger: logger)
    }
  }

  /// WebPush services that may be busy at a time before they wait for each other.
  private static let servicesMax = 8

  /// Devices of one request that are under way at a time. As many as the app takes in all, as a rule: more would be
  /// refused, and were there fewer, devices whose services are silent would keep the others waiting.
  var sideBySideMax: Int { min(512, limits.destinationHeldMax ?? limits.heldMax) }

  fileprivate var limits: PushLaneLimits {
    var limits = PushLaneLimits()
    limits.heldMax = inflightMax
    // APNs requests are streams of few connections, as in the reference. So the entry's own limit is the bound.
    limits.destinationWorkersMax =
      switch service {
      case .apns: inflightMax
      case .fcm(let fcm): fcm.connectionsMax
      case .fcmLegacy(let legacy): legacy.connectionsMax
      case .webPush(let webPush): webPush.connectionsMax
      }
    limits.workersMax = limits.destinationWorkersMax
    if case .webPush = service {
      limits.workersMax *= Self.servicesMax
      // A service that answers slowly fills half of the lane; behind that its pushes fail at once.
      limits.destinationHeldMax = max(1, inflightMax / 2)
      // And so do all together that have not answered of late, whatever their number: anybody may name them.
      limits.unprovenWorkersMax = max(1, limits.workersMax / 2)
      limits.unprovenHeldMax = limits.destinationHeldMax
    }
    return limits
  }
}

extension GatewayApp {
  /// - Parameters:
  ///   - provider: as `PushApp.provider` makes it.
  ///   - attemptTimeout: a provider that has not answered by then does not.
  package convenience init(
    _ app: PushApp, provider: any PushProvider, clock: WallClock, logger: Logger, time: PushTime = .system,
    attemptTimeout: Duration = PushLaneLimits().attemptTimeout
  ) {
    let (kind, shown, retries): (PushLaneName.Provider, RelayMetric.GatewayLane, PushRetries) =
      switch app.service {
      case .apns: (.apns, RelayMetric.apnsLane, .apns)
      case .fcm: (.fcm, RelayMetric.fcmLane, .fcm)
      case .fcmLegacy: (.fcmLegacy, RelayMetric.fcmLane, .fcm)
      case .webPush: (.webPush, RelayMetric.webPushLane, .webPush)
      }
    let metrics = GatewayLaneMetrics(pushkin: app.name, of: shown)
    var limits = app.limits
    limits.attemptTimeout = attemptTimeout
    let lane = PushLane(
      PushLaneName(kind, app: app.name), provider: provider, limits: limits, retries: retries, clock: clock,
      logger: logger, time: time, observe: { metrics.observe($0) })
    self.init(app, lane: lane, time: time)
  }
}

extension APNsSettings {
  fileprivate init(_ apns: PushApp.APNs, _ endpoints: PushEndpoints) {
    let authentication: Authentication =
      switch apns.authentication {
      // The reference takes the certificate's topic, whatever is configured (4.1).
      case .certificate(let file): .certificate(file: file, topic: nil)
      case .token(let file, let keyID, let teamID, let topic):
        .token(keyFile: file, keyID: keyID, teamID: teamID, topic: topic)
      }
    self.init(
      authentication: authentication,
      endpoint: endpoints.apns ?? (apns.isSandbox ? APNsSettings.sandbox : APNsSettings.production),
      trust: endpoints.trust)
  }
}

extension FCMSettings {
  fileprivate init(_ fcm: PushApp.FCM, _ endpoints: PushEndpoints) {
    self.init(
      serviceAccountFile: fcm.serviceAccountFile, projectID: fcm.projectID,
      endpoint: endpoints.fcm ?? FCMSettings.service, tokenEndpoint: endpoints.fcmOAuth, trust: endpoints.trust,
      connectionsMax: fcm.connectionsMax)
  }
}

extension FCMLegacySettings {
  fileprivate init(_ legacy: PushApp.FCMLegacy, _ endpoints: PushEndpoints) {
    self.init(
      key: legacy.key, endpoint: endpoints.fcm ?? FCMSettings.service, trust: endpoints.trust,
      connectionsMax: legacy.connectionsMax)
  }
}

extension WebPushSettings {
  fileprivate init(_ webPush: PushApp.WebPush, _ endpoints: PushEndpoints) {
    self.init(
      keyFile: webPush.keyFile, contact: "mailto:" + webPush.contact, allowedEndpoints: webPush.allowedEndpoints,
      timeToLive: webPush.ttl, allowsPrivate: endpoints.allowsPrivate, trust: endpoints.trust,
      connectionsMax: webPush.connectionsMax)
  }
}
