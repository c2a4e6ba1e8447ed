import ChildProcesses
import TestSupport
import TestTags
import Testing

/// The whole client API, on PostgreSQL and Redis.
@Suite(.tags(.processes)) struct ConformanceTests {
  @Test func `one of two processes over real servers keeps every rule`() async throws {
    try await Cluster.with { cluster in
      try await cluster.serve(2) { relays in
        let all = try await cluster.site.relay("conformance", "--list").split(separator: "\n").count
        #expect(all >= 200)
        let result = try await cluster.site.run(
          ["conformance", "--target", relays[0].url], within: .seconds(300))
        #expect(result.exit == .code(0), "\(result.output.suffix(3000)) \(result.errors)")
        let lines = result.output.split(separator: "\n")
        #expect(lines.count { $0.hasPrefix("ok ") } + lines.count { $0.hasPrefix("skip ") } == all)
        // Rules of `--across` are shown by `RealClients`.
        let skipped = lines.filter { $0.hasPrefix("skip ") && !$0.contains("needs --across") }
        #expect(skipped.count <= 10, "\(skipped)")
        for relay in relays { #expect(!relay.log().contains("request failed"), "\(relay.log().suffix(1000))") }
      }
    }
  }
}
