import ChildProcesses
import Foundation
import TestSupport
import TestTags
import Testing

/// The parts of commands that scripts rely on: names, exit codes, JSON.
@Suite(.tags(.processes)) struct CommandTests {
  private struct Step: Decodable {
    let version: Int
    let name: String
    let applied: String?
    let usableFrom: Int
  }

  private func decoded<Value: Decodable>(_ text: String, as type: Value.Type) throws -> Value {
    try JSONDecoder().decode(type, from: Data(text.utf8))
  }

  @Test func `the version is told`() async throws {
    try await RelayOperator.with { site in
      let version = try await site.relay("--version")
      #expect(version.wholeMatch(of: #/relay \d+\.\d+\.\d+\n/#) != nil)
    }
  }

  @Test(arguments: [
    [], ["serve"], ["check"], ["conformance"], ["routes"], ["migrate"], ["migrate", "plan"], ["migrate", "run"],
    ["migrate", "status"], ["drain"], ["push-gateway"], ["push-gateway", "import"], ["ca"],
    ["ca", "init"], ["ca", "issue"], ["ca", "renew"], ["peer"], ["peer", "invite"], ["peer", "accept"],
    ["peer", "list"], ["peer", "invitations"], ["peer", "withdraw"], ["peer", "suspend"], ["peer", "resume"],
    ["peer", "remove"], ["peer", "test"], ["demo"],
    ["peer", "show"], ["peer", "set"], ["peer", "budget"], ["doctor"], ["queue"], ["queue", "list"],
    ["queue", "retry"],
    ["queue", "drop"], ["storage"], ["storage", "seal-contacts"], ["storage", "restored"], ["storage", "clock"],
    ["storage", "move"], ["storage", "distribute"],
    ["accounts"], ["accounts", "list"], ["accounts", "show"], ["accounts", "devices"], ["accounts", "count"],
    ["accounts", "limits"], ["accounts", "export"], ["accounts", "delete"], ["accounts", "ban"], ["accounts", "unban"],
    ["audit"], ["top"], ["explain"], ["init"], ["dashboard"], ["backup"], ["backup", "make"], ["backup", "verify"],
    ["restore"],
    ["ca", "list"],
    ["ca", "revoke"], ["ca", "rollover"],
    ["ca", "rollover", "begin"],
    ["ca", "rollover", "status"], ["ca", "rollover", "finish"], ["ca", "rollover", "cancel"],
  ])
  func `every command explains itself`(command: [String]) async throws {
    try await RelayOperator.with { site in
      let result = try await site.run(command + ["--help"])
      #expect(result.exit == .code(0))
      #expect(result.output.contains("USAGE: relay"))
    }
  }

  @Test func `wrong usage exits with 64`() async throws {
    try await RelayOperator.with { site in
      let wrong = [["nonsense"], ["serve", "--nonsense"], ["peer", "accept"], ["peer", "invite", "--hours", "0"]]
      for arguments in wrong {
        let result = try await site.run(arguments)
        #expect(result.exit == .code(64), "\(arguments)")
        #expect(result.output.isEmpty && !result.errors.isEmpty)
      }
    }
  }

  @Test(arguments: [
    (["servve"], "Did you mean `relay serve`?"), (["peer", "lits"], "Did you mean `relay peer list`?"),
    (["ca", "rollover", "begni"], "Did you mean `relay ca rollover begin`?"),
    (["peer", "xyzzyxyzzy"], "`relay peer --help` lists them all."),
  ])
  func `a command that there is not is told with the one that was likely meant`(arguments: [String], says text: String)
    async throws
  {
    try await RelayOperator.with { site in
      let result = try await site.run(arguments)
      #expect(result.exit == .code(64))
      #expect(result.errors.contains(text), "\(result.errors)")
    }
  }

  @Test func `check prints every key as JSON, secrets hidden`() async throws {
    struct Setting: Decodable {
      let key: String
      let value: String?
      let origin: String
    }
    let settings = [
      "RELAY_VERIFICATION_SENDER": "webhook", "RELAY_VERIFICATION_WEBHOOK_URL": "https://sms.example/codes",
      "RELAY_VERIFICATION_WEBHOOK_SECRET": "needle", "RELAY_COORDINATION_URL": "redis://:needle@127.0.0.1:6379",
    ]
    try await RelayOperator.with("alpha", settings: settings) { site in
      let result = try await site.run(["check", "--json"])
      #expect(result.exit == .code(0), "\(result.errors)")
      #expect(!result.output.contains("needle") && !result.errors.contains("needle"))
      let all = try decoded(result.output, as: [Setting].self)
      let byKey = Dictionary(all.map { ($0.key, $0) }) { $1 }
      #expect(byKey.count == all.count && all.count > 40)
      #expect(byKey["name"]?.value == "alpha" && byKey["name"]?.origin == "environment")
      #expect(byKey["client.port"]?.value == "8080" && byKey["client.port"]?.origin == "default")
      #expect(byKey["verification.webhook.secret"]?.value == "***")
      #expect(try await site.run(["check"]).output.contains("client.port"))
    }
  }

  @Test(arguments: ["check", "serve", "migrate", "peer"])
  func `every command names all faults of the configuration at once and exits with 78`(command: String) async throws {
    let faults = ["RELAY_CLIENT_PROT": "1", "RELAY_OPERATOR_PORT": "99999", "RELAY_NAME": "Not A Name"]
    try await RelayOperator.with { site in
      let arguments = ["migrate": ["migrate", "status"], "peer": ["peer", "list"]][command] ?? [command]
      let result = try await site.run(arguments, overrides: faults)
      #expect(result.exit == .code(78))
      #expect(result.output.isEmpty)
      for text in ["RELAY_CLIENT_PROT", "RELAY_CLIENT_PORT", "RELAY_OPERATOR_PORT", "RELAY_NAME"] {
        #expect(result.errors.contains(text), "\(text): \(result.errors)")
      }
    }
  }

  @Test func `a file is read, the environment goes before it, and its faults carry their line`() async throws {
    try await RelayOperator.with { site in
      let file = site.folder + "/relay.yaml"
      try "log:\n  level: debug\nclient:\n  port: 1234\n".write(toFile: file, atomically: true, encoding: .utf8)
      let fromFile = try await site.relay("check", "--config", file)
      #expect(fromFile.contains("1234") && fromFile.contains("debug"))
      let overridden = try await site.relay("check", "--config", file, overrides: ["RELAY_CLIENT_PORT": "4321"])
      #expect(overridden.contains("4321") && !overridden.contains("1234"))
      try "client:\n  prot: 1234\n".write(toFile: file, atomically: true, encoding: .utf8)
      let result = try await site.run(["check", "--config", file])
      #expect(result.exit == .code(78))
      #expect(result.errors.contains("relay.yaml:2") && result.errors.contains("client.port"), "\(result.errors)")
    }
  }

  @Test func `migrations are planned, run and told`() async throws {
    try await RelayOperator.with { site in
      let before = try await site.run(["migrate", "status", "--json"])
      #expect(before.exit == .code(1), "a step is pending")
      let pending = try decoded(before.output, as: [Step].self)
      #expect(!pending.isEmpty && pending.allSatisfy { $0.applied == nil })
      let planned = try decoded(try await site.relay("migrate", "plan", "--json"), as: [Step].self)
      #expect(planned.map(\.version) == pending.map(\.version))

      let key = ["RELAY_STORAGE_ENCRYPTION_KEY": Data(count: 32).base64EncodedString()]
      for (step, overrides, words) in [("1000", [:], "no step 1000"), ("1", key, "leave out --to")] {
        let refused = try await site.run(["migrate", "run", "--to", step], overrides: overrides)
        #expect(refused.exit == .code(1) && refused.errors.contains(words), "\(refused.errors)")
      }
      #expect(try await site.relay("migrate", "plan").contains("The store is new"))
      let done = try decoded(try await site.relay("migrate", "run", "--to", "1", "--json"), as: [Step].self)
      #expect(done.map(\.version) == [1] && done.allSatisfy { $0.applied != nil })
      let after = try decoded(try await site.relay("migrate", "status", "--json"), as: [Step].self)
      #expect(after.allSatisfy { $0.applied != nil })
      #expect(try decoded(try await site.relay("migrate", "plan", "--json"), as: [Step].self).isEmpty)
      #expect(try await site.relay("migrate", "plan").contains("Going back: builds that know step 1 can serve"))
      #expect(try decoded(try await site.relay("migrate", "run", "--json"), as: [Step].self).isEmpty)
    }
  }

  @Test func `warnings of the configuration are printed at start and by check, and by no other command`() async throws {
    let warning = "development.enabled is true"
    try await RelayOperator.with { site in
      let relay = try await site.serve()
      #expect(relay.log().matches(of: try Regex(warning)).count == 1)
      for command in [["peer", "list"], ["migrate", "status"], ["queue", "list"]] {
        #expect(try await !site.run(command).errors.contains(warning), "\(command)")
      }
      #expect(try await site.run(["check"]).errors.contains(warning))
      #expect(await relay.terminate() == .code(0))
    }
  }

  @Test func `without peers the list is an empty array, also while the relay runs`() async throws {
    try await RelayOperator.with { site in
      #expect(try decoded(try await site.relay("peer", "list", "--json"), as: [[String: String]].self).isEmpty)
      let relay = try await site.serve()
      #expect(try decoded(try await site.relay("peer", "list", "--json"), as: [[String: String]].self).isEmpty)
      #expect(await relay.terminate() == .code(0))
    }
  }

  @Test func `a command that fails exits with 1 and says why`() async throws {
    try await RelayOperator.with { site in
      let failing = [
        ["peer", "suspend", "nobody"], ["peer", "accept", "garbage"], ["peer", "invite"], ["ca", "issue"],
      ]
      for arguments in failing {
        let result = try await site.run(arguments)
        #expect(result.exit == .code(1), "\(arguments): \(result.exit)")
        #expect(result.output.isEmpty && result.errors.contains("Error: "), "\(arguments): \(result.errors)")
      }
    }
  }

  @Test func `a CA is made once, and a leaf carries the relay's name`() async throws {
    try await RelayOperator.with("alpha") { site in
      #expect(try await site.relay("ca", "init").contains("fingerprint"))
      let second = try await site.run(["ca", "init"])
      #expect(second.exit == .code(1) && second.errors.contains("exists already"), "\(second.errors)")
      try await site.relay("ca", "issue")
      try await site.relay("ca", "renew")
      let names = try FileManager.default.contentsOfDirectory(atPath: site.folder + "/federation")
      #expect(names.contains("ca.key"))
      for name in names where name.hasSuffix(".key") {
        let file = site.folder + "/federation/" + name
        let mode = try FileManager.default.attributesOfItem(atPath: file)[.posixPermissions] as? Int
        #expect(mode == 0o600, "\(name)")
      }
    }
  }

  @Test func `an invitation is one word, alone on the last line, or JSON`() async throws {
    struct Printed: Decodable {
      let invitation: String
      let expires: String
      let scopes: [String]
      let ourWords: String
    }
    try await RelayOperator.with { site in
      let made = try await site.relay("ca", "init")
      try await site.relay("ca", "issue")
      let lines = try await site.relay("peer", "invite").split(separator: "\n")
      let word = try #require(lines.last)
      #expect(!word.contains(" ") && word.utf8.count > 40)
      let printed = try decoded(try await site.relay("peer", "invite", "--json"), as: Printed.self)
      #expect(!printed.invitation.contains(" ") && printed.invitation != word)
      #expect(printed.expires.hasSuffix("Z"))
      #expect(printed.scopes == ["attachments", "directory", "keys", "messages"])
      #expect(printed.ourWords.split(separator: " ").count == 10 && made.contains(printed.ourWords))
      let shown = try await site.run(["peer", "invite", "--scope", "keys,lookup"]).errors
      for line in ["grants them: keys,lookup", "gets from them: keys,lookup", "our words: \(printed.ourWords)"] {
        #expect(shown.contains(line), "\(shown)")
      }
      let misspelt = try await site.run(["peer", "invite", "--scope", "keys,all"])
      #expect(
        misspelt.exit == .code(64) && misspelt.errors.contains(#"There is no scope "all": give some of messages,keys"#))
    }
  }
}
