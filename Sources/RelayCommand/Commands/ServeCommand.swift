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
      anew: limits, the log's level and secrets change at once, and what needs a restart is named in the log.
      """)

  @OptionGroup var configuration: ConfigurationOption

  func run() async throws {
    let loaded = try configuration.load(warns: true)
    LogOutput.bootstrap(loaded.configuration.log)
    let path = configuration.config
    let doctor = DoctorChild(configuration: path)
    try await Server(loaded, doctor: doctor, logger: Logger(label: "relay")) { () throws(ConfigurationFaults) in
      try ConfigurationOption.read(path)
    }.run()
  }
}
