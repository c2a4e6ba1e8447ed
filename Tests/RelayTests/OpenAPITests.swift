import Foundation
import RelayCore
import TestSupport
import TestTags
import Testing

/// docs/openapi.yaml, the router and the table of refusals say the same.
@Suite(.tags(.processes), .ownRelay) struct OpenAPITests {
  @Test func `every route is documented with its methods, and nothing else is`() async throws {
    let suite = try suiteRelay()
    let caller = try await suite.relay.register()
    let served = try await suite.site.relay("routes").split(separator: "\n").map(String.init)
    #expect(served.count > 20)
    let documented = Dictionary(grouping: try OpenAPIDocument().operations, by: \.route).mapValues {
      Set($0.map(\.method))
    }
    #expect(Set(served.map(OpenAPIDocument.route)) == Set(documented.keys))
    for path in served {
      // The answer to a method that no resource knows names those that this one knows.
      let filled = OpenAPIDocument.route(path).replacing("{}", with: "1")
      let answer = try await suite.relay.send("PATCH", filled, as: caller)
      #expect(answer.status == 405, "\(path)")
      let allowed = (answer.headers["allow"] ?? "").split(separator: ", ").map(String.init)
      #expect(Set(allowed) == documented[OpenAPIDocument.route(path)], "\(path)")
    }
  }

  @Test func `every operation has a name of its own`() throws {
    let names = try OpenAPIDocument().lines.compactMap { $0.wholeMatch(of: #/ +operationId: (\w+)/#)?.1 }
    #expect(try names.count == OpenAPIDocument().operations.count)
    #expect(Set(names).count == names.count)
  }

  @Test func `refusals are documented at their own status, and all that clients see are`() throws {
    var documented: Set<String> = []
    var status = 0
    for line in try OpenAPIDocument().lines {
      if let match = line.firstMatch(of: /^ +"(\d{3})":/), let number = Int(match.1) { status = number }
      // It is not known where components are used.
      if line == "components:" { status = 0 }
      guard status == 0 || status >= 400, let text = line.firstMatch(of: /description: "(.*)"/)?.1 else { continue }
      for code in text.matches(of: /`([a-z-]+)`/) {
        guard let kind = Problem.Kind(rawValue: String(code.1)) else { continue }
        documented.insert(kind.rawValue)
        #expect(status == 0 || kind.status == status, "\(line)")
      }
    }
    let ofPeers: Set<Problem.Kind> = [
      .peerRefused, .scopeRefused, .sourceRefused, .budgetExceeded, .undecodableMessage, .invitationRefused, .nameTaken,
      .urlFixed, .addressRefused, .peerShareFull,
    ]
    let expected = Problem.Kind.allCases.filter { !ofPeers.contains($0) && $0 != .internalError }
    #expect(documented == Set(expected.map(\.rawValue)))
  }
}

/// The parts of docs/openapi.yaml that the tests need. It keeps to two spaces a level.
struct OpenAPIDocument {
  struct Operation {
    let method: String
    /// With `{}` for every parameter.
    let route: String
  }

  let lines: [String]
  let operations: [Operation]

  init() throws {
    let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent()
    lines = try String(contentsOf: root.appending(path: "docs/openapi.yaml"), encoding: .utf8)
      .components(separatedBy: "\n")
    var operations: [Operation] = []
    var path: String?
    for line in lines {
      if let match = line.wholeMatch(of: #/  (/\S*):/#) {
        path = String(match.1)
      } else if !line.hasPrefix("  ") && !line.isEmpty {
        path = nil
      } else if let path, let match = line.wholeMatch(of: #/    (get|put|post|delete):/#) {
        operations.append(Operation(method: match.1.uppercased(), route: Self.route(path)))
      }
    }
    self.operations = operations
  }

  /// A path's shape, whatever its parameters are called: `/v1/keys/{}`.
  static func route(_ path: String) -> String {
    path.split(separator: "/").map { segment in
      let isParameter = segment.hasPrefix("{") || segment.hasPrefix(":") || segment.hasPrefix("*")
      return "/" + (isParameter ? "{}" : segment)
    }.joined()
  }
}
