import Hummingbird
import HummingbirdCore
package import Logging
import NIOCore
package import Push
package import RelayCore
import RelayHTTP
import RelayWork
import ServiceLifecycle

/// The address and the bounds under which the gateway serves.
package struct PushGatewaySettings: Sendable {
  package var host: String
  /// 0 takes any free one; `onListening` tells which.
  package var port: Int
  /// How long one request may take: two repeats at a provider in trouble (30 s) fit, and it stays below the minute that
  /// homeservers wait.
  package var deadline = Duration.seconds(45)
  /// How long requests that are open may take once the gateway is to stop; then they are answered as failed, so that
  /// the homeserver repeats them elsewhere. An attempt under way is let finish.
  package var stopLimit = Duration.seconds(15)
  /// Outcomes that are kept for repeated requests, about 50 bytes each.
  package var rememberedMax = 500_000
  /// Open connections; more wait in the kernel's backlog.
  package var connectionsMax = 4096
  /// Bytes of the bodies of all requests that are open; each takes several times that in memory. Further ones are
  /// refused (503).
  package var openBytesMax = 64 << 20

  package init(host: String, port: Int) {
    self.host = host
    self.port = port
  }
}

/// The Matrix push gateway: `POST /_matrix/push/v1/notify` and `/health` on a listener of its own.
///
/// A service: `run()` serves until it is cancelled or shut down gracefully. The apps' lanes are services too, and must
/// end after it: requests that are open need them. It asks for no credentials: push keys are secrets, and who knows
/// one may push to it (reference 1).
package struct PushGateway: Service {
  private let settings: PushGatewaySettings
  private let apps: [GatewayApp]
  private let open = OpenRequests()
  private let responder: RouterResponder<GatewayContext>
  private let logger: Logger
  private let onListening: @Sendable (Int) async -> Void

  /// - Parameters:
  ///   - board: what all processes see of pushes; nil where there is one.
  ///   - onListening: called once with the bound port when requests are accepted.
  package init(
    _ settings: PushGatewaySettings, apps: [GatewayApp], board: (any PushBoard)? = nil, logger: Logger,
    time: PushTime = .system,
    onListening: @escaping @Sendable (Int) async -> Void = { _ in }
  ) {
    self.settings = settings
    self.apps = apps
    self.logger = logger
    self.onListening = onListening
    let router = Router(context: GatewayContext.self)
    router.add(middleware: MatrixErrors())
    NotifyController(
      dispatcher: PushDispatcher(
        apps: apps, rememberedMax: settings.rememberedMax, board: board, logger: logger, now: time.now),
      open: open, openBytes: OpenBytes(max: settings.openBytesMax), deadline: settings.deadline, time: time
    ).addRoutes(to: router)
    responder = router.buildResponder()
  }

  package func run() async throws {
    let application = Application(
      responder: responder, server: server,
      configuration: ApplicationConfiguration(
        address: .hostname(settings.host, port: settings.port), serverName: nil,
        availableConnectionsDelegate: MaximumAvailableConnections(settings.connectionsMax)),
      onServerRunning: { [onListening, settings] channel in
        await onListening(channel.localAddress?.port ?? settings.port)
      },
      logger: logger)
    try await withThrowingDiscardingTaskGroup { group in
      group.addTask { await showExpiries() }
      group.addTask { await giveUpOnceStopped() }
      // Behind the last answer nothing is left for the others to do.
      defer { group.cancelAll() }
      try await application.run()
    }
  }

  private var server: HTTPServerBuilder {
    HTTPServerBuilder { [open] responder in
      EdgeHTTP1(responder: responder, idleTimeout: .seconds(60), handlers: { [CallerWatch(open)] })
    }
  }

  private func giveUpOnceStopped() async {
    do {
      try await gracefulShutdown()
    } catch {
      // Cancelled: nothing is open any more.
      return
    }
    if await Pause.for(settings.stopLimit) { open.giveUpAll() }
  }

  /// Certificates are replaced while the gateway runs.
  private func showExpiries() async {
    for await _ in Periodic(every: .seconds(60)) {
      for app in apps { app.showExpiry() }
    }
  }
}
