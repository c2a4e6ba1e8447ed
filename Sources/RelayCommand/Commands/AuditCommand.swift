import ArgumentParser
import Foundation
import Operations
import RelayCore

struct AuditCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "audit", abstract: "What operators changed, by commands and by the operator API.",
    discussion: """
      Oldest first, the last line is the newest. WHO is a user of the host where the command ran, or a token by its name. \
      RESULT is `unknown` while a change is under way, and for good where its process was ended in its midst. Accounts are \
      named by their handles. Entries are kept for 400 days.
      """)
  @OptionGroup var configuration: ConfigurationOption
  @Option(help: "How many entries at most, 1 to 100000.") var limit = 100
  @Option(help: "Only entries before this id.") var before: Int64?
  @Option(
    help: ArgumentHelp(
      "Only what concerns this: a peer's name, an account's handle or number, or - to read it from standard input.",
      valueName: "name"))
  var about: String?
  @Flag(help: "Print JSON, a line each.") var json = false

  func validate() throws {
    guard (1...100_000).contains(limit) else { throw ValidationError("--limit must be 1 to 100000.") }
  }

  func run() async throws {
    let about = about == "-" ? readLine(strippingNewline: true) ?? "" : about
    try await withStorage(configuration) { storage in
      let subject = try await subject(about, storage)
      let rows = try await storage.auditEntries(before: before, about: subject, limit: limit).map(AuditRow.init)
      if json { return try rows.forEach(Output.jsonLine) }
      if rows.isEmpty { return Output.line("Nothing is noted.") }
      Output.table(
        [["ID", "TIME", "WHO", "ACTION", "SUBJECT", "RESULT"]]
          + rows.map { row in
            [
              "\(row.id)", row.time, row.who, row.action, row.subject ?? "-",
              row.reason.map { "\(row.result): \($0)" } ?? row.result,
            ]
          })
      if rows.count == limit, let first = rows.first { Output.note("There may be earlier ones: --before \(first.id)") }
    }
  }

  /// A number stands in the log by its handle.
  private func subject(_ text: String?, _ storage: any Storage) async throws -> String? {
    guard let text, let reference = AccountReference(text) else { return text }
    switch reference {
    case .number(let number): return try await storage.handle(of: number).text
    case .handle(let handle): return handle.text
    }
  }
}
