import Foundation
import Glibc
import RelayHTTP

/// A new file that nobody but its owner may read: it names a number.
struct PrivateFile {
  let path: String
  private let handle: FileHandle

  /// Made before anything is done, so that nothing is done without it.
  /// - Throws: `CommandFailure` where it cannot be made, or is there already.
  init(_ path: String) throws {
    let descriptor = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else {
      let reason = errno == EEXIST ? "it is there already" : FaultWords.ofSystem(errno)
      throw CommandFailure("The file \(path) cannot be written: \(reason). Nothing was done.")
    }
    self.path = path
    handle = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
  }

  /// Writes `value` as JSON, durable on return.
  func write(_ value: some Encodable) throws {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
    try handle.write(contentsOf: try encoder.encode(value) + [0x0A])
    try handle.synchronize()
  }

  /// Nothing came of it.
  func remove() { unlink(path) }
}
