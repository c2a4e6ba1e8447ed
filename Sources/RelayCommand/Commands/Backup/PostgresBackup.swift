import ArgumentParser
import ChildProcesses
import Foundation
import Logging
import RelayConfiguration
import RelayCore
import Storage

/// Says how a relay on PostgreSQL is backed up: what to run, whether the server is set up for it, and which files
/// belong to it. PostgreSQL's own tools do it better than a relay could.
struct PostgresBackup {
  private let settings: RelayConfiguration

  init(_ settings: RelayConfiguration) { self.settings = settings }

  private struct Row: Encodable {
    let command: String
    let purpose: String
  }
  private struct Check: Encodable {
    /// `ok` or `warn`.
    let outcome: String
    let text: String
    let remedy: String?
  }
  private struct Report: Encodable {
    let commands: [Row]
    let checks: [Check]
    /// Files and keys that belong to a backup, and are no part of the database.
    let files: [String]
  }

  /// - Throws: `ExitCode` 1 where a check warns.
  func show(json: Bool) async throws {
    guard
      let storage = try openStorage(settings, logger: Logger(label: "relay.storage")) as? PostgresStorage
    else { return }
    let facts: PostgresBackupFacts
    let placement: PostgresPlacement
    do {
      (facts, placement) = (try await storage.backupFacts(), try await storage.placement())
    } catch {
      let fault = storage.connectFault ?? "\(error)"
      await storage.close()
      throw CommandFailure("The store does not answer: \(fault).")
    }
    await storage.close()
    let commands = placement.isBegun ? commands(ofServers: placement.nodes) : commands
    let report = Report(commands: commands, checks: await checks(facts, placement), files: files)
    if json {
      try Output.json(report)
    } else {
      Output.line(
        "This relay keeps its data in PostgreSQL, whose own tools back it up. "
          + (placement.isBegun ? "All servers belong together:" : "Either of these will do:"))
      for row in report.commands { Output.line("\n  # \(row.purpose)\n  \(row.command)") }
      Output.line("\nWhat belongs to it, and is no part of the database:")
      for file in report.files { Output.line("  \(file)") }
      Output.line("")
      for check in report.checks {
        Output.line("\(check.outcome)  \(check.text)")
        if let remedy = check.remedy { Output.line("      \(remedy)") }
      }
      Output.line("\nBehind every restore, before or while relays run: relay storage restored")
    }
    if report.checks.contains(where: { $0.outcome != "ok" }) { throw ExitCode.failure }
  }

  private var commands: [Row] {
    // The operator decides where the password comes from: no command shows it.
    let url = settings.storage.location.shown
    return [
      Row(
        command: "pg_basebackup --dbname='\(url)' --pgdata=relay-base --format=tar --gzip --wal-method=stream "
          + "--checkpoint=fast --progress",
        purpose: "Base backup: the whole server. With the write-ahead log archived, any moment can be restored."),
      Row(
        command: "pg_dump --dbname='\(url)' --format=custom --file=relay.dump",
        purpose: "Dump: this database alone, as of the moment when it begins. Restore it with pg_restore."),
    ]
  }

  /// For a distributed store: a backup of one server alone is of no use.
  private func commands(ofServers nodes: [PostgresPlacement.Node]) -> [Row] {
    let url = settings.storage.location.shown
    let bases = nodes.enumerated().compactMap { (index, node) -> Row? in
      guard let colon = node.address.lastIndex(of: ":") else { return nil }
      let (host, port) = (node.address[..<colon], node.address[node.address.index(after: colon)...])
      return Row(
        command: "pg_basebackup --host=\(host) --port=\(port) --pgdata=relay-base-\(index) --format=tar --gzip "
          + "--wal-method=stream --checkpoint=fast --progress",
        purpose: "Base backup of \(node.isCoordinator ? "the coordinator" : "a worker"), \(node.address).")
    }
    return bases + [
      Row(
        command: "psql --dbname='\(url)' --command=\"SELECT citus_create_restore_point('relay-$(date +%s)')\"",
        purpose: "A moment that all servers know: with every write-ahead log archived, restore all of them to it "
          + "(recovery_target_name)."),
      Row(
        command: "pg_dump --dbname='\(url)' --format=custom --file=relay.dump",
        purpose: "Dump, while no relay runs: tables are read at different moments. One PostgreSQL can take it."),
    ]
  }

