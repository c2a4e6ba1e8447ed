import Glibc

/// Files of a folder that only their owner may read: written whole or not at all.
enum SecretFile {
  enum Failure: Error {
    /// The operation and `errno`'s text.
    case system(StaticString, String)
    case tooLarge
    /// Another command is at work in the folder.
    case locked

    var text: String {
      switch self {
      case .locked: "another command has been at work there for a while"
      case .system(let operation, let reason): "\(operation): \(reason)"
      case .tooLarge: "larger than any certificate or key"
      }
    }
  }

  /// A chain of certificates or a key is a few kilobytes.
  static let bytesMax = 256 << 10

  /// Makes the folder and what is missing above it; the last one is closed to everyone else (0700).
  static func makeFolder(_ path: String) throws(Failure) {
    var partial = path.hasPrefix("/") ? "/" : ""
    for component in path.split(separator: "/") {
      partial += (partial.isEmpty || partial.hasSuffix("/") ? "" : "/") + component
      if mkdir(partial, 0o755) != 0, errno != EEXIST { throw .last("mkdir") }
    }
    guard chmod(path, 0o700) == 0 else { throw .last("chmod") }
  }

  /// Puts `text` in the place of the file at `path`: a reader sees the old or the new one, also after a crash.
  static func write(_ text: String, to path: String, mode: mode_t) throws(Failure) {
    let temporary = "\(path).\(getpid()).\(UInt32.random(in: 0 ... .max))\(temporarySuffix)"
    let descriptor = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode)
    guard descriptor >= 0 else { throw .last("open") }
    do throws(Failure) {
      // The process's umask may have taken bits away, or an owner's ACL added some.
      guard fchmod(descriptor, mode) == 0 else { throw .last("fchmod") }
      try writeAll(Array(text.utf8), to: descriptor)
      guard fsync(descriptor) == 0 else { throw .last("fsync") }
      guard rename(temporary, path) == 0 else { throw .last("rename") }
    } catch {
      close(descriptor)
      unlink(temporary)
      throw error
    }
    close(descriptor)
    try syncFolder(of: path)
  }

  /// - Returns: nil when there is no such file.
  static func read(_ path: String) throws(Failure) -> String? {
    let descriptor = open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else {
      if errno == ENOENT { return nil }
      throw .last("open")
    }
    defer { close(descriptor) }
    var bytes: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 16 << 10)
    while true {
      let count = Glibc.read(descriptor, &buffer, buffer.count)
      if count == 0 { return String(decoding: bytes, as: UTF8.self) }
      if count < 0 {
        if errno == EINTR { continue }
        throw .last("read")
      }
      guard bytes.count + count <= bytesMax else { throw .tooLarge }
      bytes.append(contentsOf: buffer[..<count])
    }
  }

  /// Gives the file at `path` another name, in the place of what stands there.
  static func move(_ path: String, to other: String) throws(Failure) {
    guard rename(path, other) == 0 else { throw .last("rename") }
    try syncFolder(of: other)
  }

  /// Does nothing when there is no such file.
  static func remove(_ path: String) throws(Failure) {
    guard unlink(path) == 0 || errno == ENOENT else { throw .last("unlink") }
    try syncFolder(of: path)
  }

  private static let temporarySuffix = ".new"

  /// Removes what writers left that were killed. Only while nobody writes there.
  static func removeLeftovers(in folder: String) throws(Failure) {
    guard let stream = opendir(folder) else { throw .last("opendir") }
    defer { closedir(stream) }
    while let entry = readdir(stream) {
      // The name is as long as its zero says, and the entry lives until the next call.
      let name = withUnsafePointer(to: &entry.pointee.d_name) {
        $0.withMemoryRebound(to: CChar.self, capacity: Int(NAME_MAX) + 1) { String(cString: $0) }
      }
      guard name.hasSuffix(temporarySuffix) else { continue }
      guard unlink("\(folder)/\(name)") == 0 || errno == ENOENT else { throw .last("unlink") }
    }
  }

  /// Runs `body` while no other process does the same for `folder`. Waits for one that does, for 5 s at most.
  static func withLock<Value, Fault: Error>(
    _ folder: String, _ body: () throws(Fault) -> Value
  ) throws(Failure) -> Result<Value, Fault> {
    let descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard descriptor >= 0 else { throw .last("open") }
    // Closing gives the lock up, and so does the end of the process, however it comes.
    defer { close(descriptor) }
    var tries = 0
    while flock(descriptor, LOCK_EX | LOCK_NB) != 0 {
      guard errno == EWOULDBLOCK || errno == EINTR else { throw .last("flock") }
      tries += 1
      guard tries <= 100 else { throw .locked }
      usleep(50_000)
    }
    try removeLeftovers(in: folder)
    do throws(Fault) {
      return .success(try body())
    } catch {
      return .failure(error)
    }
  }

  static func exists(_ path: String) -> Bool { access(path, F_OK) == 0 }

  private static func writeAll(_ bytes: [UInt8], to descriptor: Int32) throws(Failure) {
    var written = 0
    while written < bytes.count {
      let count = bytes.withUnsafeBytes { buffer -> Int in
        guard let base = buffer.baseAddress else { return 0 }
        return Glibc.write(descriptor, base + written, buffer.count - written)
      }
      if count < 0, errno != EINTR { throw .last("write") }
      written += max(0, count)
    }
  }

  /// Makes a rename survive a power cut.
  private static func syncFolder(of path: String) throws(Failure) {
    let end = path.lastIndex(of: "/") ?? path.startIndex
    let folder = end == path.startIndex ? (path.hasPrefix("/") ? "/" : ".") : String(path[..<end])
    let descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard descriptor >= 0 else { throw .last("open") }
    defer { close(descriptor) }
    guard fsync(descriptor) == 0 else { throw .last("fsync") }
  }
}

extension SecretFile.Failure {
  fileprivate static func last(_ operation: StaticString) -> Self {
    .system(operation, String(cString: strerror(errno)))
  }
}
