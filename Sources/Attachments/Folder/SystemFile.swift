import Glibc
import NIOCore

/// Blocking calls of the system on files, each with its failure in words that name no file.
enum SystemFile {
  static func open(_ path: String, _ flags: Int32) throws(BlobFailure) -> Int32 {
    while true {
      // Owner only: whoever else can read the folder's volume learns nothing.
      let descriptor = Glibc.open(path, flags | O_CLOEXEC, 0o600)
      if descriptor >= 0 { return descriptor }
      guard errno == EINTR else { throw failure("open") }
    }
  }

  /// - Returns: nil when there is no such file.
  static func openIfPresent(_ path: String) throws(BlobFailure) -> Int32? {
    while true {
      let descriptor = Glibc.open(path, O_RDONLY | O_CLOEXEC)
      if descriptor >= 0 { return descriptor }
      if errno == ENOENT { return nil }
      guard errno == EINTR else { throw failure("open") }
    }
  }

  static func write(_ bytes: ByteBuffer, to descriptor: Int32) throws(BlobFailure) {
    var rest = bytes
    while rest.readableBytes > 0 {
      let written = rest.withUnsafeReadableBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
      if written > 0 {
        rest.moveReaderIndex(forwardBy: written)
      } else if written == 0 || errno != EINTR {
        throw failure("write")
      }
    }
  }

  /// - Returns: up to `count` bytes from `offset` on; fewer only at the file's end.
  static func read(_ descriptor: Int32, at offset: Int64, count: Int) throws(BlobFailure) -> ByteBuffer {
    var bytes = ByteBufferAllocator().buffer(capacity: count)
    while bytes.readableBytes < count {
      let (position, wanted) = (offset + Int64(bytes.readableBytes), count - bytes.readableBytes)
      var got = 0
      bytes.writeWithUnsafeMutableBytes(minimumWritableBytes: wanted) {
        got = pread(descriptor, $0.baseAddress, wanted, off_t(position))
        return max(0, got)
      }
      if got == 0 { break }
      if got < 0, errno != EINTR { throw failure("read") }
    }
    return bytes
  }

  /// - Returns: nil when there is no such file.
  static func size(of path: String) throws(BlobFailure) -> Int64? {
    var status = stat()
    if lstat(path, &status) == 0 { return Int64(status.st_size) }
    guard errno == ENOENT else { throw failure("lstat") }
    return nil
  }

  static func size(of descriptor: Int32) throws(BlobFailure) -> Int64 {
    var status = stat()
    guard fstat(descriptor, &status) == 0 else { throw failure("fstat") }
    return Int64(status.st_size)
  }

  /// Until the device has it.
  static func sync(_ descriptor: Int32) throws(BlobFailure) {
    while fsync(descriptor) != 0 {
      guard errno == EINTR else { throw failure("fsync") }
    }
  }

  static func syncFolder(_ path: String) throws(BlobFailure) {
    let descriptor = try open(path, O_RDONLY | O_DIRECTORY)
    defer { close(descriptor) }
    try sync(descriptor)
  }

  /// Removes the file if there is one.
  static func remove(_ path: String) throws(BlobFailure) {
    guard unlink(path) == 0 || errno == ENOENT else { throw failure("unlink") }
  }

  /// Gives the file `path` the further name `name`. - Returns: false when something has that name.
  static func link(_ path: String, as name: String) throws(BlobFailure) -> Bool {
    if Glibc.link(path, name) == 0 { return true }
    guard errno == EEXIST else { throw failure("link") }
    return false
  }

  /// Makes a folder for the owner alone unless there is one.
  static func makeFolder(_ path: String) throws(BlobFailure) {
    guard mkdir(path, 0o700) == 0 || errno == EEXIST else { throw failure("mkdir") }
  }

  /// Whether two files hold the same bytes; false when one is missing.
  static func isSame(_ first: String, _ second: String) throws(BlobFailure) -> Bool {
    guard let a = try openIfPresent(first) else { return false }
    defer { close(a) }
    guard let b = try openIfPresent(second) else { return false }
    defer { close(b) }
    guard try size(of: a) == size(of: b) else { return false }
    var offset: Int64 = 0
    while true {
      let piece = try read(a, at: offset, count: 64 << 10)
      guard try read(b, at: offset, count: 64 << 10) == piece else { return false }
      if piece.readableBytes == 0 { return true }
      offset += Int64(piece.readableBytes)
    }
  }

  /// Names of files in `folder` that were last written before `time`, in milliseconds since 1970: at most `limit`, in
  /// no order.
  static func files(in folder: String, before time: Int64, limit: Int) throws(BlobFailure) -> [String] {
    guard let stream = opendir(folder) else { throw failure("opendir") }
    defer { closedir(stream) }
    var names: [String] = []
    while names.count < limit, let entry = readdir(stream) {
      let name = withUnsafePointer(to: &entry.pointee.d_name) {
        $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
      }
      var status = stat()
      // A file that is gone by now was removed by another process.
      guard lstat("\(folder)/\(name)", &status) == 0, status.st_mode & S_IFMT == S_IFREG else { continue }
      if Int64(status.st_mtim.tv_sec) * 1000 < time { names.append(name) }
    }
    return names
  }

  static func failure(_ call: StaticString) -> BlobFailure {
    BlobFailure("\(call): \(String(cString: strerror(errno)))")
  }
}