  private func checks(_ facts: PostgresBackupFacts, _ placement: PostgresPlacement) async -> [Check] {
    var checks = [Check(outcome: "ok", text: "the database has \(facts.bytes >> 20) MiB", remedy: nil)]
    if placement.isBegun {
      checks[0] = Check(
        outcome: "ok",
        text:
          "the store is distributed: back up each of \(placement.nodes.count) servers; what follows is the coordinator's",
        remedy: nil)
    }
    if facts.walLevel == "minimal" || facts.walSendersMax == 0 {
      checks.append(
        Check(
          outcome: "warn",
          text: "no base backup can be made: wal_level is \(facts.walLevel), max_wal_senders "
            + "\(facts.walSendersMax)", remedy: "Set wal_level = replica and max_wal_senders = 10, and restart."))
    } else {
      checks.append(Check(outcome: "ok", text: "base backups can be made (wal_level \(facts.walLevel))", remedy: nil))
    }
    if !facts.archives {
      checks.append(
        Check(
          outcome: "warn",
          text: "the write-ahead log is not archived: what was accepted after a backup is lost with the disk",
          remedy: "Set archive_mode = on and archive_command, or have a synchronous standby (docs/backup.md)."))
    } else if facts.lastArchived == nil || facts.archiveFailures > 0 {
      checks.append(
        Check(
          outcome: "warn",
          text: "the archive of the write-ahead log: \(facts.archiveFailures) failures, last file "
            + "\(facts.lastArchived?.iso8601 ?? "never")",
          remedy: "See PostgreSQL's log for what archive_command says."))
    } else {
      checks.append(
        Check(
          outcome: "ok", text: "the write-ahead log is archived, last at \(facts.lastArchived?.iso8601 ?? "-")",
          remedy: nil))
    }
    checks.append(await dumpCheck(facts.major))
    return checks
  }

  /// `pg_dump` must not be older than the server.
  private func dumpCheck(_ server: Int) async -> Check {
    let output = FileManager.default.temporaryDirectory.appending(path: "relay-pg-dump-\(UUID().uuidString)").path
    defer { try? FileManager.default.removeItem(atPath: output) }
    let child = try? await ChildProcess.start(
      ChildProcess.Launch(
        command: ["pg_dump", "--version"], environment: ProcessInfo.processInfo.environment, standardOutput: output,
        standardError: "/dev/null"))
    _ = await child?.killed(after: .seconds(10))
    let text = (try? String(contentsOfFile: output, encoding: .utf8)) ?? ""
    guard let major = text.firstMatch(of: /\) ([0-9]+)/).flatMap({ Int($0.output.1) }) else {
      return Check(
        outcome: "warn", text: "pg_dump is not installed here",
        remedy: "Run the commands where PostgreSQL's client programs are (Debian: postgresql-client-\(server)).")
    }
    guard major >= server else {
      return Check(
        outcome: "warn", text: "pg_dump here is of version \(major), the server of \(server)",
        remedy: "Use one that is not older than the server (Debian: postgresql-client-\(server)).")
    }
    return Check(outcome: "ok", text: "pg_dump \(major) fits the server", remedy: nil)
  }

  private var files: [String] {
    var files = ["the configuration, with the files of its secrets"]
    if settings.storage.encryptionKey != nil {
      files.append("storage.encryption-key: without it the backup opens nothing")
    }
    if settings.federation.port != nil {
      files.append("\(settings.federation.directory): this relay's certificates, ca.key among them")
    }
    switch settings.attachments.location {
    case .folder(let path): files.append("\(path): attachments")
    case .s3(let bucket, _, _): files.append("the bucket \(bucket): attachments")
    }
    return files
  }
}

extension StorageLocation {
  /// Without passwords, wherever they stand.
  fileprivate var shown: String {
    switch self {
    case .sqlite(let path): return "sqlite:\(path)"
    case .postgres(let uri):
      let parts = Self.withoutPassword(uri.value).split(separator: "?", maxSplits: 1)
      let items = parts.dropFirst().joined().split(separator: "&").filter { item in
        item.split(separator: "=").first?.lowercased().hasSuffix("password") != true
      }
      return parts[0] + (items.isEmpty ? "" : "?" + items.joined(separator: "&"))
    }
  }

  /// Without the password before the `@`, which may hold colons. As libpq reads it, there is none behind a slash.
  private static func withoutPassword(_ url: String) -> String {
    guard let scheme = url.firstRange(of: "://"),
      let at = url[scheme.upperBound...].firstIndex(where: { $0 == "@" || $0 == "/" }), url[at] == "@"
    else { return url }
    let user = url[scheme.upperBound..<at].prefix { $0 != ":" }
    return "\(url[..<scheme.upperBound])\(user)\(url[at...])"
  }
}
