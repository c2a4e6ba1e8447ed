import ArgumentParser
import Foundation
import RelayConfiguration
import RelayCore
import Storage

struct BackupCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "backup", abstract: "Back a relay up into one file, or look whether a backup can be restored.",
    discussion: """
      With embedded stores the file holds the database, the attachments and the relay's certificates; relays may be running. \
      With PostgreSQL it says what to run instead, and looks whether the server is set up for it. The configuration and \
      storage.encryption-key are no part of a backup: keep them elsewhere. docs/backup.md says more.
      """,
    subcommands: [Make.self, Verify.self], defaultSubcommand: Make.self)

  struct Make: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "make", abstract: "Write a backup. `relay backup FILE` is the same.",
      discussion: "The file is new: an older one of that name is not written over.")
    @OptionGroup var configuration: ConfigurationOption
    @Argument(help: "The file, such as relay-2026-12-01.tar.") var file: String
    @Flag(help: "Print JSON.") var json = false

    func run() async throws {
      let settings = try configuration.load().configuration
      LogOutput.bootstrap(settings.log)
      if case .postgres = settings.storage.location {
        return try await PostgresBackup(settings).show(json: json)
      }
      let path = URL(fileURLWithPath: file).standardizedFileURL.path
      guard !FileManager.default.fileExists(atPath: path) else {
        throw CommandFailure("\(path) is there already: nothing was written. Give another name.")
      }
      let site = try BackupSite(settings)
      guard FileManager.default.fileExists(atPath: site.path) else {
        throw CommandFailure("There is no store at \(site.path) yet: nothing was written.")
      }
      let manifest = try await BackupSite.withFolder(beside: path) { folder in
        let manifest = try await write(site, into: folder)
        try await BackupArchive(path: path).pack(folder)
        return manifest
      }
      if json { return try Output.json(manifest) }
      Output.line("Written to \(path): \(manifest.counts.words).")
      if manifest.needsEncryptionKey {
        Output.line("It can be read only with storage.encryption-key: keep both apart.")
      }
      if site.attachments == nil { Output.line("Attachments are in S3, and no part of it.") }
      Output.line("`relay backup verify \(file)` shows whether it can be restored.")
    }

    /// Everything that is packed, or a link to it.
    private func write(_ site: BackupSite, into folder: String) async throws -> BackupManifest {
      let copy = "\(folder)/\(BackupArchive.database)"
      Output.note("copying the database")
      try await site.withStore(at: site.path) { try await $0.backUp(to: copy) }
      let (counts, schema, epoch, uploads) = try await site.withStore(at: copy) { store in
        let counts = try await store.counts()
        let uploads = try await store.uploadedAttachments().count
        let schema = try await store.migrations().filter { $0.applied != nil }.map(\.version).max() ?? 0
        let epoch = try await store.epoch()
        try await store.settle()
        return (counts, schema, epoch, uploads)
      }
      try BackupSite.demandWhole(copy)
      let manifest = BackupManifest(
        relay: site.settings.name.text, version: Version.text, made: Timestamp.now.iso8601, schema: schema,
        epoch: epoch, needsEncryptionKey: site.settings.storage.encryptionKey != nil, counts: counts,
        databaseDigest: try BackupArchive.digest(of: copy))
      let encoder = JSONEncoder()
      encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
      try encoder.encode(manifest).write(to: URL(fileURLWithPath: "\(folder)/\(BackupArchive.manifest)"))
      if let attachments = site.attachments, try Self.isThere(attachments + "/blobs", isExpected: uploads > 0) {
        Output.note("packing attachments")
        try FileManager.default.createDirectory(
          atPath: folder + "/attachments", withIntermediateDirectories: false)
        try FileManager.default.createSymbolicLink(
          atPath: "\(folder)/\(BackupArchive.blobs)", withDestinationPath: Self.absolute(attachments + "/blobs"))
      }
      let federation = site.settings.federation.directory
      if try Self.isThere(federation, isExpected: site.settings.federation.port != nil) {
        try FileManager.default.createSymbolicLink(
          atPath: "\(folder)/\(BackupArchive.federation)", withDestinationPath: Self.absolute(federation))
      }
      return manifest
    }

    /// - Throws: when the folder is missing, and something of the relay lies in it.
    private static func isThere(_ folder: String, isExpected: Bool) throws -> Bool {
      if FileManager.default.fileExists(atPath: folder) { return true }
      guard isExpected else { return false }
      throw CommandFailure(
        "\(absolute(folder)) cannot be found, and the backup would lack it: nothing was written. Run the command in the "
          + "folder that the relay runs in, and as its user.")
    }

    private static func absolute(_ path: String) -> String { URL(fileURLWithPath: path).standardizedFileURL.path }
  }
}

extension StoreCounts {
  /// `2 accounts, 3 devices, 1 message`, and so on.
  var words: String {
    [
      (accounts, "account", "accounts"), (devices, "device", "devices"), (messages, "message", "messages"),
      (held, "message for peers", "messages for peers"), (attachments, "attachment", "attachments"),
    ].map { "\($0) \($0 == 1 ? $1 : $2)" }.joined(separator: ", ")
  }
}
