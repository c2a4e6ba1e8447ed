#if canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#else
  import Darwin
#endif

/// Reads small text files whole.
enum BoundedFile {
  /// Why a file could not be read, for people. Never holds content.
  struct Failure: Error {
    let reason: String
  }

  /// Pipes are read to their end too, so that `--config <(...)` works.
  static func read(_ path: String, bytesMax: Int) throws(Failure) -> [UInt8] {
    guard let stream = fopen(path, "r") else { throw Failure(reason: String(cString: strerror(errno))) }
    defer { fclose(stream) }
    var bytes: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 16 << 10)
    while true {
      let count = fread(&buffer, 1, buffer.count, stream)
      bytes.append(contentsOf: buffer[..<count])
      guard bytes.count <= bytesMax else { throw Failure(reason: "larger than \(bytesMax) bytes") }
      if count < buffer.count {
        guard ferror(stream) == 0 else { throw Failure(reason: String(cString: strerror(errno))) }
        return bytes
      }
    }
  }
}
