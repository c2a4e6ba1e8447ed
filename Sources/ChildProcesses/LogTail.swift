package import Foundation

/// The end of what a child wrote, for whoever looks for the reason of its failure.
package enum LogTail {
  /// - Returns: the last lines of the file's last 64 KiB.
  package static func lines(_ count: Int, of file: URL) throws -> [Substring] {
    let handle = try FileHandle(forReadingFrom: file)
    defer { try? handle.close() }  // It was only read.
    let end = try handle.seekToEnd()
    try handle.seek(toOffset: end - min(end, 64 << 10))
    let text = String(decoding: try handle.readToEnd() ?? Data(), as: UTF8.self)
    return text.split(separator: "\n").suffix(count)
  }
}
