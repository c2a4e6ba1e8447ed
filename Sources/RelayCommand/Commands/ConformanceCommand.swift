import ArgumentParser
import Conformance
import Foundation

struct ConformanceCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "conformance",
    abstract: "Examine a server of the client API, rule by rule.",
    discussion: """
      Works with any server that speaks the API and answers requests for codes by the transport `dev`; a relay of this \
      project does with development.enabled=true. It registers accounts under numbers that nobody has, draws keys and \
      sends messages, so do not point it at a server with users. docs/conformance.md describes it.

      Exits with 0 when every rule is kept, with 1 when one is broken or could not be shown.
      """)

  @Option(help: ArgumentHelp("Its base URL, such as http://127.0.0.1:8080.", valueName: "url")) var target: String?
  @Option(help: ArgumentHelp("Write the results as JUnit's XML.", valueName: "file")) var junit: String?
  @Option(help: ArgumentHelp("Only rules of this section, or with this text.", valueName: "text")) var filter: String?
  @Flag(help: "Show the rules instead of trying them.") var list = false
  @Option(help: ArgumentHelp("A peer of the server, by the name it has there; repeatable.", valueName: "name"))
  var relay: [String] = []
  @Option(
    help: ArgumentHelp("A peer's base URL: its rules speak to both, and name no relay.", valueName: "url"))
  var across: String?
  @Option(help: ArgumentHelp("What the numbers of its accounts begin with.", valueName: "prefix")) var numbers: String?
  @Option(help: ArgumentHelp("Seconds that the whole run may take, 1 to 3600.", valueName: "s")) var timeout = 300
  @Option(help: ArgumentHelp("PEM certificates to trust, instead of the system's.", valueName: "file")) var ca: String?

  func validate() throws {
    guard list || target != nil else { throw ValidationError("--target names the server to examine.") }
    guard (1...3600).contains(timeout) else { throw ValidationError("--timeout must be 1 to 3600.") }
    guard relay.allSatisfy({ $0.wholeMatch(of: #/[a-z0-9][a-z0-9._-]{0,62}/#) != nil }) else {
      throw ValidationError("--relay takes names of relays: a-z, 0-9, dot, hyphen and underscore.")
    }
  }

  func run() async throws {
    guard let target, !list else { return showRules() }
    let report: ConformanceReport
    do {
      report = try await ConformanceRunner.run(try options(target)) { Output.line($0.text) }
    } catch let failure as RunFailure {
      throw CommandFailure(failure.description)
    }
    Output.line("\n" + report.summary)
    if let junit { try write(report.junit, to: junit) }
    if !report.isConforming { throw ExitCode.failure }
  }

  private func showRules() {
    for area in ConformanceSuite.areas(matching: filter) {
      for rule in area.rules { Output.line(rule.since.rawValue + "\t" + rule.section + "\t" + rule.text) }
    }
  }

  private func options(_ target: String) throws -> ConformanceOptions {
    var options = ConformanceOptions(target: target)
    options.filter = filter
    options.relays = relay
    options.across = across
    if let numbers { options.numberPrefix = numbers }
    options.timeout = .seconds(timeout)
    if let ca {
      do {
        options.trustRootsPEM = try String(contentsOfFile: ca, encoding: .utf8)
      } catch {
        throw CommandFailure("The certificates of --ca cannot be read from \(ca).")
      }
    }
    return options
  }

  private func write(_ xml: String, to file: String) throws {
    do {
      try Data(xml.utf8).write(to: URL(fileURLWithPath: file), options: .atomic)
    } catch {
      throw CommandFailure("The results cannot be written to \(file).")
    }
  }
}
