import ArgumentParser
import Federation
import Relay
import RelayConfiguration
import RelayCore
import Storage

extension PeerCommand {
  struct Test: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "test",
      abstract: "Walk the way to a peer step by step, naming what fails and the remedy.",
      discussion: """
        The last steps draw a key of the peer's probe account and send it a message from ours, through the ordinary paths \
        and limits. Exits with 0 when nothing failed.
        """)
    @OptionGroup var configuration: ConfigurationOption
    @Argument(help: "The peer's name.") var name: String
    @Flag(help: "Have the peer walk the way back too; this relay must be serving.") var back = false
    @Flag(help: "Print JSON.") var json = false

    func run() async throws {
      try await PeerCommand.withPeer(configuration, name) { peer, storage, settings in
        let source = try await PeerCommand.probeAccount(settings, storage).prepare()
        let probe = PeerProbe(
          credentials: try PeerCommand.credentials(settings), addresses: settings.federation.peerAddresses,
          clock: .system)
        let others = try await storage.peers().filter { $0.name != peer.name }.flatMap(\.attachmentMarks)
        let routing = PeerProbe.Plan.Routing(
          isOn: settings.federation.routesImplicitly, takenMarks: Swift.Set(others + [settings.attachments.mark]))
        var steps: [ProbeStep] = []
        let plan = PeerProbe.Plan(source: source, asksBack: back, routing: routing)
        for await result in probe.walk(peer, plan, within: Self.limit) {
          let step = ProbeStep(result)
          steps.append(step)
          if !json { step.show() }
        }
        if json { try Output.json(steps) }
        if steps.contains(where: { $0.outcome == ProbeResult.Outcome.failed.rawValue }) { throw ExitCode.failure }
      }
    }

    private static let limit = Duration.seconds(120)
  }

  /// The probe account of the relay whose stores these are.
  static func probeAccount(_ settings: RelayConfiguration, _ storage: any Storage) -> ProbeAccount {
    ProbeAccount(
      name: settings.name, store: storage,
      accounts: AccountCache(
        store: storage, bus: LocalCoordination(buckets: settings.limits, clock: .system)),
      clock: .system)
  }
}

/// A step as it is printed.
struct ProbeStep: Encodable {
  let step: String
  /// `ok`, `warn`, `fail`, `skip`.
  let outcome: String
  /// Nothing failed; a step that was not tried has not passed.
  let passed: Bool
  /// Whether the peer took it towards us.
  let back: Bool
  let text: String
  let remedy: String?
  let milliseconds: Double

  init(_ result: ProbeResult) {
    step = result.step.rawValue
    outcome = result.outcome.rawValue
    passed = result.outcome == .passed || result.outcome == .warned
    back = result.isBack
    text = result.text
    remedy = result.remedy
    milliseconds = (result.duration / .milliseconds(1) * 10).rounded() / 10
  }

  func show() {
    let mark = outcome == ProbeResult.Outcome.failed.rawValue ? "FAIL" : outcome.padding(to: 4)
    let label = (back ? "back \(step)" : step).padding(to: 13)
    Output.line("\(mark)  \(label)  \(text)  (\(milliseconds) ms)")
    if let remedy { Output.line("                     \(remedy)") }
  }
}

extension String {
  func padding(to width: Int) -> String { self + String(repeating: " ", count: max(0, width - count)) }
}
