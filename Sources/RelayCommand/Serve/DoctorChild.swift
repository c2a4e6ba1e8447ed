import ChildProcesses
import Foundation
import Operations

/// `relay doctor` beside the process that serves: whatever it opens, waits for and measures stays its own.
struct DoctorChild: Sendable {
  /// The configuration file that `relay serve` was given; nil for none.
  let configuration: String?
  /// Variables by which the options of `relay serve` go before the configuration.
  var overrides: [String: String] = [:]

  private struct Row: Decodable {
    let group: String
    let check: String
    let outcome: String
    let text: String
    let remedy: String?
  }

  /// The findings of `relay doctor`. A failure to ask it is a finding too.
  func findings() async -> [ConsoleFinding] {
    do {
      return try await rows().map {
        ConsoleFinding(group: $0.group, check: $0.check, outcome: $0.outcome, text: $0.text, remedy: $0.remedy)
      }
    } catch {
      return [
        ConsoleFinding(
          group: "doctor", check: "run", outcome: "fail", text: "It could not be asked: \(type(of: error)).",
          remedy: "Run `relay doctor` in a terminal.")
      ]
    }
  }

  private func rows() async throws -> [Row] {
    let folder = FileManager.default.temporaryDirectory.appending(path: "relay-doctor-\(UUID().uuidString)")
    try FileManager.default.createDirectory(
      at: folder, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
    defer {
      // A leftover in the temporary folder hurts nobody.
      try? FileManager.default.removeItem(at: folder)
    }
    let (output, errors) = (folder.appending(path: "output"), folder.appending(path: "errors"))
    let environment = ProcessInfo.processInfo.environment.filter { !Self.own.contains($0.key) }
      .merging(overrides) { $1 }
    let child = try await ChildProcess.start(
      ChildProcess.Launch(
        command: [try Self.executable(), "doctor", "--json"] + (configuration.map { ["--config", $0] } ?? []),
        environment: environment, folder: FileManager.default.currentDirectoryPath,
        standardOutput: output.path, standardError: errors.path))
    _ = await child.killed(after: Self.patience)
    return try JSONDecoder().decode([Row].self, from: Data(contentsOf: output))
  }

  /// This program. An upgrade may have put another one in its place: then it is that one.
  static func executable() throws -> String {
    let path = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
    return path.hasSuffix(" (deleted)") ? String(path.dropLast(" (deleted)".count)) : path
  }

  /// The variables that systemd sets for the process that it started.
  private static let own: Set<String> = ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"]
  /// Each check has 10 s, and all run side by side.
  private static let patience = Duration.seconds(20)
}
