import Foundation
import RelayCore
import TestTags
import Testing

/// Refusals.
@Suite(.tags(.unit)) struct ProblemTests {
  @Test func `docs/errors.md mirrors the table in code`() throws {
    let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent()
    let page = try String(contentsOf: root.appending(path: "docs/errors.md"), encoding: .utf8)
    let rows = page.split(separator: "\n").filter { $0.hasPrefix("| ") && $0.contains("`") }
    #expect(rows.count == Problem.Kind.allCases.count)
    for kind in Problem.Kind.allCases {
      let row = "| \(kind.status) | `\(kind.rawValue)` | \(kind.text) |"
      #expect(rows.contains { $0.hasPrefix(row) }, "docs/errors.md lacks: \(row)")
    }
  }

  @Test func `docs/errors.md has the hints that stand behind texts`() throws {
    let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent()
    let page = try String(contentsOf: root.appending(path: "docs/errors.md"), encoding: .utf8)
    for hint in Problem.Hint.allCases {
      #expect(page.replacing("\n> ", with: " ").contains(" \(hint.rawValue)\n"))
      #expect(Problem(.notFound, hint: hint).text == "There is no such resource. \(hint.rawValue)")
    }
    #expect(Problem(.notFound).text == "There is no such resource.")
  }

  @Test func `409 and 410 bodies are whole and read back`() throws {
    let one = try #require(DeviceID(1))
    let two = try #require(DeviceID(2))
    for (devices, isStale) in [
      (Problem.Devices.mismatched(missing: [], extra: [two]), false),
      (.mismatched(missing: [one, two], extra: []), false),
      (.stale([]), true), (.stale([two]), true),
    ] {
      let json = devices.json
      #expect(try Problem.Devices.decode(json.span.bytes, isStale: isStale) == devices)
    }
    #expect(
      String(decoding: Problem.Devices.mismatched(missing: [], extra: []).json, as: UTF8.self)
        == #"{"missingDevices":[],"extraDevices":[]}"#)
  }
}
