import Foundation
import RelayConfiguration
import RelayCore
import TestTags
import Testing

/// The tables of docs/configuration.md say what the keys say. A row that is missing there is told as it must stand
/// there.
@Suite(.tags(.unit)) struct DocumentTests {
  @Test func `every key has its row, and nothing else has one`() throws {
    let documented = try Self.lines().filter { $0.hasPrefix("| `") && $0.components(separatedBy: " | ").count == 4 }
    let expected = Self.rows
    for row in expected where !documented.contains(row) { Issue.record("docs/configuration.md lacks:\n\(row)") }
    for row in documented where !expected.contains(row) {
      Issue.record("docs/configuration.md has no key for:\n\(row)")
    }
    #expect(documented.count == expected.count)
  }

  @Test func `the worked examples are configurations without faults`() throws {
    let text = try Self.lines().joined(separator: "\n")
    let blocks = text.split(separator: "```yaml\n").dropFirst().compactMap { $0.split(separator: "```").first }
    #expect(blocks.count >= 2)
    for block in blocks {
      // Secrets of the examples are files of the reader's machine.
      let secret = try TemporaryFile("postgres://relay:example@db/relay")
      let cache = try TemporaryFile("redis://:example@cache")
      let key = try TemporaryFile(Sample.encryptionKey)
      let yaml = block.replacing("/run/secrets/relay-storage-url", with: secret.path)
        .replacing("/run/secrets/relay-coordination-url", with: cache.path)
        .replacing("/run/secrets/relay-encryption-key", with: key.path)
        .replacing("/run/secrets/relay-webhook-secret", with: secret.path)
        .replacing("/run/secrets/relay-s3-secret-key", with: secret.path)
      let file = try TemporaryFile(String(yaml))
      #expect(throws: Never.self) { try RelayConfiguration.load(file: file.path, environment: [:]) }
    }
  }

  /// One for each limiter, which has two keys of one meaning, and one for each other key.
  private static var rows: [String] {
    let keys = Dictionary(uniqueKeysWithValues: ConfigurationKey.all.map { ($0.name, $0) })
    let limiters = LimiterName.allCases.compactMap { limiter -> String? in
      let section = "limits.\(limiter.rawValue)"
      guard let size = keys["\(section).size"], let perMinute = keys["\(section).per-minute"] else { return nil }
      return "| `\(section)` | \(shown(size.default)) | \(shown(perMinute.default)) | \(size.meaning) |"
    }
    return limiters + ConfigurationKey.all.filter { !$0.name.hasPrefix("limits.") }.map(row)
  }

  private static func row(_ key: ConfigurationKey) -> String {
    let marks = (key.mayComeFromFile ? " (secret)" : "") + (isLive(key) ? " (live)" : "")
    let type = ([key.type] + [key.bounds].compactMap(\.self)).joined(separator: ", ")
    return "| `\(key.name)`\(marks) | \(type) | \(shown(key.default)) | \(key.meaning) |"
  }

  private static func isLive(_ key: ConfigurationKey) -> Bool {
    if case .onReload = key.taking { true } else { false }
  }

  private static func shown(_ value: ConfigurationKey.Default) -> String {
    switch value {
    case .value(let text): "`\(text)`"
    case .words(let text): text ?? "none"
    }
  }

  private static func lines() throws -> [String] {
    let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent()
    return try String(contentsOf: root.appendingPathComponent("docs/configuration.md"), encoding: .utf8)
      .components(separatedBy: "\n")
  }
}
