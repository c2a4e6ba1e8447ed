import ArgumentParser
import RelayCore

struct AccountsCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "accounts", abstract: "The accounts of this relay, and what the store holds for them.",
    discussion: """
      Works on the stores while `relay serve` runs on them. `list` and `show` print numbers: their output belongs to \
      nobody else. Nothing shows a password, a key, a push id or a message.
      """,
    subcommands: [
      List.self, Show.self, Devices.self, Count.self, DeleteAccountCommand.self, BanCommand.self, UnbanCommand.self,
    ])

  struct List: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "List accounts, ascending by number.",
      discussion: """
        SEEN is the last day on which one of its devices was. An account is active while its device 1 can be reached, and \
        found while it is active and not hidden. --after goes on behind the last number of the page before.
        """)
    @OptionGroup var configuration: ConfigurationOption
    @Option(help: "Only accounts behind this number.") var after: String?
    @Option(help: "How many at most, 1 to 100000.") var limit = 100
    @Option(help: "Only numbers that begin with this, such as +1415.") var prefix: String?
    @Flag(help: "Print JSON.") var json = false

    func validate() throws {
      guard (1...100_000).contains(limit) else { throw ValidationError("--limit must be 1 to 100000.") }
      guard after.map({ AccountNumber(e164: $0) != nil }) ?? true else {
        throw ValidationError("--after must be a number with its leading +.")
      }
      guard prefix.map({ $0.first == "+" && $0.dropFirst().allSatisfy(\.isWholeNumber) }) ?? true else {
        throw ValidationError("--prefix must be digits behind a +.")
      }
    }

    func run() async throws {
      try await withStorage(configuration) { storage in
        let rows = try await read(storage).map(AccountRow.init)
        if json { return try Output.json(rows) }
        if rows.isEmpty { return Output.line("No accounts.") }
        Output.table(
          [["NUMBER", "STATE", "FOUND", "DEVICES", "SEEN"]]
            + rows.map { [$0.number, $0.state, $0.isFound ? "yes" : "no", "\($0.devices)", $0.seen ?? "-"] })
        if rows.count == limit, let last = rows.last { Output.note("There may be more: --after \(last.number)") }
      }
    }

    private func read(_ storage: any Storage) async throws -> [AccountSummary] {
      var found: [AccountSummary] = []
      var last = after.flatMap { AccountNumber(e164: $0) }
      while found.count < limit {
        let page = try await storage.accountSummaries(after: last, limit: Self.pageMax)
        found += page.filter { summary in prefix.map { summary.number.e164.hasPrefix($0) } ?? true }
        guard page.count == Self.pageMax, let end = page.last?.number else { break }
        last = end
      }
      return Array(found.prefix(limit))
    }

    private static let pageMax = 1_000
  }

  struct Show: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Show one account: its state, its devices, what waits for them.")
    @OptionGroup var configuration: ConfigurationOption
    @OptionGroup var number: NumberArgument
    @Flag(help: "Print JSON.") var json = false

    func run() async throws {
      let number = try number.read()
      try await withStorage(configuration) { storage in
        let row = try await AccountDetails(of: number, in: storage)
        if json { return try Output.json(row) }
        Output.table([
          ["state", row.state], ["found", row.isFound ? "yes" : "no"], ["last seen", row.seen ?? "-"],
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
      abstract: "Show one account's devices.",
      discussion: "WAITING is messages and receipts in the device's mailbox. PREKEYS is one-time keys left.")
    @OptionGroup var configuration: ConfigurationOption
    @OptionGroup var number: NumberArgument
    @Flag(help: "Print JSON.") var json = false

    func run() async throws {
      let number = try number.read()
      try await withStorage(configuration) { storage in
        let devices = try await AccountDetails(of: number, in: storage).devices
        if json { return try Output.json(devices) }
        Output.table(DeviceRow.head + devices.map(\.cells))
      }
    }
  }

  struct Count: AsyncParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Count accounts and devices.")
    @OptionGroup var configuration: ConfigurationOption
    @Flag(help: "Print JSON.") var json = false

    private struct Result: Encodable {
      let accounts: Int
      let active: Int
      let found: Int
      let devices: Int
      let banned: Int
    }

    func run() async throws {
      try await withStorage(configuration) { storage in
        let counts = try await storage.accountCounts()
        let banned = try await storage.bannedCount()
        if json {
          return try Output.json(
            Result(
              accounts: counts.accounts, active: counts.active, found: counts.discoverable, devices: counts.devices,
              banned: banned))
        }
        Output.table([
          ["accounts", "\(counts.accounts)"], ["active", "\(counts.active)"], ["found", "\(counts.discoverable)"],
          ["devices", "\(counts.devices)"], ["banned numbers", "\(banned)"],
        ])
      }
    }
  }
}
