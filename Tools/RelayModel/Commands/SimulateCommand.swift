import ArgumentParser
import RelayCore

struct SimulateCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "simulate", abstract: "Simulate what happens when a part is away.",
    subcommands: [OutboxCommand.self, PushCommand.self, ReconnectCommand.self])
}

struct OutboxCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "outbox", abstract: "A peer is away: its breaker, and the messages that wait for it.")

  @Option(help: "The same seed gives the same run.")
  var seed = OutboxSimulation.Settings().seed
  @Option(help: "Relay processes that send.")
  var processes = OutboxSimulation.Settings().processes
  @Option(help: "Messages for the peer in a second.")
  var messagesPerSecond = OutboxSimulation.Settings().messagesPerSecond
  @Option(help: "Pairs of a sender and a recipient.")
  var conversations = OutboxSimulation.Settings().conversations
  @Option(help: "How long the peer is away.")
  var awaySeconds = OutboxSimulation.Settings().awaySeconds
  @Flag(help: "It takes connections and is silent; else it takes none.")
  var silent = false
  @Option(help: "Messages that the peer takes in a second.")
  var peerPerSecond = OutboxSimulation.Settings().peerPerSecond
  @Option(help: "To the peer and back.")
  var roundTripMillis = OutboxSimulation.Settings().roundTripMillis
  @Option(help: "federation.outbox.messages-max.")
  var messagesMax = OutboxSimulation.Settings().messagesMax
  @Option(help: "How long the simulation goes on after the peer is back.")
  var afterSeconds = OutboxSimulation.Settings().afterSeconds

  func run() throws {
    var settings = OutboxSimulation.Settings()
    settings.seed = seed
    settings.processes = processes
    settings.messagesPerSecond = messagesPerSecond
    settings.conversations = conversations
    settings.awaySeconds = awaySeconds
    settings.isSilent = silent
    settings.peerPerSecond = peerPerSecond
    settings.roundTripMillis = roundTripMillis
    settings.messagesMax = messagesMax
    settings.afterSeconds = afterSeconds
    let outcome = try OutboxSimulation.run(settings)
    print(OutageText.table(of: [("", outcome)]).lines.joined(separator: "\n"))
    print(
      "submitted \(outcome.submitted), delivered \(outcome.delivered), refused \(outcome.refused), given up "
        + "\(outcome.givenUp), waiting \(outcome.waiting); overtaken \(outcome.overtaken), repeated \(outcome.repeated)"
    )
    guard outcome.accounted == outcome.submitted, outcome.overtaken == 0 else { throw ExitCode.failure }
  }
}

struct PushCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "push", abstract: "A push service does not answer: its breaker, and the devices to be woken.")

  @Option(help: "The same seed gives the same run.")
  var seed = PushSimulation.Settings().seed
  @Option(help: "apns, fcm or webpush.")
  var provider = "apns"
  @Option(help: "Push services behind WebPush; the first is in trouble.")
  var services = PushSimulation.Settings().services
  @Option(help: "Devices without connection.")
  var devices = PushSimulation.Settings().devices
  @Option(help: "Messages for them in a second.")
  var wakesPerSecond = PushSimulation.Settings().wakesPerSecond
  @Option(help: "How long the service does not answer.")
  var awaySeconds = PushSimulation.Settings().awaySeconds
  @Flag(help: "It answers 503; else it is silent.")
  var busy = false
  @Option(help: "How long a push takes.")
  var answerMillis = PushSimulation.Settings().answerMillis
  @Option(help: "How long the simulation goes on afterwards.")
  var afterSeconds = PushSimulation.Settings().afterSeconds

  func run() throws {
    guard let chosen = WakeProvider.allCases.first(where: { $0.word == provider }) else {
      throw ModelFailure("--provider is one of \(WakeProvider.allCases.map(\.word).joined(separator: ", "))")
    }
    var settings = PushSimulation.Settings()
    settings.seed = seed
    settings.provider = chosen
    settings.services = services
    settings.devices = devices
    settings.wakesPerSecond = wakesPerSecond
    settings.awaySeconds = awaySeconds
    settings.isSilent = !busy
    settings.answerMillis = answerMillis
    settings.afterSeconds = afterSeconds
    let outcome = try PushSimulation.run(settings)
    print(OutageText.table(of: [("", outcome)]).lines.joined(separator: "\n"))
    print(
      "asked \(outcome.asked), woken \(outcome.delivered), to be woken anyway \(outcome.merged), waiting "
        + "\(outcome.waiting); sent back by the breaker \(outcome.halted)")
    guard outcome.accounted == outcome.asked else { throw ExitCode.failure }
  }
}

struct ReconnectCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "reconnect", abstract: "Processes are lost: their devices come back to the others.")

  @Option(help: "The same seed gives the same run.")
  var seed = ReconnectSimulation.Settings().seed
  @Option(help: "Connected devices.")
  var devices = ReconnectSimulation.Settings().devices
  @Option(help: "Relay processes.")
  var processes = ReconnectSimulation.Settings().processes
  @Option(help: "Those of them that are lost.")
  var lostProcesses = ReconnectSimulation.Settings().lostProcesses
  @Option(help: "client.connections-max.")
  var connectionsMax = ReconnectSimulation.Settings().connectionsMax
  @Option(help: "Cores of a process that are left for new connections.")
  var cores = ReconnectSimulation.Settings().coresForConnections
  @Option(help: "Devices notice the loss within this time; 0: their connections are reset.")
  var detectionSeconds = ReconnectSimulation.Settings().detectionSeconds
  @Option(help: "For so long a device waits for a connection.")
  var timeoutSeconds = ReconnectSimulation.Settings().timeoutSeconds
  @Option(help: "The longest first pause of a device.")
  var firstPause = ReconnectSimulation.Settings().firstPause
  @Option(help: "The longest pause of a device.")
  var longestPause = ReconnectSimulation.Settings().longestPause
  @OptionGroup var constants: ConstantsOption

  func run() throws {
    var settings = ReconnectSimulation.Settings()
    settings.seed = seed
    settings.devices = devices
    settings.processes = processes
    settings.lostProcesses = lostProcesses
    settings.connectionsMax = connectionsMax
    settings.coresForConnections = cores
    settings.connectMillis = try constants.read()[.connectTLS]
    settings.detectionSeconds = detectionSeconds
    settings.timeoutSeconds = timeoutSeconds
    settings.firstPause = firstPause
    settings.longestPause = longestPause
    let outcome = try ReconnectSimulation.run(settings)
    print(OutageText.table(of: [("", outcome)]).lines.joined(separator: "\n"))
    guard outcome.connected + outcome.apart == settings.devices else { throw ExitCode.failure }
  }
}
