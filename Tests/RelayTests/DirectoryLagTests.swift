import ChildProcesses
import TestSupport
import TestTags
import Testing

/// How old the directory is, as the operator sees it (docs/directory.md, "Metrics").
@Suite(.tags(.processes)) struct DirectoryLagTests {
  private static let metrics = ["relay_directory_lag_seconds", "relay_oblivious_lag_seconds"]

  /// - Returns: nil for what is not shown.
  private static func lags(_ relay: RelayProcess) async throws -> [Double?] {
    let lines = try await relay.ask("/metrics").text.split(separator: "\n")
    return metrics.map { metric in
      lines.first { $0.hasPrefix("\(metric) ") }?.split(separator: " ").last.flatMap { Double($0) }
    }
  }

  @Test func `the lag that is shown rises while the feed cannot be read, and falls again`() async throws {
    try await RelayOperator.with { site in
      let relay = try await site.serve()
      func areAll(_ isRight: (Double) -> Bool) async throws -> Bool {
        try await Self.lags(relay).allSatisfy { $0.map(isRight) ?? false }
      }
      try await eventually("both are current") { try await areAll { $0 >= 0 && $0 < 2 } }
      try await site.hideDirectoryFeed(true)
      try await eventually("both fall behind") { try await areAll { $0 > 4 } }
      try await site.hideDirectoryFeed(false)
      try await eventually("both are current again") { try await areAll { $0 >= 0 && $0 < 2 } }
      #expect(await relay.terminate() == .code(0))
    }
  }
}
