import DeviceNotifications
import Logging
import NIOSSL
import Operations
import Push
import Relay
import RelayConfiguration
import RelayCore
import RelayHTTP
import ServiceLifecycle
import Storage

/// The part of the graph that serves device notifications.
struct NotificationGraph {
  /// In the order in which they start: pushes that are under way need the lanes.
  let services: [any Service]

  private static let laneApp = "device-notifications"
  /// The recipients of one user, inactive ones too. It bounds how far one user can fill the store.
  private static let recipientsMax: Int64 = 1_000_000

  /// - Parameter tokens: of Apple's keys, shared with whatever else pushes by them.
  /// - Returns: nil when they are off, or left to other processes.
  /// - Throws: `CommandFailure` that names what cannot be used, and what to do.
  init?(
    _ settings: RelayConfiguration, storage: any Storage, coordination: any Coordination, tokens: APNsTokens,
    drain: DrainState, readiness: Readiness, logger: Logger
  ) throws {
    let own = settings.deviceNotifications
    guard settings.roles.has(.push), let port = own.port else { return nil }
    let lanes = try Self.lanes(own, PushEndpoints(settings.push), tokens, logger)
    Self.tellOfMissing(lanes, logger)
    let events = EventPusher(store: storage, clock: .system, logger: logger)
    let pushers = NotificationService.allCases.map { service in
      NotificationPusher(service, store: storage, lanes: lanes, clock: .system, logger: logger) { events.wake() }
    }
    let clock = JudgedClock(.system, by: storage.judge)
    let keeper = NotificationKeeper(store: storage, retention: own.retention, clock: clock, logger: logger)

    var parts = Self.parts(storage: storage, limiter: coordination, clock: clock)
    parts.onPush = { for pusher in pushers { pusher.wake() } }
    parts.onEvent = { events.wake() }
    let certificate = try own.tls.map {
      try ServerCertificate.reloading($0, keys: "device-notifications.tls", logger: logger)
    }
    let state = ListenerState("device-notifications", in: readiness)
    let listener = NotificationListener(
      NotificationListenerSettings(
        host: own.host, port: port, proxies: TrustedProxies(settings.client.trustedProxies)),
      parts: parts, tls: certificate?.current, drain: drain, logger: logger
    ) { bound in
      state.began()
      logger.notice(
        "serving device notifications", metadata: ["address": "\(own.host):\(bound)", "tls": "\(own.tls != nil)"])
    }
    let watched = certificate?.services ?? []
    services =
      lanes.values.map { $0 as any Service } + [keeper] + pushers.map { $0 as any Service } + [events] + watched
      + [Listening("device-notifications", own.host, port, listener)]
  }

  /// The parts that the listener's controllers share, but for the pushers that they wake.
  private static func parts(
    storage: any Storage, limiter: any Coordination, clock: JudgedClock
  ) -> NotificationEdgeParts {
    let passwords = ChosenPasswords()
    var parts = NotificationEdgeParts(store: storage, limiter: limiter, clock: clock.arriving, pushClock: .system) {
      (user, password, stored, address) async throws(Problem) in
      try await passwords.verify(password, of: user, from: address, against: stored)
    }
    parts.recipientsMax = recipientsMax
    return parts
  }

  private static func tellOfMissing(_ lanes: [NotificationService: PushLane], _ logger: Logger) {
    let missing = NotificationService.allCases.filter { lanes[$0] == nil }
    guard !missing.isEmpty else { return }
    logger.notice(
      "pushes of device notifications are left to processes that have their provider's keys",
      metadata: ["providers": "\(missing.map(\.rawValue).joined(separator: ", "))"])
  }

  /// Nothing is tried again in them, but for what was on a lost connection to Apple: pushes wait in the store, where
  /// every process finds them.
  private static func lanes(
    _ settings: RelayConfiguration.DeviceNotifications, _ endpoints: PushEndpoints, _ tokens: APNsTokens,
    _ logger: Logger
  ) throws -> [NotificationService: PushLane] {
    var lanes: [NotificationService: PushLane] = [:]
    if let apns = settings.apns {
      let provider = try reading("device-notifications.apns", endpoints) { () throws(PushCredentialError) in
        try APNsProvider(APNsSettings(apns, endpoints), tokens: tokens, clock: .system, logger: logger)
      }
      lanes[.apns] = lane(.apns, provider, logger)
    }
    if let fcm = settings.fcm {
      let provider = try reading("device-notifications.fcm", endpoints) { () throws(PushCredentialError) in
        try FCMProvider(FCMSettings(fcm, endpoints, connectionsMax: 40), clock: .system, logger: logger)
      }
      lanes[.fcm] = lane(.fcm, provider, logger)
    }
    return lanes
  }

  private static func lane(_ kind: PushLaneName.Provider, _ provider: any PushProvider, _ logger: Logger) -> PushLane {
    var limits = PushLaneLimits()
    limits.workersMax = 40
    limits.destinationWorkersMax = 40
    return PushLane(
      PushLaneName(kind, app: laneApp), provider: provider, limits: limits,
      retries: kind == .apns ? .lostConnections : .none, clock: .system, logger: logger)
  }

  private static func reading<Provider>(
    _ prefix: String, _ endpoints: PushEndpoints, _ make: () throws(PushCredentialError) -> Provider
  ) throws -> Provider {
    do throws(PushCredentialError) {
      return try make()
    } catch {
      let key = error.file == endpoints.trust ? "push.endpoints.trust" : prefix
      throw CommandFailure("\(key): \(error). \(PushGatewayGraph.remedy)")
    }
  }
}
