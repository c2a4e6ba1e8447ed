import Foundation
import RelayCore

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
