import ChildProcesses
import Foundation
import TestSupport
import TestTags
import Testing

/// Changes by commands are noted: who, what, when, with which result.
@Suite(.tags(.processes)) struct AuditCommandTests {
  private static func lines(_ text: String) throws -> [[String: Any]] {
    try text.split(separator: "\n").map { line in
      try #require(try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])
    }
  }

  @Test func `changes by commands are noted with their user and result`() async throws {
    try await RelayOperator.with { site in
      let relay = try await site.serve()
      let bob = try await relay.register()
      let handle = try #require(
        try Self.objects(try await site.relay("accounts", "list", "--json")).first?["handle"] as? String)
      try await site.relay("accounts", "ban", bob.number)
      try await site.relay("accounts", "unban", handle)
      _ = try await site.run(["accounts", "unban", handle])
      try await site.relay("storage", "restored")
      _ = try await site.run(["peer", "suspend", "nobody"])
      try await site.relay("storage", "clock", "--accept")
      // A command that only looks is not noted.
      try await site.relay("accounts", "count")
      try await site.relay("storage", "clock")

      let noted = try Self.lines(try await site.relay("audit", "--json"))
      #expect(
        noted.map { "\($0["action"] ?? "") \($0["subject"] ?? "-") \($0["result"] ?? "")" } == [
          "accounts ban \(handle) done", "accounts unban \(handle) done", "accounts unban \(handle) failed",
          "storage restored - done", "peer suspend nobody failed", "storage clock --accept - done",
        ])
      let user = try #require(getpwuid(getuid()).map { String(cString: $0.pointee.pw_name) })
      #expect(noted.allSatisfy { ($0["who"] as? String)?.hasSuffix(user) == true })
      #expect((noted[2]["reason"] as? String) == "The number is not banned.")

      let table = try await site.run(["audit", "--limit", "2"])
      #expect(table.output.contains("peer suspend") && !table.output.contains("accounts ban"))
      #expect(table.errors.contains("--before"))
      let about = try Self.lines(try await site.relay("audit", "--about", bob.number, "--json"))
      #expect(about.count == 3)
      #expect(!(try await site.relay("audit")).contains(String(bob.number.dropFirst())))
      #expect(await relay.terminate() == .code(0))
    }
  }

  @Test func `sudo shows who it was`() async throws {
    try await RelayOperator.with { site in
      try await site.relay("migrate", "run")
      try await site.relay("storage", "restored", overrides: ["SUDO_USER": "anna"])
      #expect(try await site.relay("audit").contains("user:anna as "))
    }
  }

  @Test func `a command that is killed in its midst leaves an unknown result`() async throws {
    try await PeeredOperator.withTwo { alpha, beta in
      // The peer's listener is stopped, so that its proof under a new URL is waited for.
      kill(beta.relay.child.pid, SIGSTOP)
      defer { kill(beta.relay.child.pid, SIGCONT) }
      let command = try await ChildProcess.start(
        ChildProcess.Launch(
          command: [
            try RelayExecutable.path(), "peer", "set", "beta", "--url",
            "https://127.0.0.1:\(beta.site.federationPort)",
          ], environment: alpha.site.environment(), folder: alpha.site.folder,
          standardOutput: alpha.site.folder + "/out.txt", standardError: alpha.site.folder + "/err.txt"))
      try await eventually("it is noted") {
        try await alpha.site.relay("audit").contains("peer set")
      }
      await command.stop(SIGKILL)
      let noted = try Self.lines(try await alpha.site.relay("audit", "--about", "beta", "--json"))
      #expect(noted.last?["result"] as? String == "unknown", "\(noted)")
    }
  }

  private static func objects(_ text: String) throws -> [[String: Any]] {
    try #require(try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [[String: Any]])
  }
}
