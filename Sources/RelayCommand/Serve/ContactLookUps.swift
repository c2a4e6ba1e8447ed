import Directory
import RelayConfiguration
import RelayCore
import RelayHTTP

/// What answers look-ups of contacts in this process, wherever the contacts are held.
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
