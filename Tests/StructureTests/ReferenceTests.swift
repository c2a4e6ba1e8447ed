import Foundation
import RegexBuilder
import TestTags
import Testing

/// Comments and documents cite sections of docs/reference: each is there.
@Suite(.tags(.unit)) struct ReferenceTests {
  private static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent()

  private struct Citation: CustomStringConvertible {
    let file: String
    let line: Int
    let reference: String
    let section: String
    var description: String { "\(file):\(line) cites \(reference) \(section)" }
  }

  @Test func `every section that is cited is there`() throws {
    let heading = #/^#+ (?:Part )?([0-9]+(?:\.[0-9]+)*)\.? /#
    var sections: [String: Set<String>] = [:]
    for name in ["textsecure-api", "push-gateway", "device-notifications"] {
      let text = try String(contentsOf: Self.root.appending(path: "docs/reference/\(name).md"), encoding: .utf8)
      sections[name] = Set(text.matches(of: heading.anchorsMatchLineEndings()).map { String($0.output.1) })
      #expect((sections[name]?.count ?? 0) > 15, "\(name)")
    }
    let citations = try Self.citations()
    #expect(citations.count > 250)
    #expect(Set(citations.map(\.reference)).count > 1)
    for citation in citations {
      #expect(sections[citation.reference]?.contains(citation.section) == true, "\(citation)")
    }
  }

  private static func citations() throws -> [Citation] {
    var found: [Citation] = []
    for folder in ["Sources", "Tools", "Tests", "docs"] {
      for path in try FileManager.default.subpathsOfDirectory(atPath: root.appending(path: folder).path)
      where path.hasSuffix(".swift") || path.hasSuffix(".md") {
        let file = "\(folder)/\(path)"
        guard !file.hasPrefix("docs/reference/") else { continue }
        let text = try String(contentsOf: root.appending(path: file), encoding: .utf8)
        guard text.contains("eference") else { continue }
        for (index, line) in text.split(separator: "\n", omittingEmptySubsequences: false).enumerated()
        where line.contains("eference") {
          found += citations(in: String(line), file, index + 1)
        }
      }
    }
    return found
  }

  /// Such as `reference 1.6, 1.7`, `reference Part 6, 10` and `push gateway reference, 5.5`: further sections of one
  /// citation have a dot.
  private static func citations(in line: String, _ file: String, _ number: Int) -> [Citation] {
    let which = #/(push gateway |device notifications )?reference,? (?:Part )?/#
    let sections = #/([0-9]+(?:\.[0-9]+)*)((?:(?:, | and | to )[0-9]+\.[0-9]+(?:\.[0-9]+)*)*)/#
    let pattern = Regex {
      which
      sections
    }
    .ignoresCase()
    return line.matches(of: pattern).flatMap { match in
      let reference = reference(named: match.output.1.map { $0.lowercased() }, in: file)
      let more = match.output.3.matches(of: /[0-9]+(?:\.[0-9]+)+/).map { String($0.output) }
      return ([String(match.output.2)] + more).map {
        Citation(file: file, line: number, reference: reference, section: $0)
      }
    }
  }

  /// A citation without a name in a file of a push service is of that service's reference.
  private static func reference(named name: String?, in file: String) -> String {
    switch name {
    case "push gateway ": "push-gateway"
    case "device notifications ": "device-notifications"
    default:
      if file.contains("/PushGateway") {
        "push-gateway"
      } else if file.contains("/DeviceNotifications") || file.contains("/Notifications/") {
        "device-notifications"
      } else {
        "textsecure-api"
      }
    }
  }
}
