import ArgumentParser
import Federation
import RelayConfiguration
import RelayCore

struct LedgerCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "ledger", abstract: "What crossed between this relay and a peer, by the hour.",
    discussion: """
      Hours are those of the senders' times, in UTC, on both sides. Digests are sums of random-looking marks: no number, \
      token or body is in them. Both operators write a file with `relay ledger --peer NAME --day DAY --json`, and either \
      runs `relay ledger compare` on the two. Kept for 35 days.
      """,
    subcommands: [Show.self, Compare.self], defaultSubcommand: Show.self)

  struct Show: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "show",
      abstract: "Show the messages and receipts of a day, in both directions.",
      discussion: """
        WAITS was handed in, and the peer's answer is not known: what the outbox holds, and what was under way when a \
        process or the peer ended.
        """)
    @OptionGroup var configuration: ConfigurationOption
    @Option(help: "The peer's name.") var peer: String
    @Option(help: "The day (UTC), such as 2026-11-22.") var day: String
    @Flag(help: "Print JSON: what `relay ledger compare` reads.") var json = false

    func run() async throws {
      guard let day = LedgerDay(day) else {
        throw ValidationError("\"\(day)\" is no day: write it as 2026-11-22.")
      }
      let settings = try configuration.load().configuration
      LogOutput.bootstrap(settings.log)
      try await withStorage(settings) { storage in
        guard let peer = try await storage.peers().first(where: { $0.name.text == peer }) else {
          throw CommandFailure("There is no peer \"\(peer)\": `relay peer list` shows them all.")
        }
        let entries = try await storage.ledger(of: peer.name, in: day.hours)
        let file = LedgerFile(
          relay: settings.name, peer: peer.name, day: day, entries: entries, taken: WallClock.system.now())
        if json { try Output.json(file) } else { show(file) }
      }
    }

    private func show(_ file: LedgerFile) {
      if file.hours.isEmpty { return Output.line("Nothing crossed between \(file.relay) and \(file.peer) on \(day).") }
      Output.line("From \(file.relay) to \(file.peer), \(day), UTC")
      let sent = file.hours.flatMap { hour in
        [("messages", hour.sent.messages), ("receipts", hour.sent.receipts)].map { kind, sent in
          let figures = [sent.handedOver, sent.answered, sent.waits, sent.refused]
          return Row(hour: hour.hour, kind: kind, counts: figures.map(\.count), digest: sent.answered)
        }
      }
      show(["HANDED OVER", "ANSWERED", "WAITS", "REFUSED", "DIGEST OF ANSWERED"], sent)
      Output.line("")
      Output.line("From \(file.peer) to \(file.relay), \(day), UTC")
      let received = file.hours.flatMap { hour in
        [("messages", hour.received.messages), ("receipts", hour.received.receipts)].map { kind, received in
          let counts = [received.accepted, received.refused].map(\.count)
          return Row(hour: hour.hour, kind: kind, counts: counts, digest: received.accepted)
        }
      }
      show(["ACCEPTED", "REFUSED", "DIGEST OF ACCEPTED"], received)
    }

    private struct Row {
      let hour: Int
      let kind: String
      let counts: [Int64]
      let digest: LedgerFile.Figure
    }

    /// Shows the rows that are not all zero, and the sums.
    private func show(_ titles: [String], _ rows: [Row]) {
      let lines = rows.filter { $0.counts.contains { $0 != 0 } }.map { row in
        [Self.clock(row.hour), row.kind] + row.counts.map(String.init) + [row.digest.digest]
      }
      let sums = ["messages", "receipts"].map { kind in
        let own = rows.filter { $0.kind == kind }
        let counts = titles.indices.dropLast().map { column in own.reduce(0) { $0 &+ $1.counts[column] } }
        let digest = own.reduce(LedgerSum()) { $0 + ($1.digest.sum ?? LedgerSum()) }
        return ["all", kind] + counts.map(String.init) + [LedgerFile.Figure(digest).digest]
      }
      Output.table([["HOUR", "KIND"] + titles] + lines + sums)
    }

    static func clock(_ hour: Int) -> String { "\(hour < 10 ? "0" : "")\(hour):00" }
  }
}
