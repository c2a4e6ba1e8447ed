import ArgumentParser
import Foundation
import Operations
import RelayCore

struct ExplainCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "explain", abstract: "What the logs tell of one request, here and at a peer.",
    discussion: """
      Reads logs of `log.format: json`, from files or from standard input:

        journalctl -u relay -o cat | relay explain k3v7qhd2m4xsa
        relay explain k3v7qhd2m4xsa north.log south.log

      The id is what an answer's X-Request-ID holds. It goes with a request to the peer that has to serve it, so that both \
      operators find it. The log tells of requests that were not served; at `log.level: debug` also of those that were \
      refused. Ends with 1 when there is nothing about it.
      """)
  @Argument(help: "An answer's X-Request-ID.") var id: String
  @Argument(help: "Logs; - or none for standard input.") var files: [String] = []
  @Flag(help: "Print JSON, a line each.") var json = false

  private struct Row: Encodable {
    let file: String
    let line: LogLine
  }

  func validate() throws {
    guard RequestID(id) != nil else {
      throw ValidationError("ID must be what an answer's X-Request-ID holds: 13 letters and digits.")
    }
  }

  func run() async throws {
    guard let id = RequestID(id) else { return }
    var search = LogSearch(for: id)
    for path in files.isEmpty ? ["-"] : files { try Self.read(path, &search) }
    // The times of one format sort as texts do; lines of one instant stay in the order of their files.
    let findings = search.findings.enumerated()
      .sorted { ($0.element.line.time, $0.offset) < ($1.element.line.time, $1.offset) }.map(\.element)
    if json {
      for finding in findings { try Output.jsonLine(Row(file: finding.source, line: finding.line)) }
    } else {
      for line in Self.lines(findings, isOneFile: files.count <= 1) { Output.line(line) }
    }
    guard findings.isEmpty else { return }
    Output.note(Self.nothing(search))
    throw ExitCode(1)
  }

  private static func read(_ path: String, _ search: inout LogSearch) throws {
    if path == "-" { return try search.read(.standardInput, as: "standard input") }
    do {
      let file = try FileHandle(forReadingFrom: URL(fileURLWithPath: path))
      defer { try? file.close() }  // Nothing was written.
      try search.read(file, as: path)
    } catch {
      throw CommandFailure("\(path) cannot be read: it must be a file that you may read.")
    }
  }

  private static func lines(_ findings: [LogSearch.Finding], isOneFile: Bool) -> [String] {
    var lines: [String] = []
    for finding in findings {
      let line = finding.line
      lines.append("\(line.time)  \(line.level)  \(isOneFile ? "" : "\(finding.source)  ")\(line.message)")
      for (key, value) in line.metadata.sorted(by: { $0.key < $1.key }) where key != "request" {
        lines.append("  \(key): \(value)")
      }
    }
    var told: Set<Problem.Kind> = []
    for problem in findings.compactMap(\.line.problem) where told.insert(problem).inserted {
      lines.append("\(problem.rawValue) (\(problem.status)): \(problem.text)")
    }
    return lines
  }

  private static func nothing(_ search: LogSearch) -> String {
    guard search.linesRead > 0 else { return "The log is empty." }
    guard search.isJSON else {
      return "None of the first lines is of `log.format: json`: set it (docs/configuration.md), or search the text."
    }
    return """
      Nothing in \(search.linesRead) lines is about it. The log tells of requests that were not served, at most 5 a second \
      for long; at `log.level: debug` also of those that were refused. Does the log reach back to its time?
      """
  }
}
