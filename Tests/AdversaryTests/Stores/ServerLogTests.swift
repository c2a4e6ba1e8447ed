// Somebody reads the log of the PostgreSQL server.

import ChildProcesses
import Foundation
import TestSupport
import TestTags
import Testing

@Suite(.tags(.processes)) struct ServerLogTests {
  /// A role on the shared server, the way an administrator would make it.
  private static func role(_ server: PostgresServer, mayBeDiscreet: Bool) throws -> String {
    let name = "relay_\(UInt32.random(in: .min ... .max))"
    try server.sql("CREATE ROLE \(name) LOGIN", in: "postgres")
    if mayBeDiscreet {
      try server.sql(
        "GRANT SET ON PARAMETER log_parameter_max_length, log_error_verbosity TO \(name)", in: "postgres")
    }
    return name
  }

  /// Runs `body` with an operator whose database logs every statement, and how long each took.
  private static func with(
    mayBeDiscreet: Bool, _ body: (RelayOperator, PostgresServer, String) async throws -> Void
  ) async throws {
    try await MachineRoom.with {
      let server = try await Loopback.blocking { try PostgresServer.shared() }
      let database = try await Loopback.blocking {
        let url = try server.createDatabase(of: role(server, mayBeDiscreet: mayBeDiscreet))
        let name = url.split(separator: "/").last.map(String.init) ?? url
        for setting in ["log_statement = 'all'", "log_min_duration_statement = 0", "log_lock_waits = on"] {
          try server.sql("ALTER DATABASE \(name) SET \(setting)", in: "postgres")
        }
        return url
      }
      try await RedisServer.with { redis in
        let stores = RelayOperator.Stores.servers(storage: database, coordination: redis.url)
        try await RelayOperator.with(stores: stores, settings: Victim.unlimited) { site in
          try await site.relay("migrate", "run")
          try await body(site, server, database)
        }
      }
    }
  }

  private static func numbers(_ count: Int) -> [String] {
    (0..<count).map { _ in "+1778\(Int.random(in: 1_000_000...9_999_999))" }
  }

  private static func findings(_ site: RelayOperator) async throws -> String {
    let ports = try Loopback.freePorts(2)
    return try await site.run(
      ["doctor", "--json"],
      overrides: ["RELAY_CLIENT_PORT": "\(ports[0])", "RELAY_OPERATOR_PORT": "\(ports[1])"]
    ).output
  }

  @Test func `the server's log gets no number`() async throws {
    try await Self.with(mayBeDiscreet: true) { site, server, database in
      let numbers = Self.numbers(3)
      // A number that must never be registered: an error in the midst of it shows the row that it met.
      _ = try await Loopback.blocking {
        try server.sql("ALTER TABLE accounts ADD CHECK (account <> \(numbers[2].dropFirst()))", in: database)
      }
      let before = try server.log().utf8.count
      let relay = try await site.serve()
      let sender = try await relay.register(numbers[0])
      let recipient = try await relay.register(numbers[1])
      let sent = try await relay.send(
        "PUT", "/v1/messages/\(recipient.number)", json: bundle(message(registrationID: 111)), as: sender)
      #expect(sent.status == 200 || sent.status == 204, "\(sent.text)")
      #expect(try await relay.mailbox(of: recipient).count == 1)
      let refused = try await relay.code(for: numbers[2])
      let answer = try await relay.send(
        "PUT", "/v1/accounts/code/\(refused)",
        json: #"{"signalingKey":"c2lnbmFsaW5n","registrationId":7,"fetchesMessages":true}"#,
        as: TestDevice(number: numbers[2], password: "of the refused"))
      #expect(answer.status >= 500)
      let report = try await Self.findings(site)
      #expect(report.contains("the server's log gets no values of ours"), "\(report)")
      #expect(await relay.terminate() == .code(0))

      let log = String(decoding: try server.log().utf8.dropFirst(before), as: UTF8.self)
      // It does log them, and the error.
      #expect(log.contains("execute register_account"))
      #expect(log.contains("duration:"))
      #expect(log.contains("accounts_account_check"))
      for number in numbers { #expect(!log.contains(number.dropFirst())) }
    }
  }

  @Test func `if the role may not hide values, doctor names the remedy`() async throws {
    try await Self.with(mayBeDiscreet: false) { site, server, _ in
      let number = Self.numbers(1)[0]
      let relay = try await site.serve()
      _ = try await relay.register(number)
      #expect(await relay.terminate() == .code(0))
      #expect(try server.log().contains(number.dropFirst()))
      let report = try await Self.findings(site)
      #expect(report.contains("the server logs statements with their values, phone numbers among them"))
      #expect(report.contains("GRANT SET ON PARAMETER log_parameter_max_length, log_error_verbosity"))
    }
  }
}
