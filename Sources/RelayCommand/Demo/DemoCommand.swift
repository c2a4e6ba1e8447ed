import ArgumentParser
import Foundation
import RelayClient
import Synchronization
import UnixSignals

/// `relay demo`: two operators, one end-to-end encrypted message between them, every step shown.
struct DemoCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "demo",
    abstract: "Run two peered relays and pass an end-to-end encrypted message between their users.",
    discussion: """
      Starts the operators alpha and beta on embedded stores in a temporary folder and free ports, shows each step, \
      and keeps both relays up until Ctrl-C. With --alpha-url and --beta-url it holds the same conversation across \
      two relays that already run, are peers, and have development.enabled, and then exits.
      """)

  @Flag(help: "Exit after the last step.")
  var exit = false

  @Option(help: ArgumentHelp("Client URL of a running relay for the one who writes.", valueName: "url"))
  var alphaURL: String?

  @Option(help: ArgumentHelp("Client URL of a running relay for the one who reads.", valueName: "url"))
  var betaURL: String?

  func validate() throws {
    guard (alphaURL == nil) == (betaURL == nil) else {
      throw ValidationError("--alpha-url and --beta-url go together.")
    }
  }

  func run() async throws {
    let report = DemoReport(environment: ProcessInfo.processInfo.environment)
    let signals = await UnixSignalsSequence(trapping: .sigint, .sigterm, .sighup)
    let progress = Progress()
    if let alphaURL, let betaURL {
      try await finish(report, nil, progress) {
        try await interruptible(by: signals) {
          _ = try await converse(alphaURL, betaURL, numbers: .random, report)
        }
      }
      return
    }
    let operators = try await DemoOperators(report: report)
    try await finish(report, operators, progress) {
      try await interruptible(by: signals) {
        let start = ContinuousClock.now
        try await operators.start()
        let outcome = try await converse(operators.alpha.url, operators.beta.url, numbers: .fixed, report)
        report.text(
          """

          Done in \(DemoReport.milliseconds(ContinuousClock.now - start)): messages went from alpha's user to beta's and back, \
          by a client that names the relay and by those that never do. Both relays handled them; only their readers could \
          open them.
          """)
        progress.isComplete.withLock { $0 = true }
        if exit { return }
        invite(report, operators, outcome)
        try await operators.untilOneEnds()
      }
    }
  }

  private func converse(_ alphaURL: String, _ betaURL: String, numbers: Numbers, _ report: DemoReport) async throws
    -> DemoConversation.Outcome
  {
    guard let alphaNumber = PhoneNumber(numbers.alpha), let betaNumber = PhoneNumber(numbers.beta) else {
      throw DemoFailure("the demo's numbers are none")
    }
    return try await DemoConversation(
      report: report, alpha: RelayClient(url: alphaURL), beta: RelayClient(url: betaURL), alphaNumber: alphaNumber,
      betaNumber: betaNumber
    ).hold()
  }

  /// Says what a person can do with the relays while they run.
  private func invite(_ report: DemoReport, _ operators: DemoOperators, _ outcome: DemoConversation.Outcome) {
    let (alpha, beta) = (operators.alpha, operators.beta)
    let user = outcome.alphaCredentials
    report.heading("Both relays stay up until Ctrl-C")
    for one in [alpha, beta] {
      report.text(
        "  \(one.name):\tclients \(one.url)   operator \(one.operatorURL)/readyz and \(one.operatorURL)/metrics")
    }
    let token = outcome.betaToken.replacing("+", with: "-").replacing("/", with: "_")
    report.text(
      """

        Ask alpha's directory, as its user, where beta's user lives:
          curl -u '\(user.device.number.e164):\(user.password)' \(alpha.url)/v1/directory/\(token)
        Ask beta for a code for a number of your own:
          curl \(beta.url)/v1/accounts/dev/code/+447700900999
      """)
  }

  /// Runs `body`, clears up whatever came of it, and turns a failure into words and an exit code.
  private func finish(
    _ report: DemoReport, _ operators: DemoOperators?, _ progress: Progress, _ body: () async throws -> Void
  ) async throws {
    do {
      try await body()
      await operators?.discard()
    } catch let interruption as Interruption {
      report.text("")
      await operators?.discard()
      // Ctrl-C is how a demo ends that has shown everything.
      if !progress.isComplete.withLock({ $0 }) { throw interruption.exitCode }
    } catch {
      report.failure("\(error)")
      if let relay = (error as? DemoFailure)?.relay, let one = operators?.named(relay) {
        report.text("The end of \(relay)'s log:")
        report.quoted(await one.logTail(lines: 20))
      }
      await operators?.discard()
      throw ExitCode.failure
    }
  }
}

/// Numbers that are kept for fiction, so that they are nobody's. Each relay's come from a half of its own: a number
/// that is known at one relay cannot be registered at its peer.
private struct Numbers {
  let alpha: String
  let beta: String

  static let fixed = Numbers(alpha: "+447700900001", beta: "+447700900501")
  /// For relays that already know numbers.
  static var random: Numbers {
    Numbers(alpha: "+447700900\(Int.random(in: 100...499))", beta: "+447700900\(Int.random(in: 500...899))")
  }
}

/// How far the demo came.
private final class Progress: Sendable {
  /// The last step is done.
  let isComplete = Mutex(false)
}

/// A person, or the system, ended the demo.
private struct Interruption: Error {
  let exitCode: ExitCode
}

/// Runs `body` until it ends or a signal comes, which cancels it.
/// - Throws: `Interruption` after a signal.
private func interruptible(by signals: UnixSignalsSequence, _ body: @escaping @Sendable () async throws -> Void)
  async throws
{
  try await withThrowingTaskGroup(of: Void.self) { group in
    group.addTask { try await body() }
    group.addTask {
      for await signal in signals { throw Interruption(exitCode: ExitCode(signal == .sigint ? 130 : 143)) }
      throw CancellationError()
    }
    defer { group.cancelAll() }
    try await group.next()
  }
}
