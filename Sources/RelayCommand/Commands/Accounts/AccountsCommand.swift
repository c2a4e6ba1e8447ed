import ArgumentParser
import Operations
import RelayCore

struct AccountsCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "accounts", abstract: "The accounts of this relay, and what the store holds for them.",
    discussion: """
      Works on the stores while `relay serve` runs on them. An account is named by its number, or by its handle, which says \
      nothing to others: `list` shows both. Nothing shows a password, a key, a push id or a message. What changes something \
      stands in `relay audit`.
      """,
    subcommands: [
      List.self, Show.self, Devices.self, Count.self, AccountLimitsCommand.self, ExportAccountCommand.self,
      DeleteAccountCommand.self, BanCommand.self, UnbanCommand.self,
    ])

  struct List: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "list",
      abstract: "List accounts, ascending by number.",
      discussion: """
        SEEN is the last day on which one of its devices was. An account is active while its device 1 can be reached, and \
        found while it is active and not hidden. --after goes on behind the last account of the page before.
        """)
    @OptionGroup var configuration: ConfigurationOption
    @Option(help: "Only accounts behind this one: its number or handle.") var after: String?
    @Option(help: "How many at most, 1 to 100000.") var limit = 100
    @Option(help: "Only numbers that begin with this, such as +1415.") var prefix: String?
    @Flag(help: "Print JSON.") var json = false

    func validate() throws {
      guard (1...100_000).contains(limit) else { throw ValidationError("--limit must be 1 to 100000.") }
      guard after.map({ AccountReference($0) != nil }) ?? true else {
        throw ValidationError("--after must be a handle, or a number with its leading +.")
      }
      guard prefix.map({ NumberPrefix($0) != nil }) ?? true else {
        throw ValidationError("--prefix must be digits behind a +.")
      }
    }

    func run() async throws {
      try await withStorage(configuration) { storage in
        let last = try await after.flatMap { AccountReference($0) }?.number(of: storage)
        let rows = try await AccountReports(store: storage).list(
          after: last, prefix: prefix.flatMap { NumberPrefix($0) }, limit: limit)
        if json { return try Output.json(rows) }
        if rows.isEmpty { return Output.line("No accounts.") }
        Output.table(
          [["NUMBER", "STATE", "FOUND", "DEVICES", "SEEN", "HANDLE"]]
            + rows.map {
              [$0.number, $0.state, $0.isFound ? "yes" : "no", "\($0.devices)", $0.seen ?? "-", $0.handle]
            })
        if rows.count == limit, let last = rows.last { Output.note("There may be more: --after \(last.handle)") }
      }
    }
  }

  struct Show: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "show",
      abstract: "Show one account: its state, its devices, what waits for them.")
    @OptionGroup var configuration: ConfigurationOption
    @OptionGroup var account: AccountArgument
    @Flag(help: "Print JSON.") var json = false

    func run() async throws {
      let reference = try account.read()
      try await withStorage(configuration) { storage in
        let row = try await AccountsCommand.details(reference, storage)
        if json { return try Output.json(row) }
        Output.table([
          ["handle", row.handle], ["state", row.state], ["found", row.isFound ? "yes" : "no"],
          ["last seen", row.seen ?? "-"],
          ["registration lock", row.hasRegistrationLock ? "yes" : "no"],
          ["identity key", row.hasIdentityKey ? "yes" : "no"],
        ])
        Output.line("")
        Output.table(DeviceRow.head + row.devices.map(\.cells))
      }
    }
  }

  struct Devices: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "devices",
      abstract: "Show one account's devices.",
      discussion: "WAITING is messages and receipts in the device's mailbox. PREKEYS is one-time keys left.")
    @OptionGroup var configuration: ConfigurationOption
    @OptionGroup var account: AccountArgument
    @Flag(help: "Print JSON.") var json = false

    func run() async throws {
      let reference = try account.read()
      try await withStorage(configuration) { storage in
        let devices = try await AccountsCommand.details(reference, storage).devices
        if json { return try Output.json(devices) }
        Output.table(DeviceRow.head + devices.map(\.cells))
      }
    }
  }

  struct Count: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "count", abstract: "Count accounts and devices.")
    @OptionGroup var configuration: ConfigurationOption
    @Flag(help: "Print JSON.") var json = false

    func run() async throws {
      try await withStorage(configuration) { storage in
        let counts = try await AccountReports(store: storage).counts()
        if json { return try Output.json(counts) }
        Output.table([
          ["accounts", "\(counts.accounts)"], ["active", "\(counts.active)"], ["found", "\(counts.found)"],
          ["devices", "\(counts.devices)"], ["banned numbers", "\(counts.banned)"],
        ])
      }
    }
  }

  private static func details(_ reference: AccountReference, _ storage: any Storage) async throws -> AccountDetails {
    let number = try await reference.number(of: storage)
    guard let details = try await AccountReports(store: storage).details(of: number, at: WallClock.system.now()) else {
      throw CommandFailure.noAccount
    }
    return details
  }
}
