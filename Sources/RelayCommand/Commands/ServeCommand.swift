import ArgumentParser
import Logging
import RelayConfiguration

struct ServeCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "serve",
    abstract: "Serve clients, and peers where federation.port is set.",
    discussion: """
      Runs with no configuration: clients on 127.0.0.1:8080, the operator's tools on 127.0.0.1:8081, everything kept in \
      relay-data/. Logs to standard error. SIGTERM and SIGINT drain it: WebSockets are closed over drain.seconds, what is \
      under way is finished, and it exits with 0. A second one ends it on the spot. SIGHUP makes it read its configuration \
      anew: limits, the log's level and secrets change at once, and what needs a restart is named in the log. \
      With --roles, or the key roles, the process has a part of the work, and leaves the rest to others.
      """)

  @OptionGroup var configuration: ConfigurationOption

  @Option(
    help: ArgumentHelp(
      "The parts of the work that this process has: all, or some of clients, peers, push, directory. Goes before the "
        + "key roles.",
      valueName: "names"),
    transform: readRoles)
  var roles: Roles?

  func run() async throws {
    // The key's own variable, so that a SIGHUP does not undo the option.
    let overrides = roles.map { ["RELAY_ROLES": $0.names.joined(separator: ",")] } ?? [:]
    let loaded = try configuration.load(warns: true, overriding: overrides)
    LogOutput.bootstrap(loaded.configuration.log)
    let path = configuration.config
    let doctor = DoctorChild(configuration: path, overrides: overrides)
    try await Server(loaded, doctor: doctor, logger: Logger(label: "relay")) { () throws(ConfigurationFaults) in
      try ConfigurationOption.read(path, overriding: overrides)
    }.run()
  }
}

/// - Throws: `ValidationError` that says which roles there are.
private func readRoles(_ text: String) throws -> Roles {
  do throws(Roles.Fault) {
    return try Roles(text)
  } catch {
    throw ValidationError("It takes \(error.expected).")
  }
}
