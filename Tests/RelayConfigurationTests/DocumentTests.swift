import Foundation
import RelayConfiguration
import Testing

/// docs/configuration.md and the table of keys say the same.
struct DocumentTests {
  @Test("every key is documented with its type and default, and nothing else is")
  func tableAgrees() throws {
    let documented = try Self.rows()
    let keys = ConfigurationKey.all.map { Row(key: $0.name, type: $0.type, default: $0.defaultText ?? "none") }
    for key in keys where !documented.contains(key) { Issue.record("docs/configuration.md lacks: \(key)") }
    for row in documented where !keys.contains(row) { Issue.record("docs/configuration.md has, the code not: \(row)") }
    #expect(documented.count == keys.count)
  }

  @Test("the document says of every secret that it may come from a file, and of no other key")
  func secrets() throws {
    for line in try Self.lines() {
      guard let row = Self.row(line), let key = ConfigurationKey.all.first(where: { $0.name == row.key }) else {
        continue
      }
      #expect(line.contains("(secret)") == key.mayComeFromFile, "\(key.name)")
    }
  }

  @Test("the worked examples are configurations without faults")
  func examples() throws {
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

  struct Row: Equatable {
    let key: String
    let type: String
    let `default`: String
  }

  private static func lines() throws -> [String] {
    let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent()
    return try String(contentsOf: root.appendingPathComponent("docs/configuration.md"), encoding: .utf8)
      .components(separatedBy: "\n")
  }

  private static func rows() throws -> [Row] { try lines().compactMap(row) }

  /// `| \`key\` | type | \`default\` | meaning |`.
  private static func row(_ line: String) -> Row? {
    let cells = line.components(separatedBy: " | ").map { $0.trimmingCharacters(in: CharacterSet(charactersIn: "| ")) }
    guard line.hasPrefix("| `"), cells.count == 4 else { return nil }
    let plain = cells.map { $0.replacingOccurrences(of: "`", with: "") }
    return Row(key: plain[0], type: plain[1], default: plain[2])
  }
}
