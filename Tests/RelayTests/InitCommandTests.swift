import ChildProcesses
import Foundation
import Glibc
import TestSupport
import TestTags
import Testing

/// `relay init`: what it writes can be checked, served and peered with.
@Suite(.tags(.processes)) struct InitCommandTests {
  private static func mode(_ path: String) throws -> Int? {
    try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
  }

  private func configured(_ site: RelayOperator, _ arguments: [String]) async throws -> CommandResult {
    try await site.run(
      ["init", "--yes", "--folder", site.folder + "/etc", "--data", site.folder + "/var", "--user", "nobody-here"]
        + arguments)
  }

  @Test func `the written configuration is checked and served, and has its CA`() async throws {
    try await RelayOperator.with { site in
      let done = try await configured(site, ["--name", "alpha", "--host", "relay.alpha.example"])
      #expect(done.exit == .code(0), "\(done.errors)")
      let file = site.folder + "/etc/relay.yaml"
      #expect(done.output.contains("relay doctor --config \(file)") && done.output.contains("ca.key"))
      for secret in ["encryption-key", "operator-read-tokens", "operator-change-tokens"] {
        #expect(try Self.mode(site.folder + "/etc/\(secret)") == 0o600)
        let text = try String(contentsOfFile: site.folder + "/etc/\(secret)", encoding: .utf8)
        #expect(!(done.output + done.errors).contains(text.trimmingCharacters(in: .whitespacesAndNewlines)))
      }
      #expect(try Self.mode(file) == 0o640)
      #expect(try Self.mode(site.folder + "/var/federation/ca.key") == 0o600)

      // Nothing of the test's own settings.
      let ports = try Loopback.freePorts(3)
      let clean = Dictionary(
        uniqueKeysWithValues: site.environment().keys.filter { $0.hasPrefix("RELAY_") }.map { ($0, "") }
      ).merging(["RELAY_CLIENT_PORT": "\(ports[0])", "RELAY_OPERATOR_PORT": "\(ports[1])"]) { $1 }
      let checked = try await site.run(["check", "--config", file], overrides: clean)
      #expect(checked.exit == .code(0), "\(checked.errors)")
      let relay = try await ChildProcess.start(
        ChildProcess.Launch(
          command: [try RelayExecutable.path(), "serve", "--config", file],
          environment: site.environment(clean.merging(["RELAY_FEDERATION_PORT": "\(ports[2])"]) { $1 }),
          folder: site.folder, standardOutput: site.folder + "/log.txt", standardError: site.folder + "/log.txt"))
      try await eventually("it serves what init wrote") {
        guard relay.exit == nil else {
          throw TestFailure(try String(contentsOfFile: site.folder + "/log.txt", encoding: .utf8))
        }
        let look = try await site.run(
          ["top", "--once", "--every", "1", "--json", "--url", "http://127.0.0.1:\(ports[1])"])
        return look.output.contains(#""isReady" : true"#)
      }
      await relay.stop(SIGTERM, grace: .seconds(30))
      #expect(relay.exit == .code(0))

      let again = try await configured(site, ["--name", "alpha", "--host", "relay.alpha.example"])
      #expect(again.exit == .code(1) && again.errors.contains("there already"))
    }
  }

  @Test func `nothing is left behind where something is wrong`() async throws {
    try await RelayOperator.with { site in
      func left() -> Bool {
        ["/etc", "/var"].contains { FileManager.default.fileExists(atPath: site.folder + $0) }
      }
      for (arguments, exit, words) in [
        (["--name", "Alpha!", "--host", "a.example"], 1, "1 to 63 of a-z"),
        (["--name", "alpha", "--host", "not a host"], 78, "federation.url"),
        (["--name", "alpha", "--host", "a.example", "--storage", "mysql://x"], 78, "storage.url"),
        (["--name", "alpha", "--host", "a.example", "--codes", "webhook"], 1, "codes are posted to"),
        (
          ["--name", "alpha", "--host", "a.example", "--codes", "webhook", "--webhook-url", "ftp://x"], 78,
          "webhook.url"
        ),
        (
          ["--name", "alpha", "--host", "a.example", "--certificate", "/c.pem", "--key", "/k.pem"], 78,
          "verification.sender"
        ),
        (["--host", "a.example", "--certificate", "/c.pem"], 64, "go together"),
      ] {
        let refused = try await configured(site, arguments)
        #expect(refused.exit == .code(Int32(exit)) && refused.errors.contains(words), "\(arguments): \(refused.errors)")
        #expect(!left(), "\(arguments)")
      }
      let silent = try await site.run(["init", "--folder", site.folder + "/etc"])
      #expect(silent.exit == .code(1) && silent.errors.contains("--yes") && !left())
    }
  }

  /// A host that is set up anew has the one file that there is to be a backup of.
  @Test func `a key of peering that is there survives, and other files keep their owner`() async throws {
    try await RelayOperator.with { site in
      let federation = site.folder + "/var/federation"
      try FileManager.default.createDirectory(atPath: federation, withIntermediateDirectories: true)
      try "kept".write(toFile: federation + "/ca.key", atomically: true, encoding: .utf8)
      let arguments = ["--name", "alpha", "--host", "relay.alpha.example"]
      let refused = try await configured(site, arguments)
      #expect(refused.exit == .code(1) && refused.errors.contains("ca.key"), "\(refused.errors)")
      #expect(try String(contentsOfFile: federation + "/ca.key", encoding: .utf8) == "kept")
      #expect(try FileManager.default.contentsOfDirectory(atPath: federation) == ["ca.key"])
      #expect(!FileManager.default.fileExists(atPath: site.folder + "/etc"))

      // The operator moves the key away: the folder is the service's all the same.
      try FileManager.default.removeItem(atPath: federation + "/ca.key")
      try "other".write(toFile: site.folder + "/var/other", atomically: true, encoding: .utf8)
      let user = try #require(getpwnam("nobody")).pointee
      // The last --user counts.
      let done = try await configured(site, arguments + ["--user", "nobody"])
      #expect(done.exit == .code(0), "\(done.errors)")
      func owner(_ path: String) throws -> UInt32? {
        try (FileManager.default.attributesOfItem(atPath: site.folder + path)[.ownerAccountID] as? NSNumber)?
          .uint32Value
      }
      #expect(try owner("/var/other") == getuid())
      if getuid() == 0 {
        for path in ["/var", "/var/federation", "/var/federation/ca.key", "/etc/relay.yaml", "/etc/encryption-key"] {
          #expect(try owner(path) == user.pw_uid, "\(path)")
        }
      }
    }
  }

  @Test func `secrets of stores and senders get files of their own`() async throws {
    try await RelayOperator.with { site in
      let done = try await configured(
        site,
        [
          "--name", "beta", "--host", "relay.beta.example", "--certificate", "/etc/ssl/c.pem", "--key",
          "/etc/ssl/k.pem",
          "--storage", "postgres://relay:s3cret@db/relay", "--redis", "redis://:pass@cache", "--codes", "webhook",
          "--webhook-url", "https://sms.beta.example/codes", "--no-peers",
        ])
      #expect(done.exit == .code(0), "\(done.errors)")
      let text = try String(contentsOfFile: site.folder + "/etc/relay.yaml", encoding: .utf8)
      #expect(!text.contains("s3cret") && !text.contains("pass@") && text.contains("port: 443"))
      #expect(!text.contains("federation") && !FileManager.default.fileExists(atPath: site.folder + "/var/federation"))
      let url = try String(contentsOfFile: site.folder + "/etc/storage-url", encoding: .utf8)
      #expect(url == "postgres://relay:s3cret@db/relay\n")
      let unit = try String(contentsOfFile: site.folder + "/etc/relay.service", encoding: .utf8)
      #expect(unit.contains("AmbientCapabilities=CAP_NET_BIND_SERVICE"))
      for word in ["relay.yaml", "storage-url", "coordination-url", "webhook-secret"] {
        #expect(FileManager.default.fileExists(atPath: site.folder + "/etc/\(word)"))
      }
    }
  }

  @Test(
    .enabled(if: FileManager.default.isExecutableFile(atPath: "/usr/bin/systemd-analyze")), arguments: [false, true])
  func `the unit is one that systemd takes, and hardened`(hasLowPort: Bool) async throws {
    try await RelayOperator.with { site in
      let extra = hasLowPort ? ["--client-port", "80"] : []
      let done = try await configured(site, ["--name", "alpha", "--host", "a.example"] + extra)
      #expect(done.exit == .code(0), "\(done.errors)")
      for arguments in [["verify"], ["security", "--offline=true", "--threshold=20"]] {
        let output = site.folder + "/analyze.txt"
        let child = try await ChildProcess.start(
          ChildProcess.Launch(
            command: ["/usr/bin/systemd-analyze"] + arguments + [site.folder + "/etc/relay.service"],
            environment: ProcessInfo.processInfo.environment, folder: site.folder, standardOutput: output,
            standardError: output))
        let exit = await child.killed(after: .seconds(60))
        let words = try String(contentsOfFile: output, encoding: .utf8)
        #expect(exit == .code(0), "\(words.suffix(2000))")
      }
    }
  }

  @Test func `at a terminal it asks`() async throws {
    try await RelayOperator.with { site in
      let session = "relay-init-\(UUID().uuidString)"
      func tmux(_ arguments: String...) async throws -> String {
        let output = site.folder + "/tmux-\(UUID().uuidString).txt"
        let child = try await ChildProcess.start(
          ChildProcess.Launch(
            command: ["tmux", "-L", session, "-f", "/dev/null"] + arguments, environment: site.environment(),
            folder: site.folder, standardOutput: output, standardError: output))
        _ = await child.killed(after: .seconds(20))
        return try String(contentsOfFile: output, encoding: .utf8)
      }
      let command =
        "\(try RelayExecutable.path()) init --folder \(site.folder)/etc --data \(site.folder)/var --user nobody-here; sleep 60"
      _ = try await tmux("new-session", "-d", "-x", "120", "-y", "40", "sh", "-c", command)
      do {
        for (question, answer) in [
          ("Public host name", "relay.alpha.example"), ("Name of this relay", "Not One"), ("1 to 63", "alpha"),
          ("PEM certificate chain", ""), ("PostgreSQL URL", ""), ("How codes", ""),
        ] {
          try await eventually("\(question) is asked", within: .seconds(20)) {
            try await tmux("capture-pane", "-p", "-J").contains(question)
          }
          _ = try await tmux("send-keys", answer, "Enter")
        }
        try await eventually("it is written", within: .seconds(20)) {
          try await tmux("capture-pane", "-p", "-J").contains("Next:")
        }
      } catch {
        _ = try await tmux("kill-server")
        throw error
      }
      _ = try await tmux("kill-server")
      let text = try String(contentsOfFile: site.folder + "/etc/relay.yaml", encoding: .utf8)
      #expect(text.contains("name: alpha\n") && text.contains("https://relay.alpha.example:8443"))
    }
  }
}
