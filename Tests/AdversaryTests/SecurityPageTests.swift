import Foundation
import TestTags
import Testing

/// docs/security.md names a test for each promise. A test that was renamed or removed would leave an empty word there.
@Suite(.tags(.computing)) struct SecurityPageTests {
  @Test func `the security page names only tests that exist`() throws {
    let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent()
    let page = try String(contentsOf: root.appending(path: "docs/security.md"), encoding: .utf8)
    let named = page.matches(of: /`([A-Z][A-Za-z0-9]+Tests)(?:\.([A-Za-z0-9][^`]+))?`/)
    #expect(named.count > 50)
    let sources = try Self.sources(below: root.appending(path: "Tests"))
    for name in named {
      let suite = String(name.1)
      let files = sources.filter { $0.contains("struct \(suite)") || $0.contains("class \(suite)") }
      #expect(!files.isEmpty, "there is no suite \(suite)")
      if let words = name.2 {
        // A name may be broken over two lines of the page.
        let test = words.split(whereSeparator: \.isWhitespace).joined(separator: " ")
        // A suite's tests may stand in extensions, in other files.
        #expect(
          sources.contains { $0.contains(suite) && $0.contains("func `\(test)`") },
          "\(suite) has no test \(test)")
      }
    }
  }

  private static func sources(below folder: URL) throws -> [String] {
    let files = FileManager.default.enumerator(at: folder, includingPropertiesForKeys: nil)
    return try (files?.allObjects ?? []).compactMap { $0 as? URL }.filter { $0.pathExtension == "swift" }
      .map { try String(contentsOf: $0, encoding: .utf8) }
  }
}
