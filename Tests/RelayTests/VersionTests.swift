import Foundation
import TestSupport
import TestTags
import Testing

@Suite(.tags(.processes)) struct VersionTests {
  private static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent()

  @Test func `the executable names each package and library that it is made of`() async throws {
    struct Resolved: Decodable {
      struct Pin: Decodable {
        struct State: Decodable {
          let version: String?
          let revision: String
        }
        let identity: String
        let state: State
      }
      let pins: [Pin]
    }
    let file = Self.root.appending(path: "Package.resolved")
    let resolved = try JSONDecoder().decode(Resolved.self, from: Data(contentsOf: file))
    #expect(resolved.pins.contains { $0.identity == "swift-nio-ssl" })
    try await RelayOperator.with { site in
      let short = try await site.relay("--version")
      let long = try await site.relay("--version", "--packages").split(separator: "\n").map {
        $0.split(separator: " ").map(String.init)
      }
      #expect(short.split(separator: "\n").count == 1 && short.hasPrefix("relay "))
      #expect(long.first == short.split(separator: "\n").first?.split(separator: " ").map(String.init))
      for pin in resolved.pins {
        let line = try #require(long.first { $0.first == pin.identity }, "\(pin.identity)")
        #expect(line.count == 3 && line[1] == pin.state.version ?? line[1])
        #expect(line.last.map { pin.state.revision.hasPrefix($0) } == true)
      }
      for library in ["hiredis", "libpq", "OpenSSL", "SQLite", "libsodium", "libxml2"] {
        let line = try #require(long.first { $0.first == library }, "\(library)")
        #expect(line.last?.contains(".") == true && line.last?.first?.isNumber == true)
      }
    }
  }
}
