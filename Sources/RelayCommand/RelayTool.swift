import ArgumentParser
import DeviceNotifications
import Foundation
import RelayConfiguration
import Storage

/// The executable `relay`: one file a subcommand under Commands/, the server's object graph under Serve/.
@main struct RelayTool: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "relay",
    abstract: "A federated message relay for clients of the TextSecure server protocol.",
    discussion: """
      `relay demo` shows everything at once; `relay serve` runs with no configuration at all. Settings come from a \
      YAML file (--config) and RELAY_ variables: docs/configuration.md lists them, `relay check` prints what holds.

      Exit codes: 0 done, 1 failed, 64 wrong usage, 78 faulty configuration.
      """,
    version: Version.text,
    subcommands: [
      InitCommand.self, ServeCommand.self, CheckCommand.self, MigrateCommand.self, AccountsCommand.self, CACommand.self,
      PeerCommand.self,
      QueueCommand.self,
      DrainCommand.self, StorageCommand.self, BackupCommand.self, RestoreCommand.self, DirectoryCommand.self,
      PushCommand.self, PushGatewayCommand.self,
      NotificationsCommand.self,
      LedgerCommand.self, AuditCommand.self, TopCommand.self, DoctorCommand.self,
      ExplainCommand.self,
      DashboardCommand.self, DemoCommand.self, ConformanceCommand.self, RoutesCommand.self,
    ])

  @Flag(help: "With --version: also the versions of packages and libraries that it is made of.") var packages = false

  static func main() async {
    if let complaint = UnknownCommand.complaint(about: Array(CommandLine.arguments.dropFirst())) {
      Output.note(complaint)
      Foundation.exit(ExitCode.validationFailure.rawValue)
    }
    await main(nil)
  }
}

/// A word where a subcommand has to stand, and that is none: the parser says no more than that it is unexpected.
enum UnknownCommand {
  /// - Parameter arguments: without the program's name.
  /// - Returns: what to tell; nil where every subcommand is one.
  static func complaint(about arguments: [String]) -> String? {
    complaint(about: arguments[...], of: RelayTool.self, "relay")
  }

  private static func complaint(
    about arguments: ArraySlice<String>, of command: any ParsableCommand.Type, _ place: String
  ) -> String? {
    let subcommands = command.configuration.subcommands
    // Options may have values that look like commands.
    guard let word = arguments.first, !subcommands.isEmpty, !word.hasPrefix("-"), word != "help" else {
      return nil
    }
    if let next = subcommands.first(where: { $0._commandName == word }) {
      return complaint(about: arguments.dropFirst(), of: next, "\(place) \(word)")
    }
    guard command.configuration.defaultSubcommand == nil else { return nil }
    let near = Spelling.nearest(to: word, among: subcommands.map { $0._commandName })
    let hint = near.map { " Did you mean `\(place) \($0)`?" } ?? ""
    return "Error: `\(place)` has no command `\(word)`.\(hint)\n`\(place) --help` lists them all."
  }
}
