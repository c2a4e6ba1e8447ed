import Foundation
import TestSupport
import TestTags
import Testing

/// Every command of this program that a document shows in a block exists, with the options that it is given.
@Suite(.tags(.processes)) struct DocumentedCommandsTests {
  /// The program's description of itself (`--experimental-dump-help`).
  private struct Help: Decodable {
    let command: Command
  }
  private struct Command: Decodable {
    let commandName: String
    let subcommands: [Command]?
    let arguments: [Argument]?
  }
  private struct Argument: Decodable {
    struct Name: Decodable {
      let kind: String
      let name: String
    }
    let kind: String
    let names: [Name]?
  }

  /// The subcommands whose words may follow the command above at once; the help does not say.
  private static let defaults = ["ledger": "show", "backup": "make"]

  private static var root: URL {
    URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
  }

  /// Lines of fenced blocks that call `relay`, with the file that they stand in.
  private static func commands() throws -> [(file: String, line: String)] {
    var found: [(String, String)] = []
    let docs = try FileManager.default.contentsOfDirectory(atPath: root.path + "/docs").filter { $0.hasSuffix(".md") }
    for file in ["README.md", "CONTRIBUTING.md"] + docs.map({ "docs/\($0)" }) {
      var isFenced = false
      for line in try String(contentsOf: root.appending(path: file), encoding: .utf8).split(separator: "\n") {
        if line.trimmingCharacters(in: .whitespaces).hasPrefix("```") { isFenced.toggle() }
        guard isFenced else { continue }
        // Several commands of a line, without what the shell makes of the rest.
        let code = line.replacing(/(^|\s)#.*$/, with: "").replacing("$ ", with: "")
        for part in code.split(separator: /&&|\|\||[|;]/) {
          let words = part.trimmingCharacters(in: .whitespaces)
          // `relay = ...` is a setting of something else.
          if words.hasPrefix("relay "), !words.hasPrefix("relay =") { found.append((file, words)) }
        }
      }
    }
    return found
  }

  @Test func `each of them is one of this program's`() async throws {
    try await RelayOperator.with { site in
      let dumped = try await site.run(["--experimental-dump-help"])
      let root = try JSONDecoder().decode(Help.self, from: Data(dumped.output.utf8)).command
      let commands = try Self.commands()
      #expect(commands.count > 40, "\(commands.count)")
      for (file, line) in commands {
        if let fault = Self.fault(of: line, root) { Issue.record("\(file): \(line): \(fault)") }
      }
      // It would say so.
      #expect(Self.fault(of: "relay peer befriend beta", root) != nil)
      #expect(Self.fault(of: "relay peer test beta --loudly", root) != nil)
    }
  }

  /// - Returns: nil for a command that there is.
  private static func fault(of line: String, _ root: Command) -> String? {
    var command = root
    var isLooking = true
    for word in line.split(separator: " ").dropFirst() {
      // The shell goes on here.
      if [">", "<", "2>", "\\", ">>"].contains(word) { break }
      if word.hasPrefix("--") || word.range(of: #"^-[a-z]$"#, options: .regularExpression) != nil {
        let name = word.drop { $0 == "-" }.prefix { $0 != "=" }
        let known = [command, defaultChild(of: command)].compactMap(\.self)
          .flatMap { $0.arguments ?? [] }.flatMap { $0.names ?? [] }.map(\.name)
        guard known.contains(String(name)) else { return "there is no option \(word)" }
        continue
      }
      guard isLooking, let children = command.subcommands, !children.isEmpty else {
        isLooking = false
        continue
      }
      if let child = children.first(where: { $0.commandName == word }) {
        command = child
      } else if defaultChild(of: command) != nil {
        isLooking = false
      } else {
        return "there is no command \(word)"
      }
    }
    return nil
  }

  private static func defaultChild(of command: Command) -> Command? {
    command.subcommands?.first { $0.commandName == defaults[command.commandName] }
  }
}
