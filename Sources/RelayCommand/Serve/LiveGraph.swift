import Hummingbird
import Logging
import Relay
import RelayConfiguration
import RelayCore
import RelayHTTP
import ServiceLifecycle

/// Live delivery's part of the graph: what is spoken over WebSockets.
struct LiveGraph {
  let authorizer: LiveSocketAuthorizer
  /// In the order in which they start: sessions end before what they have acknowledged is settled.
  let services: [any Service]

  /// - Parameters:
  ///   - router: answers requests that come over a WebSocket too.
  ///   - load: of the clients' listener.
  init(
    _ client: RelayConfiguration.Client, _ local: LocalGraph, storage: any Storage, receipts: DeliveryReceipts,
    router: Router<ClientContext>, load: RequestLoad, logger: Logger
  ) {
    let acknowledgements = Acknowledgements(receipts: receipts, hub: local.hub, logger: logger)
    let parts = SessionParts(
      hub: local.hub, reader: MailboxReader(store: storage.servedMessages, logger: logger),
      acknowledgements: acknowledgements,
      router: SocketRouter(responder: router.buildResponder(), accounts: local.accounts, load: load, logger: logger),
      logger: logger)
    authorizer = LiveSocketAuthorizer(
      parts: parts, accounts: local.accounts,
      lastSeen: local.lastSeen,
      policy: .init(
        loginIsJSON: client.webSockets.loginDialect == .json, idle: client.webSockets.idle, origins: client.origins),
      logger: logger)
    services = [acknowledgements, local.hub]
  }
}
