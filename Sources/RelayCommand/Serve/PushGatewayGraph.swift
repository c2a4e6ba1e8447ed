import Logging
import Operations
import Push
import PushGateway
import RelayConfiguration
import RelayCore
import ServiceLifecycle

/// The Matrix push gateway's part of the graph.
struct PushGatewayGraph {
  /// In the order in which they start: requests that are open need the lanes.
  let services: [any Service]

  /// - Parameters:
  ///   - tokens: of Apple's keys, shared with whatever else pushes by them.
  ///   - board: what all processes see of pushes; nil where there is one.
  /// - Returns: nil when the gateway is off, or left to other processes.
  /// - Throws: `CommandFailure` that names each app whose credentials cannot be used, the file, and what to do.
  init?(
    _ settings: RelayConfiguration, tokens: APNsTokens, board: (any PushBoard)?, readiness: Readiness, logger: Logger
  ) throws {
    guard settings.roles.has(.push), let port = settings.pushGateway.port, let tree = settings.pushGateway.apps else {
      return nil
    }
    let endpoints = PushEndpoints(settings.push)
    let apps = try Self.apps(tree).map { Self.served($0, endpoints, tokens, logger) }
    let failures = apps.compactMap { if case .failure(let failure) = $0 { failure.description } else { nil } }
    guard failures.isEmpty else { throw CommandFailure(failures.joined(separator: "\n")) }
    let served = try apps.map { try $0.get() }

    let host = settings.pushGateway.host
    // Readiness is the listener's alone: a provider in trouble is no reason not to serve the others.
    let state = ListenerState("push-gateway", in: readiness)
    let gateway = PushGateway(
      PushGatewaySettings(host: host, port: port), apps: served, board: board, logger: logger
    ) { bound in
      state.began()
      logger.notice(
        "serving the push gateway", metadata: ["address": "\(host):\(bound)", "apps": "\(served.count)"])
    }
    services = served.map(\.lane) + [Listening("push-gateway", host, port, gateway)]
  }

  private static func apps(_ tree: JSONValue) throws -> [PushApp] {
    do throws(PushAppFaults) {
      return try PushApps(tree).apps
    } catch {
      throw CommandFailure(error.faults.map { "push-gateway.apps: \($0)" }.joined(separator: "\n"))
    }
  }

  private static func served(
    _ app: PushApp, _ endpoints: PushEndpoints, _ tokens: APNsTokens, _ logger: Logger
  ) -> Result<GatewayApp, CommandFailure> {
    do throws(PushCredentialError) {
      let provider = try app.provider(endpoints, tokens: tokens, clock: .system, logger: logger)
      return .success(GatewayApp(app, provider: provider, clock: .system, logger: logger))
    } catch {
      let key = error.file == endpoints.trust ? "push.endpoints.trust" : "push-gateway.apps.\(app.name)"
      return .failure(CommandFailure("\(key): \(error). \(remedy)"))
    }
  }

  /// The remedy for a file of credentials that cannot be used.
  static let remedy =
    "See that the file is there and the relay's user may read it; docs/push.md says what belongs in it."
}

extension TreeReaders {
  /// The readers of all trees that a relay's configuration has.
  static let relay = TreeReaders { pushApps($0) }

  private static func pushApps(_ tree: JSONValue) -> TreeReport {
    let (faults, warnings): ([PushAppFault], [PushAppFault])
    do throws(PushAppFaults) {
      (faults, warnings) = ([], try PushApps(tree).warnings)
    } catch {
      (faults, warnings) = (error.faults, [])
    }
    return TreeReport(
      summary: PushApps.summary(of: tree),
      findings: faults.map { finding($0, isWarning: false) } + warnings.map { finding($0, isWarning: true) })
  }

  private static func finding(_ fault: PushAppFault, isWarning: Bool) -> TreeReport.Finding {
    .init(at: [fault.app, fault.option].compactMap(\.self), fault.text, isWarning: isWarning)
  }
}
