import FoundationEssentials
package import RelayCore

/// A line of a log of `log.format: json`.
package struct LogLine: Codable, Sendable, Equatable {
  package let time: String
  package let level: String
  package let logger: String
  package let message: String
  package let metadata: [String: String]

  /// - Parameter line: with anything before it that a collector of logs wrote there.
  /// - Returns: nil for what is no such line.
  package init?(_ line: some Collection<UInt8>) {
    guard let start = line.firstIndex(of: UInt8(ascii: "{")) else { return nil }
    do {
      self = try JSONDecoder().decode(LogLine.self, from: Data(line[start...]))
    } catch {
      // Lines of other programs stand in the same file.
      return nil
    }
  }

  /// Whether it tells of `id`: of a request to this relay, or of one that this relay made of a peer.
  package func isAbout(_ id: RequestID) -> Bool {
    metadata["request"] == id.description || metadata["made"] == id.description
  }

  /// Which of the answers of docs/errors.md it tells of.
  package var problem: Problem.Kind? { metadata["problem"].flatMap(Problem.Kind.init) }
}
