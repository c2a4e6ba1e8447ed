import Foundation
import TestTags
import Testing

/// Every suite says by one tag what it needs (Tests/TestTags): scripts/test-groups.py finds its group by that.
@Suite(.tags(.unit)) struct TestSuiteTests {
  private static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()

  /// A type of a test file, or an extension of one.
  struct Part {
    let name: String
    let isSuite: Bool
    /// The tags of groups alone.
    let tags: [String]
    let tests: Int
  }

  /// The types and extensions of a file, from the top of it.
  static func parts(of text: String) -> [Part] {
    // Attributes of a type may take several lines; what they say of groups stands in them.
    let types =
      #/
      ^ (?<attributes> (?: @Suite\b (?: \(.*?\) )? \s+ )? )
      (?: (?: private | package | final ) \s+ )*
      (?: struct | class | actor | enum | extension ) \s+ (?<name> \w+ )
      /#.anchorsMatchLineEndings().dotMatchesNewlines()
    let matches = text.matches(of: types)
    return matches.indices.map { index in
      let match = matches[index]
      let end = index + 1 < matches.count ? matches[index + 1].range.lowerBound : text.endIndex
      let traits = match.output.attributes
      let tags = traits.matches(of: /\.tags\((?<tags>[^)]*)\)/).flatMap { found in
        found.output.tags.matches(of: /\.(?<tag>unit|computing|stores|processes|time)\b/).map { String($0.output.tag) }
      }
      return Part(
        name: String(match.output.name), isSuite: traits.hasPrefix("@Suite"), tags: tags,
        tests: text[match.range.upperBound..<end].matches(of: /\n  @Test\b/).count)
    }
  }

  /// By their targets, the parts of all files.
  private static func all() throws -> [String: [Part]] {
    var found: [String: [Part]] = [:]
    for path in try FileManager.default.subpathsOfDirectory(atPath: root.path) where path.hasSuffix(".swift") {
      let target = String(path.prefix { $0 != "/" })
      found[target, default: []] += parts(of: try String(contentsOf: root.appending(path: path), encoding: .utf8))
    }
    return found
  }

  @Test func `every suite has one tag of a group`() throws {
    let suites = try Self.all().values.flatMap { $0.filter(\.isSuite) }
    #expect(suites.count > 400)
    #expect(suites.filter { $0.tags.count != 1 }.map(\.name) == [])
  }

  @Test func `every type with tests is a suite`() throws {
    for (target, parts) in try Self.all() {
      let suites = Set(parts.filter(\.isSuite).map(\.name))
      let others = parts.filter { $0.tests > 0 && !suites.contains($0.name) }
      #expect(others.map(\.name) == [], "\(target)")
    }
  }

  @Test func `a suite without a tag, or with two, is found`() {
    let text = """
      @Suite struct NoneTests {
        @Test func one() {}
      }
      @Suite(.tags(.unit, .time), .serialized) struct TwoTests {
        @Test func one() {}
        @Test func two() {}
      }
      @Suite(
        .serialized, .tags(.stores),
        .enabled(if: Machine.isLarge(atLeast: 2), "it is small"))
      struct GoodTests {}
      extension GoodTests {
        @Test func one() {}
      }
      """
    let parts = Self.parts(of: text)
    #expect(parts.map(\.name) == ["NoneTests", "TwoTests", "GoodTests", "GoodTests"])
    #expect(parts.map(\.tags) == [[], ["unit", "time"], ["stores"], []])
    #expect(parts.map(\.isSuite) == [true, true, true, false])
    #expect(parts.map(\.tests) == [1, 2, 0, 1])
  }
}
