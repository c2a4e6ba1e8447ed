import ArgumentParser
import Operations
import RelayCore
import RelayHTTP

/// The options of commands that delete an account.
struct RemovalOptions: ParsableArguments {
  @OptionGroup var configuration: ConfigurationOption
  @OptionGroup var account: AccountArgument
  @Option(help: ArgumentHelp("Write what was deleted to this new file, as JSON with the number.", valueName: "file"))
  var receipt: String?
  @Flag(name: .long, help: "Do not ask.") var yes = false
  @Flag(help: "Print JSON.") var json = false

  /// - Parameter question: asked first where somebody sits at the terminal, unless --yes is given.
  /// - Returns: nil where there was no account.
  func remove(isBanned: Bool, by action: String, after question: String) async throws -> RemovalRow? {
    let reference = try account.read()
    let site = try RemovalSite(configuration, question: yes ? nil : question)
    let file = try receipt.map(PrivateFile.init)
    var isDeleted = false
    do {
      return try await site.remove(reference, isBanned: isBanned, by: action) { removal in
        isDeleted = true
        try Self.write(removal, to: file)
      }.rows
    } catch {
      if !isDeleted { file?.remove() }
      throw error
    }
  }

  private static func write(_ removal: RemovalSite.Removal, to file: PrivateFile?) throws {
    guard let file else { return }
    do {
      try file.write(RemovalReceipt(removal.number, removal.handle, removal.rows, at: WallClock.system.now()))
    } catch {
      throw CommandFailure(
        "The account is deleted, but its receipt \(file.path) cannot be written (\(FaultWords.of(error))).")
    }
  }
}

struct DeleteAccountCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "delete", abstract: "Delete an account: every row and blob that is kept for it.",
    discussion: """
      Relay processes close its connections, and peers learn within their next round that the number is not here any \
      more. Messages that it has sent are their recipients' and stay. The number may register again; `ban` prevents it. \
      Broken off, it may be repeated: it goes on where it ended.
      """)
  @OptionGroup var options: RemovalOptions

  func run() async throws {
    guard
      let rows = try await options.remove(
        isBanned: false, by: "accounts delete", after: "Delete this account for good?")
    else { throw CommandFailure.noAccount }
    if options.json { return try Output.json(rows) }
    Output.line("Deleted: \(rows.words).")
  }
}

struct BanCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "ban", abstract: "Delete a number's account, if it has one, and let it have none.",
    discussion: """
      The store keeps a hash of the number under a key of this relay: nobody reads the number from it. The number gets no \
      codes, and no registration succeeds, until `relay accounts unban`.
      """)
  @OptionGroup var options: RemovalOptions

  func run() async throws {
    let rows = try await options.remove(
      isBanned: true, by: "accounts ban", after: "Ban this number, and delete its account?")
    if options.json { return try Output.json(BanRow(banned: true, deleted: rows)) }
    Output.line("Banned. \(rows.map { "Deleted: \($0.words)." } ?? "It had no account here.")")
  }
}

struct UnbanCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "unban", abstract: "Let a banned number register again.")
  @OptionGroup var configuration: ConfigurationOption
  @OptionGroup var account: AccountArgument
  @Flag(help: "Print JSON.") var json = false

  func run() async throws {
    let reference = try account.read()
    try await withStorage(configuration) { storage in
      let number = try await reference.number(of: storage)
      try await storage.noting(AuditNote("accounts unban", on: .account(number))) {
        guard try await storage.unban(number) else { throw CommandFailure("The number is not banned.") }
      }
      if json { return try Output.json(BanRow(banned: false, deleted: nil)) }
      Output.line("The number may register again.")
    }
  }
}
