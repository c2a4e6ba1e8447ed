import ChildProcesses
import Foundation
import TestSupport
import TestTags
import Testing

/// The README's lines for peering, as two operators type them on hosts of their own.
@Suite(.tags(.processes)) struct ReadmePeeringTests {
  @Test(.enabled(if: Network.isAllowed, "network namespaces are not allowed here"))
  func `the README's lines peer two operators whose hosts have addresses of their own`() async throws {
    let lines = try Self.lines()
    #expect(lines.count == 7, "\(lines)")
    try await MachineRoom.with {
      try await Network.with(2) { network in
        let folder = FileManager.default.temporaryDirectory.appending(path: "relay-readme-\(UUID().uuidString)").path
        defer { try? FileManager.default.removeItem(atPath: folder) }  // A leftover there hurts nobody.
        let alpha = try Newcomer("alpha", network.hosts[0].place, lines, in: folder)
        let beta = try Newcomer("beta", network.hosts[1].place, lines, in: folder)
        do {
          for newcomer in [alpha, beta] {
            try await newcomer.type("relay ca init")
            try await newcomer.serve()
          }
          let invitation = try await alpha.type("relay peer invite").split(separator: "\n").last.map(String.init)
          try await beta.type("relay peer accept", with: ["INVITATION": try #require(invitation)])
          #expect(try await alpha.type("relay peer list").contains("beta"))
          #expect(try await beta.type("relay peer list").contains("alpha"))
          try await alpha.type("relay peer test")
          try await beta.type("relay peer test", with: ["beta": "alpha"])
        } catch {
          await alpha.leave()
          await beta.leave()
          throw TestFailure("\(error)\n\(alpha.log)\n\(beta.log)")
        }
        #expect(await alpha.leave() == .code(0))
        #expect(await beta.leave() == .code(0))
      }
    }
  }

  /// Without their comments.
  private static func lines() throws -> [String] {
    let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent().deletingLastPathComponent()
    let text = try String(contentsOf: root.appending(path: "README.md"), encoding: .utf8)
    guard let block = text.split(separator: "```sh\n").first(where: { $0.hasPrefix("export RELAY_NAME=alpha") }),
      let body = block.split(separator: "```").first
    else { throw TestFailure("the README has no lines for peering") }
    return body.split(separator: "\n").map { line in
      line.split(separator: "#", maxSplits: 1).first.map(String.init)?.trimmingCharacters(in: .whitespaces) ?? ""
    }
  }
}

/// An operator who follows the README on a host of its own.
private final class Newcomer: Sendable {
  private let place: RelayOperator.Place
  private let folder: String
  private let lines: [String]
  private let serving = Serving()

  private actor Serving {
    private var child: ChildProcess?
    func begin(_ child: ChildProcess) { self.child = child }
    func end() async -> ChildProcess.Exit? { await child?.stop(SIGTERM, grace: .seconds(30)) }
  }

  init(_ name: String, _ place: RelayOperator.Place, _ lines: [String], in parent: String) throws {
    self.place = place
    folder = "\(parent)/\(name)"
    // A host without a name service: its address stands for its name.
    self.lines = lines.map {
      $0.replacing("relay.alpha.example", with: place.address).replacing("RELAY_NAME=alpha", with: "RELAY_NAME=\(name)")
    }
    try FileManager.default.createDirectory(atPath: folder + "/bin", withIntermediateDirectories: true)
    try FileManager.default.createSymbolicLink(
      atPath: folder + "/bin/relay", withDestinationPath: try RelayExecutable.path())
  }

  var log: String { (try? String(contentsOfFile: folder + "/serve.log", encoding: .utf8)) ?? "no log" }

  /// Types the README's line that begins so, in the place that it stands at, and waits for its end.
  /// - Parameter words: what stands for what of it.
  @discardableResult
  func type(_ beginning: String, with words: [String: String] = [:]) async throws -> String {
    var line = try line(beginning)
    for (word, replacement) in words { line = line.replacing(word, with: replacement) }
    return try await run(line)
  }

  func serve() async throws {
    let line = try line("relay serve").replacing("&", with: "")
    await serving.begin(try await ChildProcess.start(launch("exec \(line)", to: folder + "/serve.log")))
    try await eventually("it is ready", within: .seconds(60)) {
      (try? await run("curl -sf http://127.0.0.1:8081/readyz")) != nil
    }
  }

  @discardableResult
  func leave() async -> ChildProcess.Exit? { await serving.end() }

  private func line(_ beginning: String) throws -> String {
    guard let line = lines.first(where: { $0.hasPrefix(beginning) }) else {
      throw TestFailure("the README has no line that begins with \(beginning)")
    }
    return line
  }

  private func run(_ line: String) async throws -> String {
    let file = "\(folder)/\(UUID().uuidString).txt"
    let child = try await ChildProcess.start(launch(line, to: file))
    let exit = await child.killed(after: .seconds(60))
    let text = try String(contentsOfFile: file, encoding: .utf8)
    guard exit == .code(0) else { throw TestFailure("\(line): \(exit): \(text)") }
    return text
  }

  /// In a shell that has seen the first line.
  private func launch(_ line: String, to file: String) -> ChildProcess.Launch {
    var environment = ProcessInfo.processInfo.environment.filter { !$0.key.hasPrefix("RELAY_") }
    environment["PATH"] = "\(folder)/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return ChildProcess.Launch(
      command: place.wrapper + ["bash", "-c", "\(lines[0])\n\(line)"], environment: environment, folder: folder,
      standardOutput: file, standardError: file)
  }
}
