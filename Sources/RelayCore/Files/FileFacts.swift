import Glibc

/// The kind of an open file, and the users that may have written it.
package struct FileFacts: Sendable, Equatable {
  package let byteCount: Int
  /// Whether it is a file that this process's user alone may write.
  package let isOwn: Bool

  /// - Returns: nil when `descriptor` cannot be looked at.
  package init?(_ descriptor: Int32) {
    var status = stat()
    guard fstat(descriptor, &status) == 0 else { return nil }
    byteCount = Int(status.st_size)
    isOwn = status.st_mode & S_IFMT == S_IFREG && status.st_uid == geteuid() && status.st_mode & 0o022 == 0
  }
}
