import ArgumentParser
import Foundation
import Glibc
import RelayConfiguration
import RelayCore
import RelayHTTP
import Storage

struct RestoreCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "restore", abstract: "Put the stores back as a backup has them.",
    discussion: """
      For embedded stores; no relay may be running. The database goes where storage.url says, attachments and certificates \
      to their folders, where those are missing. One-time prekeys are set aside, since some may have been handed out after \
      the backup was made: last resorts serve until clients refill. Messages that arrived after it are lost, and those that \
      were fetched after it come once more. Until the last moment the store is as it was before.
      """)
  @OptionGroup var configuration: ConfigurationOption
  @Argument(help: "A file of `relay backup`.") var file: String
  @Flag(help: "Replace a store that is there; it is kept beside the new one.") var replace = false
  @Flag(help: "Print JSON.") var json = false

  private struct Result: Encodable {
    let counts: StoreCounts
    let made: String
    /// The store that was there before.
    let keptAs: String?
    let attachments: Int
    let hasCertificates: Bool
  }

  func run() async throws {
    let settings = try configuration.load().configuration
    LogOutput.bootstrap(settings.log)
    let site = try BackupSite(settings)
    let folder = URL(fileURLWithPath: site.path).deletingLastPathComponent().path
    try FileManager.default.createDirectory(
      atPath: folder, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
    let lock = try lockEmbeddedStore(settings)
    let hasStore = FileManager.default.fileExists(atPath: site.path)
    guard !hasStore || replace else {
      throw CommandFailure(
        "There is a store at \(site.path) already: nothing was changed. --replace keeps it beside the new one.")
    }
    let result = try await BackupSite.withFolder(beside: site.path) { work in
      try await restore(site, in: work, hasStore: hasStore)
    }
    withExtendedLifetime(lock) {}
    if json { return try Output.json(result) }
    Output.line("Restored as of \(result.made): \(result.counts.words).")
    if let kept = result.keptAs { Output.line("The store that was there is kept as \(kept).") }
    if !result.hasCertificates {
      Output.line("No certificates were taken over: \(settings.federation.directory) has its own, or the backup none.")
    }
    Output.line("Next: start the relay, and run `relay doctor`.")
  }

  private func restore(_ site: BackupSite, in work: String, hasStore: Bool) async throws -> Result {
    Output.note("unpacking")
    let manifest = try await BackupArchive(path: file).unpack(into: work)
    let content = BackupArchive.content(in: work)
    guard manifest.relay == site.settings.name.text else {
      throw CommandFailure(
        "The backup is of the relay \(manifest.relay), this one is \(site.settings.name): nothing was changed.")
    }
    let database = "\(content)/\(BackupArchive.database)"
    let counts = try await site.prepare(database)
    let attachments = try placeAttachments(of: content, site)
    let hasCertificates = try placeCertificates(of: content, site)
    // Last: until here the store is as it was before.
    if hasStore { try await settleStore(site) }
    let kept = try keepStore(site)
    try BackupArchive.sync(database)
    try Self.move(database, to: site.path)
    try BackupArchive.sync(URL(fileURLWithPath: site.path).deletingLastPathComponent().path)
    return Result(
      counts: counts, made: manifest.made, keptAs: kept, attachments: attachments, hasCertificates: hasCertificates)
  }

  /// Brings all of the store's log into its file: the file alone is the store then. A store that is damaged, as many
  /// are that a backup is to replace, cannot even be opened.
  private func settleStore(_ site: BackupSite) async throws {
    do throws(StoreError) {
      let store = try site.openStore(site.path)
      do throws(StoreError) {
        try await store.settle()
      } catch {
        await store.close()
        throw error
      }
      await store.close()
    } catch .corrupted {
      Output.note("the store that is there is damaged: it is kept as it is")
    } catch {
      throw CommandFailure("Something else uses \(site.path): \(error). Nothing was changed: end it, and try again.")
    }
  }

  /// Gives the store that is there a second name. It has its own too until the restored one takes that from it at
  /// once: a command that is killed leaves the one or the other, and never none. A log whose store is gone gets the
  /// name too: it would be taken for one of the restored store.
  /// - Returns: the second name; nil when there was nothing.
  private func keepStore(_ site: BackupSite) throws -> String? {
    let kept = "\(site.path).before-\(Timestamp.now.millis)"
    let suffixes = ["", "-wal"].filter { FileManager.default.fileExists(atPath: site.path + $0) }
    for suffix in suffixes {
      guard link(site.path + suffix, kept + suffix) != 0 else { continue }
      // Not every file system has second names.
      try FileManager.default.copyItem(atPath: site.path + suffix, toPath: kept + suffix)
      try BackupArchive.sync(kept + suffix)
    }
    for suffix in ["-wal", "-shm"] { unlink(site.path + suffix) }
    return suffixes.isEmpty ? nil : kept
  }

  /// Blobs have their own names, and are never changed: what is there already stays. - Returns: how many were placed.
  private func placeAttachments(of content: String, _ site: BackupSite) throws -> Int {
    let source = "\(content)/\(BackupArchive.blobs)"
    guard let target = site.attachments, let names = FileManager.default.enumerator(atPath: source) else { return 0 }
    var count = 0
    for case let name as String in names {
      var isFolder: ObjCBool = false
      guard FileManager.default.fileExists(atPath: "\(source)/\(name)", isDirectory: &isFolder), !isFolder.boolValue
      else {
        continue
      }
      let place = "\(target)/blobs/\(name)"
      guard !FileManager.default.fileExists(atPath: place) else { continue }
      try FileManager.default.createDirectory(
        at: URL(fileURLWithPath: place).deletingLastPathComponent(), withIntermediateDirectories: true,
        attributes: [.posixPermissions: 0o700])
      // Attachments may lie on another disk than the database.
      let part = place + ".part"
      // A restore that was broken off has left it.
      unlink(part)
      do {
        try FileManager.default.copyItem(atPath: "\(source)/\(name)", toPath: part)
        try BackupArchive.sync(part)
        try Self.move(part, to: place)
      } catch {
        unlink(part)
        throw CommandFailure(
          "The attachment \(place) cannot be written: \(FaultWords.of(error)). The store was not changed: make room, and "
            + "run the command again.")
      }
      count += 1
    }
    return count
  }

  /// - Returns: false where certificates are there already, or the backup has none.
  private func placeCertificates(of content: String, _ site: BackupSite) throws -> Bool {
    let (source, target) = ("\(content)/\(BackupArchive.federation)", site.settings.federation.directory)
    guard FileManager.default.fileExists(atPath: source), !FileManager.default.fileExists(atPath: target) else {
      return false
    }
    try FileManager.default.createDirectory(
      at: URL(fileURLWithPath: target).deletingLastPathComponent(), withIntermediateDirectories: true,
      attributes: [.posixPermissions: 0o700])
    let part = target + ".part"
    try? FileManager.default.removeItem(atPath: part)
    try FileManager.default.copyItem(atPath: source, toPath: part)
    for name in try FileManager.default.contentsOfDirectory(atPath: part) { try BackupArchive.sync("\(part)/\(name)") }
    try Self.move(part, to: target)
    return true
  }

  private static func move(_ from: String, to: String) throws {
    guard rename(from, to) == 0 else { throw CommandFailure("\(to) cannot be written: \(FaultWords.ofSystem(errno)).") }
  }
}
