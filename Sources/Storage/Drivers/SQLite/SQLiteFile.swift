import Foundation
import RelayCore

/// Keeps a second `relay serve` off the same database: an advisory lock (flock) on a file beside it.
///
/// Commands that only visit the stores do not take it. The kernel releases it when the process ends, however it ends;
/// the file itself stays.
package final class SQLiteLock: Sendable {
  package enum Failure: Error, Sendable, Equatable, CustomStringConvertible {
    /// Another process serves this database; its id where the file tells.
    case held(path: String, process: Int32?)
    case unusable(path: String, reason: String)

    package var description: String {
      switch self {
      case .held(let path, let process?): "process \(process) already serves this database (\(path))"
      case .held(let path, nil): "another process already serves this database (\(path))"
      case .unusable(let path, let reason): "cannot lock \(path): \(reason)"
      }
    }
  }

  private let file: Int32

  /// Takes the lock of the database at `databasePath`, and holds it until this object ends.
  package init(databasePath: String) throws(Failure) {
    let path = databasePath + ".lock"
    let file = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0o600)
    guard file >= 0 else { throw .unusable(path: path, reason: String(cString: strerror(errno))) }
    guard flock(file, LOCK_EX | LOCK_NB) == 0 else {
      let reason = errno
      let holder = Self.holder(in: file)
      close(file)
      guard reason == EWOULDBLOCK else { throw .unusable(path: path, reason: String(cString: strerror(reason))) }
      throw .held(path: path, process: holder)
    }
    let line = Array("\(getpid())\n".utf8)
    // The id only serves the message above: a full disk must not stop the relay here.
    if ftruncate(file, 0) == 0 { _ = pwrite(file, line, line.count, 0) }
    // Last: an object that is whole would close the descriptor a second time when its initialiser fails.
    self.file = file
  }

  deinit { close(file) }

  private static func holder(in file: Int32) -> Int32? {
    var bytes = [UInt8](repeating: 0, count: 16)
    let count = pread(file, &bytes, bytes.count, 0)
    guard count > 0 else { return nil }
    return Int32(String(decoding: bytes.prefix(count).prefix { $0 != 0x0A }, as: UTF8.self))
  }
}

/// The database's file on disk: it holds password hashes and mailboxes, so only its owner may read it.
enum SQLiteFile {
  /// Creates the file (0600) and the folders that lead to it (0700) if they are missing. Existing ones stay as they
  /// are. SQLite gives the log beside it the same permissions.
  static func prepare(_ path: String) throws(StoreError) {
    let folder = URL(fileURLWithPath: path).deletingLastPathComponent().path
    if !FileManager.default.fileExists(atPath: folder) {
      do {
        try FileManager.default.createDirectory(
          atPath: folder, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
      } catch {
        throw .unavailable(reason: "cannot create the folder \(folder)")
      }
    }
    let file = Glibc.open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0o600)
    guard file >= 0 else { throw .unavailable(reason: "cannot open \(path): \(String(cString: strerror(errno)))") }
    Glibc.close(file)
  }
}
