import ArgumentParser
import RelayCore

/// The options of commands that delete an account.
struct RemovalOptions: ParsableArguments {
  @OptionGroup var configuration: ConfigurationOption
  @OptionGroup var number: NumberArgument
  @Option(help: ArgumentHelp("Write what was deleted to this new file, as JSON with the number.", valueName: "file"))
  var receipt: String?
  @Flag(name: .long, help: "Do not ask.") var yes = false
  @Flag(help: "Print JSON.") var json = false

  /// - Parameter question: asked first where somebody sits at the terminal, unless --yes is given.
  /// - Returns: nil where there was no account.
  func remove(isBanned: Bool, after question: String) async throws -> RemovalRow? {
    let number = try number.read()
    let site = try await RemovalSite(configuration, question: yes ? nil : question)
    let receipt = try receipt.map(ReceiptFile.init)
    let rows = try await site.remove(number, isBanned: isBanned).map(RemovalRow.init)
    // A number without an account leaves a receipt of its ban alone.
    if rows != nil || isBanned { try receipt?.write(number, rows) }
    return rows
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
    guard let rows = try await options.remove(isBanned: false, after: "Delete this account for good?") else {
      throw CommandFailure("There is no such account here: nothing was deleted.")
    }
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
    let rows = try await options.remove(isBanned: true, after: "Ban this number, and delete its account?")
    if options.json { return try Output.json(BanRow(banned: true, deleted: rows)) }
    Output.line("Banned. \(rows.map { "Deleted: \($0.words)." } ?? "It had no account here.")")
  }
}

struct UnbanCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "unban", abstract: "Let a banned number register again.")
  @OptionGroup var configuration: ConfigurationOption
  @OptionGroup var number: NumberArgument
  @Flag(help: "Print JSON.") var json = false

  func run() async throws {
    let number = try number.read()
    try await withStorage(configuration) { storage in
      guard try await storage.unban(number) else { throw CommandFailure("The number is not banned.") }
      if json { return try Output.json(BanRow(banned: false, deleted: nil)) }
      Output.line("The number may register again.")
    }
  }
}

/// The result of `ban` and `unban`.
private struct BanRow: Encodable {
  let banned: Bool
  let deleted: RemovalRow?
}

/// Counts of the rows and blobs that went with an account.
struct RemovalRow: Encodable {
  let devices: Int
  let waiting: Int
  let preKeys: Int
  let acknowledged: Int
  let codes: Int
  let attachments: Int

  init(_ removal: (rows: AccountRemoval, attachments: Int)) {
    devices = removal.rows.devices
    waiting = removal.rows.waiting
    preKeys = removal.rows.oneTimePreKeys
    acknowledged = removal.rows.acknowledged
    codes = removal.rows.codes
    attachments = removal.attachments
  }

  var words: String {
    "\(Self.count(devices, "device")), \(Self.count(waiting, "waiting message")), \(Self.count(preKeys, "prekey")), "
      + Self.count(attachments, "attachment")
  }

  private static func count(_ count: Int, _ noun: String) -> String { "\(count) \(noun)\(count == 1 ? "" : "s")" }
}
