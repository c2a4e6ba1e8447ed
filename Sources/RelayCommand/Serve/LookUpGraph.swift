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

/// The source of answers to look-ups of contacts in this process, wherever the contacts are held.
struct ContactLookUps: Sendable {
  let source: any ContactSource
  /// nil where oblivious look-ups are not offered.
  let oblivious: ObliviousDirectory?
  let settings: RelayConfiguration.Directory

  /// Contact tokens of one look-up: more than an address book holds, and as many as the budget of a new account.
  private static let tokensMax = 20_000

  func controller(
    storage: any Storage, coordination: any Coordination, purse: ContactPurse, finder: (any ContactFinder)?
  ) -> DirectoryController {
    DirectoryController(
      source: source, accounts: storage, limiter: coordination, purse: purse, finder: finder,
      policy: .init(tokensMax: Self.tokensMax, refusesEnumeration: settings.refusesEnumeration), oblivious: oblivious)
  }
}
