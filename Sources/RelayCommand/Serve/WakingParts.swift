import Logging
import Push
import Relay
import RelayConfiguration
import RelayCore
import ServiceLifecycle
import Waking

/// Waking's part of the graph: how this relay's own devices are woken by push. Only where a provider is configured.
struct WakingParts {
  let desk: WakeDesk
  private let settings: WakingSettings
  private let bell = WakeBell()
  private let metrics: WakeMetrics
  private let lanes: [WakeProvider: PushLane]
  private let logger: Logger

  /// - Parameter tokens: of Apple's keys, shared with whatever else pushes by them.
  /// - Returns: nil where no provider is configured.
  /// - Throws: `CommandFailure`, when a file of the credentials cannot be used.
  init?(
    _ configuration: RelayConfiguration.Push, tokens: APNsTokens, storage: any Storage, logger: Logger
  ) throws {
    guard configuration.waking.isOn else { return nil }
    lanes = try Self.lanes(configuration, tokens, logger: logger)
    settings = WakingSettings(configuration.waking)
    metrics = WakeMetrics(providers: settings.terms.providers)
    desk = WakeDesk(store: storage, settings: settings, bell: bell, metrics: metrics, logger: logger)
    self.logger = logger
  }

  /// In the order in which they start, before whoever tells the desk.
  func services(_ local: LocalParts, storage: any Storage, coordination: any Coordination) -> [any Service] {
    let parts = WakeParts(
      store: storage, signals: coordination, live: local.hub,
      seal: { envelope, key in envelope.sealed(underSignalingKey: key) }, lanes: lanes, bell: bell, metrics: metrics,
      clock: .system, logger: logger)
    let workers = WakeProvider.allCases.compactMap { WakeWorker(of: $0, parts, settings) }
    return Array(lanes.values) + workers + [WakeSweeper(storage, parts, settings), desk]
  }

  private static func lanes(
    _ configuration: RelayConfiguration.Push, _ tokens: APNsTokens, logger: Logger
  ) throws -> [WakeProvider: PushLane] {
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
      let key = error.file == endpoints.trust ? "push.endpoints.trust" : "push.apns or push.fcm"
      throw CommandFailure("\(key): \(error). \(PushGatewayParts.remedy)")
    }
    return lanes
  }
}

extension WakingSettings {
  init(_ configuration: RelayConfiguration.Waking) {
    self.init(terms: WakeTerms(configuration))
    sendsContent = configuration.content == .envelope
    pause = configuration.pause
    memory = max(memory, configuration.pause)
  }
}

extension WakeTerms {
  init(_ configuration: RelayConfiguration.Waking) {
    var providers: [WakeProvider] = []
    if configuration.fcm != nil { providers.append(.fcm) }
    if configuration.apns != nil { providers.append(.apns) }
    self.init(providers: providers, lifetime: configuration.lifetime)
  }
}
