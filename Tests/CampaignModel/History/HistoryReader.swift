import Foundation

/// Reads a history line by line: never more than one piece of the file is in memory.
package struct HistoryReader {
  /// A line that is no event.
  package struct Malformed: Error, CustomStringConvertible {
    package let line: Int
    package let reason: String
    package var description: String { "line \(line) of the history is no event: \(reason)" }
  }

  private let path: String
  private static let pieceBytes = 1 << 20
  /// An upload of a hundred keys takes some 3 KiB.
  private static let lineBytesMax = 1 << 20

  package init(path: String) { self.path = path }

  /// Calls `body` with each event, in the file's order.
  package func forEach(_ body: (Event) throws -> Void) throws {
    let file = try FileHandle(forReadingFrom: URL(filePath: path))
    defer { try? file.close() }  // It was only read.
    let decoder = JSONDecoder()
    var rest = Data()
    var number = 0
    while let piece = try file.read(upToCount: Self.pieceBytes), !piece.isEmpty {
      rest.append(piece)
      var begin = rest.startIndex
      while let end = rest[begin...].firstIndex(of: UInt8(ascii: "\n")) {
        number += 1
        do {
          try body(try decoder.decode(Event.self, from: rest[begin..<end]))
        } catch let error as DecodingError {
          throw Malformed(line: number, reason: "\(error)")
        }
        begin = rest.index(after: end)
      }
      rest = Data(rest[begin...])
      guard rest.count <= Self.lineBytesMax else { throw Malformed(line: number + 1, reason: "it is too long") }
    }
    guard rest.isEmpty else { throw Malformed(line: number + 1, reason: "the file ends within it") }
  }
}
