import ArgumentParser
import Logging
import RelayConfiguration
import RelayCore
import Waking

struct PushCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "push", abstract: "How this relay's own devices are woken, and why one was not.",
    discussion: """
      Works on the stores while `relay serve` runs on them. Shows neither numbers nor push ids nor contents; docs/waking.md \
      explains every word.
      """,
    subcommands: [History.self, Test.self])

  struct History: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "history",
      abstract: "Show the last attempts to wake a device, the newest first.",
      discussion: "Sixteen at most, of seven days.")
    @OptionGroup var configuration: ConfigurationOption
    @OptionGroup var device: DeviceArgument
    @Flag(help: "Print JSON.") var json = false

    func run() async throws {
      let address = try device.read()
      try await withStorage(configuration) { storage in
        guard try await storage.account(address.account)?.device(address.device) != nil else {
          throw CommandFailure("There is no such device. \(WakeFault.noDevice.remedy)")
        }
        let rows = try await storage.wakeHistory(of: address).map(AttemptRow.init)
        if json { return try Output.json(rows) }
        if rows.isEmpty { return Output.line("Nobody has tried to wake this device lately.") }
        Output.table(
          [["ASKED", "CLAIMED", "TRY", "PROVIDER", "SENT", "ANSWER", "LATENCY", "OUTCOME", "FAULT"]]
            + rows.map(\.columns))
        for fault in Set(rows.compactMap(\.fault)).sorted() {
          guard let fault = WakeFault(rawValue: fault) else { continue }
          Output.note("\(fault.rawValue): \(fault.text). \(fault.remedy)")
        }
      }
    }
  }

  struct Test: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "test",
      abstract: "Wake a device and follow it hop by hop.",
      discussion: """
        A running `relay serve` sends the wake-up. A device that is connected is not pushed to, unless --force is \
        given. Exits with 1 when the device was not woken, and says why.
        """
    )
    @OptionGroup var configuration: ConfigurationOption
    @OptionGroup var device: DeviceArgument
    @Flag(help: "Push though the device is connected.") var force = false
    @Flag(help: "Print JSON.") var json = false

    func run() async throws {
      let address = try device.read()
      let settings = try configuration.load().configuration
      LogOutput.bootstrap(settings.log)
      let note = AuditNote("push test", on: .account(address.account))
      try await withStorage(settings, noting: note) { storage in
        var attempts: [AttemptRow] = []
        let began = ContinuousClock.now
        let waking = settings.push.waking
        // This command may run where the keys of no provider are.
        let providers = try await storage.announceWakeProviders([])
        let test = WakeTest(
          storage, WakeTerms(providers: Array(Set(providers + waking.providers)), lifetime: WakeTerms.lifetime))
        let verdict = try await test.run(address, isForced: force) { hop in
          if case .attempted(let attempt) = hop { attempts.append(AttemptRow(attempt)) }
          if !json { Output.line(line(hop, after: .now - began)) }
        }
        try show(verdict, attempts)
      }
    }

    private func line(_ hop: WakeTest.Hop, after: Duration) -> String {
      let time = "\(millis(after)) ms"
      switch hop {
      case .asked(let provider): return "asked     \(time)  for a wake-up through \(provider.word)"
      case .claimed: return "claimed   \(time)  by a process that serves"
      case .attempted(let attempt):
        let row = AttemptRow(attempt)
        return
          "attempted \(time)  sent: \(row.kind ?? "nothing"), answer: \(row.shownAnswer), \(attempt.outcome.rawValue)"
      }
    }

    private func show(_ verdict: WakeTest.Verdict, _ attempts: [AttemptRow]) throws {
      switch verdict {
      case .woken:
        if json { return try Output.json(Report(outcome: "woken", fault: nil, attempts: attempts)) }
        Output.line("The provider has taken the wake-up.")
      case .failed(let fault):
        if json { try Output.json(Report(outcome: "failed", fault: fault.rawValue, attempts: attempts)) }
        throw CommandFailure("\(fault.rawValue): \(fault.text). \(fault.remedy)")
      }
    }

    private struct Report: Encodable {
      let outcome: String
      let fault: String?
      let attempts: [AttemptRow]
    }
  }

  private struct AttemptRow: Encodable {
    let asked: String
    let claimed: String
    let number: Int
    let provider: String?
    let kind: String?
    let answer: String?
    let status: Int?
    let latencyMillis: Int64?
    let outcome: String
    let fault: String?
    let isTest: Bool

    init(_ attempt: WakeAttempt) {
      asked = attempt.asked.iso8601
      claimed = attempt.claimed.iso8601
      number = attempt.number
      provider = attempt.provider?.word
      kind = attempt.kind?.rawValue
      answer = attempt.answer
      status = attempt.status
      latencyMillis = attempt.latency.map(millis)
      outcome = attempt.outcome.rawValue
      fault = WakeFault(attempt)?.rawValue
      isTest = attempt.isTest
    }

    var shownAnswer: String { [answer, status.map(String.init)].compactMap(\.self).joined(separator: " ").orDash }
    var columns: [String] {
      [
        asked, claimed, "\(number)", provider ?? "-", (kind ?? "-") + (isTest ? " (test)" : ""), shownAnswer,
        latencyMillis.map { "\($0) ms" } ?? "-", outcome, fault ?? "-",
      ]
    }
  }
}

/// The device that a command is about; the operator knows whose. A dash reads it from standard input, so that it
/// stands in no shell's history.
struct DeviceArgument: ParsableArguments {
  @Argument(help: "The device: +NUMBER.DEVICE, or +NUMBER for device 1, or - for the first line of standard input.")
  var device: String

  /// - Throws: an error that does not repeat what was given.
  func read() throws -> DeviceAddress {
    let text = device == "-" ? readLine(strippingNewline: true) ?? "" : device
    let parts = text.split(separator: ".", maxSplits: 1, omittingEmptySubsequences: false)
    guard let first = parts.first, let number = AccountNumber(e164: first),
      let device = parts.count == 2 ? DeviceID(text: parts[1]) : .master
    else { throw ValidationError("Give the device as +NUMBER.DEVICE, as in +4915112345678.1.") }
    return DeviceAddress(number, device)
  }
}

private func millis(_ duration: Duration) -> Int64 { Int64(duration / .milliseconds(1)) }

extension String {
  fileprivate var orDash: String { isEmpty ? "-" : self }
}
