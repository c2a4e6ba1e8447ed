import Directory
import Hummingbird
import Relay
import RelayConfiguration
import RelayCore
import RelayHTTP

/// The client edge of a process that leaves clients to others: look-ups in the directory alone.
struct LookUpGraph {
  let router: Router<ClientContext>

  init(
    _ settings: RelayConfiguration, _ local: LocalGraph, storage: any Storage, coordination: any Coordination,
    finder: (any ContactFinder)?, lookUps: ContactLookUps
  ) {
    let contacts = lookUps.controller(
      storage: storage, coordination: coordination,
      purse: ContactPurse(budget: coordination, allowance: settings.directory.allowance), finder: finder)
    let edge = ClientEdge(
      accounts: local.accounts, forwarded: settings.client.forwarded, origins: settings.client.origins,
      controllers: nil, elsewhere: .allButLookUps
    ) { contacts.addRoutes(to: $0) }
    router = edge.router()
  }
}

extension ElsewhereMiddleware<ClientContext> {
  /// In a process without the role `directory`.
  static var lookUps: Self { Self("this process does not have the role directory") { $0.hasPrefix("/v1/directory/") } }
  /// In a process without the role `clients`.
  static var allButLookUps: Self { Self("this process does not have the role clients") { _ in true } }
}
