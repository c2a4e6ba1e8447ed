import Logging
import Push
import Relay
import RelayConfiguration
import RelayCore
import RelayWork
import ServiceLifecycle
import Waking

/// Waking's part of the graph: how this relay's own devices are woken by push.
///
/// A process without any provider, or without the role, writes down who is to be woken, too, where another process has
/// one.
struct WakingGraph {
  let requests: WakeRequests
  /// Whether this process pushes.
  private let pushes: Bool
  private let settings: WakingSettings
  private let bell = NudgeGroup()
  private let metrics: WakeMetrics
  private let lanes: [WakeProvider: PushLane]
  private let webPush: WebPushProvider?
  private let logger: Logger

  /// - Parameter tokens: of Apple's keys, shared with whatever else pushes by them.
  /// - Throws: `CommandFailure`, when a file of the credentials cannot be used.
  init(
    _ configuration: RelayConfiguration.Push, roles: Roles, tokens: APNsTokens, storage: any Storage,
    signals: any SignalBus, logger: Logger
  ) throws {
    pushes = roles.has(.push)
    if pushes {
      (lanes, webPush) = try Self.lanes(configuration, tokens, logger: logger)
    } else {
      // Browsers subscribe with our key wherever they register. It alone opens no connection.
      (lanes, webPush) = ([:], roles.has(.clients) ? try Self.webPush(configuration, logger: logger) : nil)
    }
    settings = WakingSettings(configuration.waking, own: pushes ? configuration.waking.providers : [])
    metrics = WakeMetrics(providers: settings.served.own)
    requests = WakeRequests(
      store: storage, signals: signals, settings: settings, bell: bell, metrics: metrics, logger: logger)
    self.logger = logger
  }

  /// In the order in which they start, before whoever tells the desk.
  func services(_ local: LocalGraph, storage: any Storage, coordination: any Coordination) -> [any Service] {
    guard pushes else {
      let key = webPush.map { [$0 as any Service] } ?? []
      return key + [ProviderWatch(storage, settings, logger: logger), requests]
    }
    coordination.listen { [bell] event in if event == .signal(.wakesAsked) { bell.wake() } }
    let parts = WakeParts(
      store: storage, signals: coordination, live: local.hub,
      seal: { envelope, key in envelope.sealed(underSignalingKey: key) }, lanes: lanes, bell: bell, metrics: metrics,
      clock: .system, logger: logger)
    let workers = (Self.hasWorkers ? WakeProvider.allCases : []).compactMap { WakeWorker(of: $0, parts, settings) }
    return Array(lanes.values) + workers + [WakeSweeper(storage, parts, settings), requests]
  }

  private static func lanes(
    _ configuration: RelayConfiguration.Push, _ tokens: APNsTokens, logger: Logger
  ) throws -> ([WakeProvider: PushLane], WebPushProvider?) {
    let endpoints = PushEndpoints(configuration)
    var lanes: [WakeProvider: PushLane] = [:]
    do throws(PushCredentialError) {
      if let apns = configuration.waking.apns {
        let provider = try APNsProvider(
          APNsSettings(apns, endpoints), tokens: tokens, clock: .system, logger: logger)
        lanes[.apns] = .forWaking(by: .apns, provider, clock: .system, logger: logger)
      }
      if let fcm = configuration.waking.fcm {
        let provider = try FCMProvider(FCMSettings(fcm, endpoints), clock: .system, logger: logger)
        lanes[.fcm] = .forWaking(by: .fcm, provider, clock: .system, logger: logger)
      }
    } catch {
      throw failure(error, endpoints)
    }
    let webPush = try webPush(configuration, logger: logger)
    if let webPush { lanes[.webPush] = .forWaking(by: .webPush, webPush, clock: .system, logger: logger) }
    return (lanes, webPush)
  }

  private static func webPush(_ configuration: RelayConfiguration.Push, logger: Logger) throws -> WebPushProvider? {
    guard let own = configuration.waking.webPush else { return nil }
    do throws(PushCredentialError) {
      return try WebPushProvider(WebPushSettings(own, configuration), clock: .system, logger: logger)
    } catch {
      throw failure(error, PushEndpoints(configuration))
    }
  }

  private static func failure(_ error: PushCredentialError, _ endpoints: PushEndpoints) -> CommandFailure {
    let key = error.file == endpoints.trust ? "push.endpoints.trust" : "push.apns, push.fcm or push.webpush"
    return CommandFailure("\(key): \(error). \(PushGatewayGraph.remedy)")
  }

  /// Browsers may register at every process, also at those that wake none: others have the keys.
  static func webPushTerms(
    _ configuration: RelayConfiguration.Push, by waking: WakingGraph?
  ) -> PushController.WebPushTerms {
    let endpoints = configuration.webPushEndpoints?.map { PushGlob($0, ignoringCase: true) }
    return PushController.WebPushTerms(
      publicKey: { [provider = waking?.webPush] in provider?.publicKey },
      isUsable: {
        WebPushSettings.isUsable($0, allowsPrivate: configuration.allowsPrivateWebPush, allowedEndpoints: endpoints)
      })
  }
}

extension WakingSettings {
  /// - Parameter own: the providers that this process pushes through.
  init(_ configuration: RelayConfiguration.Waking, own: [WakeProvider]) {
    self.init(through: ServedProviders(own: own), lifetime: WakeTerms.lifetime)
    sendsContent = configuration.content == .envelope
    pause = configuration.pause
    memory = max(memory, configuration.pause)
  }
}

extension WakeTerms {
  /// How long a wake-up is worth sending, and how long providers keep it for a device that is off. The message waits
  /// in the mailbox for longer: the device reads it whenever it connects.
  static let lifetime = Duration.seconds(86_400)
}

extension RelayConfiguration.Waking {
  /// The providers whose keys it names.
  var providers: [WakeProvider] {
    (fcm == nil ? [] : [.fcm]) + (apns == nil ? [] : [.apns]) + (webPush == nil ? [] : [.webPush])
  }
}
