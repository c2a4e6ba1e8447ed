import Foundation
import TestTags
import Testing

/// The client library's layout is everybody's: its configuration of swift-format only demands more documentation.
@Suite(.tags(.unit)) struct FormatTests {
  private static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent()

  private static func configuration(in folder: String) throws -> [String: Any] {
    let file = root.appending(path: folder).appending(path: ".swift-format")
    return try #require(try JSONSerialization.jsonObject(with: Data(contentsOf: file)) as? [String: Any])
  }

  @Test func `the client library's configuration adds two rules to the project's`() throws {
    var project = try Self.configuration(in: ".")
    var rules = try #require(project["rules"] as? [String: Bool])
    rules["AllPublicDeclarationsHaveDocumentation"] = true
    rules["ValidateDocumentationComments"] = true
    project["rules"] = rules
    #expect(
      NSDictionary(dictionary: project) == NSDictionary(dictionary: try Self.configuration(in: "Sources/RelayClient")))
  }
}
