import ArgumentParser

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
    version: "relay \(Version.current)",
    subcommands: [
      ServeCommand.self, CheckCommand.self, MigrateCommand.self, CACommand.self, PeerCommand.self, QueueCommand.self,
      DrainCommand.self, StorageCommand.self, PushCommand.self, PushGatewayCommand.self, NotificationsCommand.self,
      DoctorCommand.self,
      DemoCommand.self, ConformanceCommand.self, RoutesCommand.self,
    ])
}

enum Version {
  /// As CHANGELOG.md.
  static let current = "0.1.0"
}
