import ArgumentParser
import DeviceNotifications
import Foundation
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
