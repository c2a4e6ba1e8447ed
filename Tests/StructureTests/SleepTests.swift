import Foundation
import TestTags
import Testing

/// Time is waited for by `RelayWork` alone: its loops and pauses end with their task, and keep to a clock that tests
/// move.
@Suite(.tags(.unit)) struct SleepTests {
  private static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent()

  /// Files that may sleep by themselves, with the reason; few.
  private static let exceptions = [
    "Storage/Stores/SQLiteStorage.swift": "a blocking call at the start of a process, while another holds the file",
    "Federation/Certificates/IdentityFolder.swift": "a blocking call, while another process replaces the files",
    "Federation/Certificates/SecretFile.swift": "a blocking call, while another process holds the file's lock",
  ]

  nonisolated(unsafe) private static let sleep =
    #/Task\s*\.\s*sleep\b|Clock\(\)\s*\.\s*sleep\b|\busleep\(|\bnanosleep\(|Thread\.sleep\b/#

  /// - Parameter sources: texts by their paths inside `Sources`.
  /// - Returns: `PATH:LINE`, sorted.
  private static func sleeps(in sources: [String: String]) -> [String] {
    sources.filter { !$0.key.hasPrefix("RelayWork/") && exceptions[$0.key] == nil }.flatMap { path, text in
      text.split(separator: "\n", omittingEmptySubsequences: false).enumerated()
        .filter { $0.element.contains(sleep) }.map { "\(path):\($0.offset + 1)" }
    }.sorted()
  }

  private static func sources() throws -> [String: String] {
    let folder = root.appending(path: "Sources")
    var sources: [String: String] = [:]
    for path in try FileManager.default.subpathsOfDirectory(atPath: folder.path) where path.hasSuffix(".swift") {
      sources[path] = try String(contentsOf: folder.appending(path: path), encoding: .utf8)
    }
    return sources
  }

  @Test func `nothing sleeps but RelayWork`() throws {
    let sources = try Self.sources()
    #expect(sources.count > 500)
    #expect(Self.sleeps(in: sources) == [], "use Pause, Periodic, Beat or Countdown")
  }

  @Test func `every exception is still one, and there are few`() throws {
    let sources = try Self.sources()
    #expect(Self.exceptions.count <= 5)
    for path in Self.exceptions.keys { #expect(sources[path]?.contains(Self.sleep) == true, "\(path)") }
  }

  @Test func `a planted sleep is found, and named`() {
    let sources = [
      "Relay/A.swift": "func a() async {\n  try? await Task.sleep(for: .seconds(1))\n}",
      "Relay/B.swift": "try await ContinuousClock().sleep(for: .seconds(1))", "Relay/C.swift": "usleep(10)",
      "Relay/D.swift": "await Pause.for(.seconds(1))", "RelayWork/Pause.swift": "Task.sleep",
    ]
    #expect(Self.sleeps(in: sources) == ["Relay/A.swift:2", "Relay/B.swift:1", "Relay/C.swift:1"])
  }
}
