import ChildProcesses
import Foundation
import TestSupport
import TestTags
import Testing

/// A block of shell commands in a document, with the mark in front of it that says who runs it.
private struct Block {
  enum Mark: Equatable {
    /// Here, as it stands.
    case run
    /// Here, but for lines that build and start what the test has running.
    case runRest
    case runBy(suite: String)
    /// By a script of ours that reads the document.
    case runByScript(path: String)
    case notRun(reason: String)
  }

  let file: String
  let line: Int
  let mark: Mark?
  let lines: [String]

  var place: String { "\(file):\(line)" }
  var script: String { lines.joined(separator: "\n") }

  static func all(in root: URL) throws -> [Block] {
    let docs = try FileManager.default.contentsOfDirectory(atPath: root.path + "/docs").filter { $0.hasSuffix(".md") }
    return try (["README.md", "CONTRIBUTING.md"] + docs.sorted().map { "docs/\($0)" }).flatMap { file in
      read(file, try String(contentsOf: root.appending(path: file), encoding: .utf8))
    }
  }

  private static func read(_ file: String, _ text: String) -> [Block] {
    var (blocks, open): ([Block], (line: Int, mark: Mark?, lines: [String])?) = ([], nil)
    var former = ""
    for (index, line) in text.components(separatedBy: "\n").enumerated() {
      let words = line.trimmingCharacters(in: .whitespaces)
      if let begun = open {
        if words == "```" {
          blocks.append(Block(file: file, line: begun.line, mark: begun.mark, lines: begun.lines))
          open = nil
        } else {
          open?.lines.append(line)
        }
      } else if words == "```sh" || words == "```bash" {
        open = (index + 1, mark(former), [])
      }
      former = words
    }
    return blocks
  }

  private static func mark(_ line: String) -> Mark? {
    if line == "<!-- run -->" { return .run }
    if line == "<!-- run but for its first lines -->" { return .runRest }
    if let found = line.wholeMatch(of: /<!-- run by (\w+) -->/) { return .runBy(suite: String(found.1)) }
    if let found = line.wholeMatch(of: /<!-- run by (scripts\/[a-z.-]+) -->/) {
      return .runByScript(path: String(found.1))
    }
    if let found = line.wholeMatch(of: /<!-- not run: (.+) -->/) { return .notRun(reason: String(found.1)) }
    return nil
  }
}

/// Every block of shell commands in the documents is run here or by the suite that it names, or says why not.
@Suite(.tags(.processes)) struct DocumentedBlocksTests {
  private static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent()
  /// The documents' own example of a number.
  private static let number = "+14155550100"

  @Test func `every block says who runs it, or why nobody does`() throws {
    let tests = try FileManager.default.subpathsOfDirectory(atPath: Self.root.path + "/Tests")
      .filter { $0.hasSuffix("Tests.swift") }.map { URL(filePath: $0).deletingPathExtension().lastPathComponent }
    let blocks = try Block.all(in: Self.root)
    #expect(blocks.count > 40 && blocks.count { $0.mark == .run } > 10)
    for block in blocks {
      switch block.mark {
      case nil: Issue.record("\(block.place) has no mark in front of it")
      case .runBy(let suite): #expect(tests.contains(suite), "\(block.place): there is no \(suite)")
      case .runByScript(let path):
        let script = try String(contentsOf: Self.root.appending(path: path), encoding: .utf8)
        let page = URL(filePath: block.file).lastPathComponent
        #expect(script.contains(page), "\(block.place): \(path) does not read it")
      case .notRun(let reason): #expect(reason.count > 10, "\(block.place)")
      case .run, .runRest: continue
      }
    }
  }

  @Test func `an operator who types what the documents show gets what they show`() async throws {
    try await RedisServer.with { redis in
      // Limits are the running process's alone without it.
      try await PeeredSites.with(alphaSettings: ["RELAY_COORDINATION_URL": redis.url]) { try await runAll(at: $0) }
    }
  }

  private func runAll(at sites: PeeredSites) async throws {
    let (relay, alpha) = (sites.alphaRelay, sites.alpha)
    _ = try await relay.register(Self.number)
    let person = try await relay.register()
    for (file, number) in [("number.txt", Self.number), ("other.txt", person.number)] {
      try (number + "\n").write(toFile: "\(alpha.folder)/\(file)", atomically: true, encoding: .utf8)
    }
    try FileManager.default.createDirectory(atPath: alpha.folder + "/bin", withIntermediateDirectories: true)
    try FileManager.default.createSymbolicLink(
      atPath: alpha.folder + "/bin/relay", withDestinationPath: try RelayExecutable.path())
    let words = [
      "HANDLE": try await handle(of: person, at: alpha), "http://127.0.0.1:8080": relay.url,
      "http://127.0.0.1:8081": relay.operatorURL, "deploy/": "\(Self.root.path)/deploy/",
    ]
    for (site, file) in [(alpha, "ours"), (sites.beta, "theirs")] {
      let peer = site.name == "alpha" ? "beta" : "alpha"
      let day = String(Date.now.formatted(.iso8601).prefix(10))
      try await site.relay("ledger", "--peer", peer, "--day", day, "--json")
        .write(toFile: "\(alpha.folder)/\(file).json", atomically: true, encoding: .utf8)
    }
    for block in try Block.all(in: Self.root) {
      switch block.mark {
      case .run: try await type(block.script, words, block, at: sites)
      // Behind what builds and starts a relay.
      case .runRest: try await type(block.lines.drop { !$0.isEmpty }.joined(separator: "\n"), words, block, at: sites)
      case .runBy, .runByScript, .notRun, nil: continue
      }
    }
  }

  private func handle(of person: TestDevice, at site: RelayOperator) async throws -> String {
    let shown = try await site.run(["accounts", "show", person.number, "--json"]).json([String: JSONText].self)
    return try #require(shown["handle"]?.text)
  }

  /// Runs a block as a shell would that stops at the first failure, with the other number on standard input.
  private func type(_ script: String, _ words: [String: String], _ block: Block, at sites: PeeredSites) async throws {
    var script = script
    for (word, value) in words { script = script.replacingOccurrences(of: word, with: value) }
    let folder = sites.alpha.folder
    var environment = sites.alpha.environment(PeeredSites.ports(sites.alpha, sites.alphaRelay))
    environment["PATH"] = "\(folder)/bin:\(environment["PATH"] ?? "")"
    let files = ["output", "errors"].map { "\(folder)/block-\($0)-\(UUID().uuidString)" }
    let shell = "set -euo pipefail\nexec < \(folder)/other.txt\n\(script)\n"
    let child = try await ChildProcess.start(
      ChildProcess.Launch(
        command: ["/usr/bin/env", "bash", "-c", shell], environment: environment, folder: folder,
        standardOutput: files[0], standardError: files[1]))
    let exit = await child.killed(after: .seconds(120))
    let said = files.map { (try? String(contentsOfFile: $0, encoding: .utf8)) ?? "" }
    #expect(exit == .code(0), "\(block.place): \(said[0].suffix(1000)) \(said[1].suffix(1000))")
  }
}

/// A value of JSON as text; empty for others.
private struct JSONText: Decodable {
  let text: String
  init(from decoder: any Decoder) throws {
    text = (try? decoder.singleValueContainer().decode(String.self)) ?? ""
  }
}
