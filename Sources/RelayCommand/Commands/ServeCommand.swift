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
      under way is finished, and it exits with 0. A second one ends it on the spot.
      """)

  @OptionGroup var configuration: ConfigurationOption

  func run() async throws {
    let settings = try configuration.load(warns: true).configuration
    LogOutput.bootstrap(settings.log)
    try await Server(settings, logger: Logger(label: "relay")).run()
  }
}
