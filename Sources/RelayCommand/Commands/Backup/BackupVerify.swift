import ArgumentParser
import AsyncHTTPClient
import ChildProcesses
import Foundation
import NIOCore
import NIOHTTP1
import RelayConfiguration
import RelayCore
import RelayWork
import Storage

extension BackupCommand {
  struct Verify: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "verify",
      abstract: "Restore a backup aside, start a relay on it, and say what is in it.",
      discussion: """
        Changes nothing of this relay. It unpacks the file into a folder of its own, which needs as much room as the backup \
        has, compares the database with what was put in, looks at every page of it, counts, restores it as `relay restore` \
        would, and serves it on free ports of this host until it is ready. Exits with 1 where the backup cannot be restored.
        """)
    @OptionGroup var configuration: ConfigurationOption
    @Argument(help: "A file of `relay backup`.") var file: String
    @Flag(help: "Print JSON.") var json = false

    private struct Result: Encodable {
      let manifest: BackupManifest
      let missingAttachments: Int
      let servesAfterMillis: Int64
    }

    func run() async throws {
      let settings = try configuration.load().configuration
      LogOutput.bootstrap(settings.log)
      let site = try BackupSite(settings)
      let name = "relay-verify-\(UUID().uuidString.prefix(8))"
      let place = FileManager.default.temporaryDirectory.appending(path: name).path
      let result = try await BackupSite.withFolder(beside: place) { folder in
        Output.note("unpacking")
        let manifest = try await BackupArchive(path: file).unpack(into: folder)
        if manifest.needsEncryptionKey, settings.storage.encryptionKey == nil {
          throw CommandFailure(
            "The backup is encrypted under storage.encryption-key, which is not set here: set the one that it was made with."
          )
        }
        let content = BackupArchive.content(in: folder)
        let database = "\(content)/\(BackupArchive.database)"
        let missing = try await missingAttachments(site, content, database)
        Output.note("looking at the database")
        let counts = try await site.prepare(database)
        guard counts == manifest.counts else {
          throw CommandFailure("The backup holds \(counts.words), and says that it has \(manifest.counts.words).")
        }
        Output.note("starting a relay on it")
        let served = try await RelayAside(settings: settings, content: content, folder: folder).serve()
        return Result(
          manifest: manifest, missingAttachments: missing, servesAfterMillis: Int64(served / .milliseconds(1)))
      }
      if json { return try Output.json(result) }
      Output.line("\(file) can be restored: \(result.manifest.counts.words), as of \(result.manifest.made).")
      Output.line("A relay served it after \(result.servesAfterMillis) ms, with all one-time prekeys set aside.")
      if result.missingAttachments > 0 {
        Output.line("\(result.missingAttachments) attachments are not in it: their time was over, or they are in S3.")
      }
    }

    /// Uploads that the database knows, and no file is of.
    private func missingAttachments(_ site: BackupSite, _ content: String, _ database: String) async throws -> Int {
      let known = try await site.withStore(at: database) { try await $0.uploadedAttachments() }
      var present: Set<String> = []
      let blobs = FileManager.default.enumerator(atPath: "\(content)/\(BackupArchive.blobs)")
      while let path = blobs?.nextObject() as? String { present.insert(String(path.split(separator: "/").last ?? "")) }
      return known.count { !present.contains($0.text) }
    }
  }
}

/// A relay that serves what a backup held, on loopback, for nobody.
private struct RelayAside {
  let settings: RelayConfiguration
  let content: String
  let folder: String

  /// - Returns: how long it took until it was ready. - Throws: `CommandFailure` with the end of its log.
  func serve() async throws -> Duration {
    let ports = try await FreePorts.find(2)
    var environment = ProcessInfo.processInfo.environment.filter { !$0.key.hasPrefix("RELAY_") }
    environment["NOTIFY_SOCKET"] = nil
    environment.merge([
      "RELAY_NAME": settings.name.text, "RELAY_STORAGE_URL": "sqlite:\(content)/\(BackupArchive.database)",
      "RELAY_ATTACHMENTS_URL": "file:\(content)/attachments", "RELAY_CLIENT_HOST": "127.0.0.1",
      "RELAY_CLIENT_PORT": "\(ports[0])", "RELAY_OPERATOR_HOST": "127.0.0.1", "RELAY_OPERATOR_PORT": "\(ports[1])",
      "RELAY_DIRECTORY_SNAPSHOT": "\(content)/directory.snapshot", "RELAY_DRAIN_SECONDS": "0",
      // No code is asked for, and nothing is sent.
      "RELAY_VERIFICATION_SENDER": "log",
    ]) { $1 }
    if let key = settings.storage.encryptionKey {
      environment["RELAY_STORAGE_ENCRYPTION_KEY"] = Data(key.bytes).base64EncodedString()
    }
    if let key = settings.storage.formerEncryptionKey {
      environment["RELAY_STORAGE_ENCRYPTION_KEY_FORMER"] = Data(key.bytes).base64EncodedString()
    }
    let log = folder + "/log"
    let begin = ContinuousClock.now
    let child = try await ChildProcess.start(
      ChildProcess.Launch(
        command: [try DoctorChild.executable(), "serve"], environment: environment, folder: folder,
        standardOutput: log, standardError: log))
    let ready = await isReady("http://127.0.0.1:\(ports[1])/readyz", child)
    let took = ContinuousClock.now - begin
    let exit = await child.stop()
    guard ready, exit == .code(0) else {
      let end = ((try? String(contentsOfFile: log, encoding: .utf8)) ?? "").suffix(600)
      throw CommandFailure("A relay does not serve the backup (\(exit)): \(end)")
    }
    return took
  }

  private func isReady(_ url: String, _ child: ChildProcess) async -> Bool {
    let end = ContinuousClock.now + Self.patience
    while ContinuousClock.now < end, child.exit == nil {
      let answer = try? await HTTPClient.shared.execute(HTTPClientRequest(url: url), timeout: .seconds(5))
      if answer?.status == .ok { return true }
      guard await Pause.for(.milliseconds(100)) else { return false }
    }
    return false
  }

  private static let patience = Duration.seconds(120)
}
