package import Foundation
package import RelayCore

/// Finds the lines about one request in logs of any size: it holds one piece of a file at a time, and what it found.
package struct LogSearch {
  package struct Finding: Sendable, Equatable {
    /// The name of the file, as it was given.
    package let source: String
    package let line: LogLine
  }

  /// The lines about the request, in the order of the files.
  package private(set) var findings: [Finding] = []
  package private(set) var linesRead = 0
  /// Whether one of the first lines was of `log.format: json`.
  package private(set) var isJSON = false
  private let id: RequestID
  private let needle: [UInt8]
  private var rest = Data()
  private var isTooLong = false

  package init(for id: RequestID) {
    self.id = id
    needle = Array(id.description.utf8)
  }

  /// - Parameter source: what the findings are said to come from.
  /// - Throws: what reading throws.
  package mutating func read(_ file: FileHandle, as source: String) throws {
    rest = Data()
    isTooLong = false
    while let piece = try file.read(upToCount: Self.pieceBytes), !piece.isEmpty { received(piece, from: source) }
    end(rest, of: source)
  }

  private mutating func received(_ piece: Data, from source: String) {
    var begin = piece.startIndex
    while let newline = piece[begin...].firstIndex(of: 0x0A) {
      append(piece[begin..<newline])
      end(rest, of: source)
      rest = Data()
      isTooLong = false
      begin = newline + 1
    }
    append(piece[begin...])
  }

  private mutating func append(_ part: Data) {
    isTooLong = isTooLong || rest.count + part.count > Self.lineBytesMax
    if isTooLong { rest = Data() } else { rest.append(part) }
  }

  private mutating func end(_ line: Data, of source: String) {
    guard !line.isEmpty || isTooLong else { return }
    linesRead += 1
    if !isJSON, linesRead <= Self.linesTried { isJSON = LogLine(line) != nil }
    guard findings.count < Self.findingsMax, line.range(of: Data(needle)) != nil, let read = LogLine(line),
      read.isAbout(id)
    else { return }
    findings.append(Finding(source: source, line: read))
  }

  private static let pieceBytes = 1 << 20
  /// The relay's own have a few hundred bytes.
  private static let lineBytesMax = 64 << 10
  /// One request has a few.
  private static let findingsMax = 10_000
  private static let linesTried = 1000
}
