import Glibc

/// The kind of an open file, and the users that may have written it.
package struct FileFacts: Sendable, Equatable {
  package let byteCount: Int
  /// Whether it is a file that this process's user alone may write.
  package let isOwn: Bool
  /// How long ago it was written, by the clock of its host; nil if that is ahead of it, or cannot be told.
  package let age: Duration?

  /// - Returns: nil when `descriptor` cannot be looked at.
  package init?(_ descriptor: Int32) {
    var status = stat()
    guard fstat(descriptor, &status) == 0 else { return nil }
    byteCount = Int(status.st_size)
    isOwn = status.st_mode & S_IFMT == S_IFREG && status.st_uid == geteuid() && status.st_mode & 0o022 == 0
    var now = timespec()
    let age = clock_gettime(CLOCK_REALTIME, &now) == 0 ? Duration(now) - Duration(status.st_mtim) : .seconds(-1)
    self.age = age < .zero ? nil : age
  }
}

/// A stamp that tells one state of a file from the next without reading it.
package struct FileStamp: Sendable, Equatable {
  private let inode: UInt64
  private let size: Int64
  private let seconds: Int
  private let nanoseconds: Int

  /// - Returns: nil when there is no such file, or it cannot be looked at.
  package init?(_ path: String) {
    var status = stat()
    guard stat(path, &status) == 0 else { return nil }
    inode = UInt64(status.st_ino)
    size = Int64(status.st_size)
    seconds = status.st_mtim.tv_sec
    nanoseconds = status.st_mtim.tv_nsec
  }
}

extension Duration {
  fileprivate init(_ time: timespec) {
    self = .seconds(Int64(time.tv_sec)) + .nanoseconds(Int64(time.tv_nsec))
  }
}
