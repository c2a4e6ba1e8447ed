import ChildProcesses
import Crypto
import Foundation
import Glibc
import RelayHTTP
import Storage

/// A backup of a relay on embedded stores: one tar file that its owner alone may read.
///
/// - `manifest.json`: a `BackupManifest`.
/// - `relay.sqlite`: one consistent state of the database.
/// - `attachments/blobs`: what was uploaded. Each file is written once, and never changed.
/// - `federation`: who this relay is to its peers.
struct BackupArchive: Sendable {
  let path: String

  /// - Parameter path: as the operator wrote it. `tar` runs in another folder.
  init(path: String) { self.path = URL(fileURLWithPath: path).standardizedFileURL.path }

  static let (manifest, database, blobs, federation) = (
    "manifest.json", "relay.sqlite", "attachments/blobs", "federation"
  )

  /// Packs `folder`, following the symbolic links that stand in for what is large. The file appears under its name when
  /// it is whole and on the disk.
  func pack(_ folder: String) async throws {
    let part = path + ".part"
    let descriptor = open(part, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else {
      let reason = errno == EEXIST ? "it is there already: remove it" : FaultWords.ofSystem(errno)
      throw CommandFailure("The file \(part) cannot be written: \(reason). Nothing was done.")
    }
    close(descriptor)
    do {
      // Uploads whose time is over may be removed meanwhile; then tar ends with 1.
      try await Self.tar(
        ["--create", "--file", part, "--dereference", "--warning=no-file-removed", "--warning=no-file-changed"]
          + ["-C", folder, Self.manifest, Self.database, "attachments", Self.federation].filter {
            $0 == "-C" || $0 == folder || FileManager.default.fileExists(atPath: "\(folder)/\($0)")
          }, in: folder, mayMiss: true)
      try Self.sync(part)
      guard rename(part, path) == 0 else { throw CommandFailure("\(path): \(FaultWords.ofSystem(errno)).") }
      try Self.sync(URL(fileURLWithPath: path).deletingLastPathComponent().path)
    } catch {
      unlink(part)
      throw error
    }
  }

  /// Unpacks it into `folder`, and compares the database with the manifest.
  /// - Throws: `CommandFailure` for what is no backup, or is damaged.
  func unpack(into folder: String) async throws -> BackupManifest {
    guard FileManager.default.fileExists(atPath: path) else { throw CommandFailure("There is no file \(path).") }
    let listing = folder + "/listing"
    try await Self.tar(["--list", "--verbose", "--file", path], in: folder, output: listing)
    for line in try String(contentsOfFile: listing, encoding: .utf8).split(separator: "\n") {
      // Files and folders alone: a link could lead elsewhere.
      guard line.first == "-" || line.first == "d" else { throw Self.foreign(path) }
    }
    let content = folder + "/content"
    try FileManager.default.createDirectory(
      atPath: content, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
    try await Self.tar(["--extract", "--file", path, "--no-same-owner", "-C", content], in: folder)
    guard let text = FileManager.default.contents(atPath: "\(content)/\(Self.manifest)"),
      let manifest = try? JSONDecoder().decode(BackupManifest.self, from: text)
    else { throw Self.foreign(path) }
    guard try Self.digest(of: "\(content)/\(Self.database)") == manifest.databaseDigest else {
      throw CommandFailure("\(path) is damaged: its database is not the one that was put into it.")
    }
    return manifest
  }

  static func content(in folder: String) -> String { folder + "/content" }

  /// SHA-256 in hexadecimal, read in pieces.
  static func digest(of path: String) throws -> String {
    guard let file = FileHandle(forReadingAtPath: path) else { throw CommandFailure("\(path) cannot be read.") }
    defer { try? file.close() }  // It was only read.
    var hash = SHA256()
    while let piece = try file.read(upToCount: 1 << 20), !piece.isEmpty { hash.update(data: piece) }
    return hash.finalize().map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
  }

  static func sync(_ path: String) throws {
    let descriptor = open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { throw CommandFailure("\(path): \(FaultWords.ofSystem(errno)).") }
    defer { close(descriptor) }
    guard fsync(descriptor) == 0 else { throw CommandFailure("\(path): \(FaultWords.ofSystem(errno)).") }
  }

  private static func foreign(_ path: String) -> CommandFailure {
    CommandFailure("\(path) is no backup of `relay backup`.")
  }

  /// - Parameter mayMiss: whether files may vanish while they are packed.
  private static func tar(
    _ arguments: [String], in folder: String, output: String? = nil, mayMiss: Bool = false
  ) async throws {
    let errors = folder + "/tar-errors"
    let child = try await ChildProcess.start(
      ChildProcess.Launch(
        // A colon in a name does not make it another host's.
        command: ["tar", "--force-local"] + arguments,
        environment: ["PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C", "TAR_OPTIONS": ""],
        standardOutput: output ?? "/dev/null", standardError: errors))
    let exit = await child.ended()
    let words = (try? String(contentsOfFile: errors, encoding: .utf8)) ?? ""
    unlink(errors)
    guard exit == .code(0) || (mayMiss && exit == .code(1)) else {
      // The lines behind the first say only that tar gave up.
      let reason = words.split(separator: "\n").first.map(String.init)
      throw CommandFailure(reason ?? (isFull(folder) ? full(folder) : "tar: \(exit)"))
    }
  }

  /// A full disk has no room for what tar says of it either.
  private static func isFull(_ folder: String) -> Bool {
    let facts = try? FileManager.default.attributesOfFileSystem(forPath: folder)
    return (facts?[.systemFreeSize] as? Int).map { $0 < 1 << 20 } ?? false
  }
  private static func full(_ folder: String) -> String {
    let place = URL(fileURLWithPath: folder).deletingLastPathComponent().path
    return "No space is left in \(place). Nothing was changed: make room, or choose another disk."
  }
}

/// A backup's description of itself.
struct BackupManifest: Codable, Sendable {
  /// The relay's name.
  let relay: String
  /// The version of the relay that wrote it.
  let version: String
  let made: String
  /// The last step of the schema.
  let schema: Int
  let epoch: Int64
  /// Whether secrets in it are encrypted under `storage.encryption-key`, which is no part of it.
  let needsEncryptionKey: Bool
  let counts: StoreCounts
  /// SHA-256 of the database, in hexadecimal.
  let databaseDigest: String
}
