import Glibc

/// Why a file was not written, or cannot be used.
enum SnapshotFailure: Error, Equatable, CustomStringConvertible {
  /// There is none: the first start.
  case missing
  /// Its contents are not as they were written, or this build does not write such a file.
  case unusable(String)
  /// Another process is writing it.
  case busy
  /// Peers came or went meanwhile: what was written does not belong to its place.
  case overtaken
  /// The operation and `errno`'s text.
  case system(String, String)
  /// There is not the memory for its table, in bytes.
  case memory(Int)

  var description: String {
    switch self {
    case .missing: "there is none"
    case .unusable(let reason): reason
    case .busy: "another process is writing it"
    case .overtaken: "peers came or went while it was written"
    case .system(let operation, let reason): "\(operation): \(reason)"
    case .memory(let bytes): "no memory for a table of \(bytes) bytes"
    }
  }

  /// The failure of the call that has just failed.
  static func last(_ operation: String) -> Self { .system(operation, String(cString: strerror(errno))) }
}
