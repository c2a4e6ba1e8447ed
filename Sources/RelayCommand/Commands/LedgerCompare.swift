import ArgumentParser
import Federation
import Foundation

extension LedgerCommand {
  struct Compare: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "compare",
      abstract: "Compare this operator's file of a day with the peer's.",
      discussion: """
        Says "equal" and ends with 0, or names the first hour that differs and ends with 1. Reads nothing but the files.
        """)
    @Argument(help: "What `relay ledger --json` printed here.") var ours: String
    @Argument(help: "What it printed at the peer, for the same day.") var theirs: String
    @Flag(help: "Print JSON.") var json = false

    private struct Report: Encodable {
      let day: String
      let isEqual: Bool
      let totals: [LedgerComparison.Total]?
      let difference: LedgerComparison.Difference?
    }

    func run() async throws {
      let comparison: LedgerComparison
      do throws(LedgerComparison.Mismatch) {
        comparison = try LedgerComparison(try Self.read(ours), try Self.read(theirs))
      } catch {
        throw CommandFailure("\(error)")
      }
      if json {
        try Output.json(
          Report(
            day: comparison.day, isEqual: comparison.difference == nil,
            totals: comparison.difference == nil ? comparison.totals : nil, difference: comparison.difference))
      } else if let difference = comparison.difference {
        for line in Self.lines(difference, comparison.day) { Output.line(line) }
      } else {
        Output.line("equal: \(comparison.day)")
        for total in comparison.totals { Output.line("  \(Self.text(total))") }
      }
      if comparison.difference != nil { throw ExitCode(1) }
    }

    private static func text(_ total: LedgerComparison.Total) -> String {
      let counts = "\(total.from) to \(total.to): \(total.messages) messages, \(total.receipts) receipts"
      guard total.unanswered > 0 else { return counts }
      return "\(counts); \(total.unanswered) of them have arrived, and \(total.from) does not know it"
    }

    static func lines(_ difference: LedgerComparison.Difference, _ day: String) -> [String] {
      let (from, to) = (difference.from, difference.to)
      let next = Show.clock((difference.hour + 1) % 24)
      var lines = [
        "The first hour that differs: \(day), \(Show.clock(difference.hour)) to \(next) UTC, \(difference.kind) from "
          + "\(from) to \(to).",
        "  \(from) handed over \(difference.handedOver): \(difference.answered) answered, \(difference.waits) wait, "
          + "\(difference.refused) refused.",
        "  \(to) accepted \(difference.accepted).", "  \(meaning(difference))",
      ]
      if difference.isUnderWay {
        lines.append(
          "  One of the files was made before this hour was over: make both again when it is, and compare those.")
      }
      return lines
    }

    private static func meaning(_ difference: LedgerComparison.Difference) -> String {
      let (from, to, kind) = (difference.from, difference.to, difference.kind)
      switch difference.finding {
      case .missing where difference.accepted == 0:
        return "None that \(to) answered is in its ledger: its store was put back or lost, or its relay has no ledger."
      case .missing:
        let count = difference.answered - difference.accepted
        return
          "\(count) \(kind) that \(to) answered are not in its ledger: lost there, as when its store was put back, or "
          + (kind == "receipts" ? "dropped, because a mailbox was full." : "accepted by a process of an older build.")
      case .surplus:
        let count = difference.accepted - difference.answered - difference.waits
        return
          "\(count) \(kind) more were accepted than \(from) handed over: stored twice, not \(from)'s, or \(from)'s "
          + "store was put back or away."
      case .others:
        return "As many, but not the same ones: some were lost, and as many stored twice or not \(from)'s."
      case .unsettled:
        let count = difference.accepted - difference.answered
        return
          "\(count) of those that wait at \(from) have arrived, as far as counts tell; the others have not, or not "
          + "yet. Nothing that was answered is missing."
      }
    }

    private static func read(_ path: String) throws(LedgerComparison.Mismatch) -> LedgerFile {
      let data: Data
      do {
        let handle = try FileHandle(forReadingFrom: URL(fileURLWithPath: path))
        defer { try? handle.close() }  // Nothing was written.
        data = try handle.read(upToCount: bytesMax + 1) ?? Data()
      } catch {
        throw .format("\(path) cannot be read.")
      }
      guard data.count <= bytesMax, let file = try? JSONDecoder().decode(LedgerFile.self, from: data) else {
        // Why it cannot be decoded says less than what it should have been.
        throw .format("\(path) is no ledger: `relay ledger --peer NAME --day DAY --json` prints one.")
      }
      return file
    }

    /// A full day takes some 30 KB.
    private static let bytesMax = 1 << 20
  }
}
