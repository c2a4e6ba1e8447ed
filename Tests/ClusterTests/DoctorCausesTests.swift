import Foundation
import Glibc
import TestSupport
import TestTags
import Testing

/// `relay doctor` passes on what it knows of causes, and the remedy fits.
@Suite(.tags(.processes)) struct DoctorCausesTests {
  /// The first finding of `group` of a relay with `settings`.
  private static func finding(
    _ group: String, _ check: String? = nil, at site: RelayOperator, _ settings: [String: String]
  ) async throws -> DoctorTests.Diagnosis {
    let ports = try Loopback.freePorts(2)
    let all = ["RELAY_CLIENT_PORT": "\(ports[0])", "RELAY_OPERATOR_PORT": "\(ports[1])"].merging(settings) { $1 }
    let result = try await site.run(["doctor", "--json"], overrides: all)
    #expect(!result.output.contains("hunter2"), "no password is shown")
    let found = try result.json([DoctorTests.Diagnosis].self).filter { $0.group == group }
    guard let first = found.first(where: { check == nil || $0.check == check }) else {
      throw TestFailure("nothing of \(group): \(result.output) \(result.errors)")
    }
    return first
  }

  @Test func `PostgreSQL: a wrong password, a host that there is not, and packets that are dropped`() async throws {
    let postgres = try await Loopback.blocking { try PostgresServer() }
    let database = try await Loopback.blocking { try postgres.createDatabase() }
    _ = try await Loopback.blocking { try postgres.addRole("keeper", password: "right", to: database) }
    let link = try await LinkProxy(to: postgres.port)
    link.set(.cut)
    try await RelayOperator.with { site in
      let cases = [
        (PostgresServer.url(database, as: "keeper", password: "hunter2"), "password authentication failed", "password"),
        ("postgres://keeper:hunter2@no.such.name.invalid/relay", "no.such.name.invalid", "Correct the host"),
        (database.replacing(":\(postgres.port)/", with: ":\(link.port)/"), "no answer within", "firewalls"),
        (postgres.url(database: "nobodys"), "does not exist", "Create it"),
      ]
      for (url, says, remedy) in cases {
        let found = try await Self.finding("storage", at: site, ["RELAY_STORAGE_URL": url])
        #expect(found.outcome == "fail" && found.text.contains(says), "\(found)")
        #expect(found.remedy?.contains(remedy) == true, "\(found)")
      }
    }
    try await link.close()
  }

  @Test func `PostgreSQL: a trigger that is gone, one that is switched off, and a function that is gone`() async throws
  {
    let postgres = try await Loopback.blocking { try PostgresServer.shared() }
    let database = try await Loopback.blocking { try postgres.createDatabase() }
    let name = String(database.split(separator: "/").last ?? "")
    try await RelayOperator.with { site in
      let settings = ["RELAY_STORAGE_URL": database]
      try await site.relay("migrate", "run", overrides: settings)
      #expect(try await Self.finding("schema", "parts", at: site, settings).outcome == "ok")
      _ = try await Loopback.blocking {
        try postgres.sql(
          """
          DROP TRIGGER relay_account_added ON accounts; ALTER TABLE accounts DISABLE TRIGGER relay_account_changed;
          DROP FUNCTION relay_present_day(date)
          """, in: name)
      }
      let found = try await Self.finding("schema", "parts", at: site, settings)
      #expect(found.outcome == "fail")
      #expect(
        found.text.hasSuffix(
          "function relay_present_day, trigger relay_account_added, trigger relay_account_changed"), "\(found)")
    }
  }

  @Test func `Redis: a wrong password, none, a host that there is not, and nobody`() async throws {
    try await RedisServer.with(password: "right") { redis in
      try await RelayOperator.with { site in
        let nobody = try Loopback.freePorts(1)[0]
        for (url, says, remedy) in [
          (
            "redis://:hunter2@127.0.0.1:\(redis.port)", "Redis refuses the user or the password",
            "Correct user and password"
          ),
          ("redis://127.0.0.1:\(redis.port)", "Redis wants a password", "Correct user and password"),
          ("redis://:hunter2@no.such.name.invalid", "Redis does not answer: cannot connect", "Correct the host"),
          ("redis://127.0.0.1:\(nobody)", "Redis does not answer: cannot connect: nobody listens there", "Start it"),
        ] {
          let found = try await Self.finding("coordination", at: site, ["RELAY_COORDINATION_URL": url])
          #expect(found.outcome == "fail" && found.text.contains(says), "\(found)")
          #expect(found.remedy?.contains(remedy) == true, "\(found)")
        }
      }
    }
  }

  @Test func `sentinels: nobody, a name that they do not know, a wrong password of theirs, and one that is dead`()
    async throws
  {
    try await SentinelGroup.with(sentinelPassword: "watch") { group in
      let nobody = try Loopback.freePorts(1)[0]
      let hosts = group.sentinels.map { "127.0.0.1:\($0.port)" }.joined(separator: ",")
      try await RelayOperator.with { site in
        for (url, says, remedy) in [
          ("redis+sentinel://127.0.0.1:\(nobody)/relay", "no sentinel of Redis answers", "Start the sentinels"),
          (
            "redis+sentinel://\(hosts)/other?sentinel-password=watch", "know no primary named other",
            "as sentinel monitor does"
          ),
          ("redis+sentinel://\(hosts)/relay?sentinel-password=hunter2", "WRONGPASS", "Correct sentinel-user"),
          (
            "redis+sentinel://:hunter2@\(hosts)/relay?sentinel-password=watch",
            "which the sentinels name as the primary, does not serve", "Start the primary"
          ),
        ] {
          let found = try await Self.finding("coordination", at: site, ["RELAY_COORDINATION_URL": url])
          #expect(found.outcome == "fail" && found.text.contains(says), "\(found)")
          #expect(found.remedy?.contains(remedy) == true, "\(found)")
        }
        let settings = ["RELAY_COORDINATION_URL": "redis+sentinel://\(hosts)/relay?sentinel-password=watch"]
        let well = try await Self.finding("coordination", "sentinels", at: site, settings)
        #expect(well.outcome == "ok" && well.text == "3 of 3 answer", "\(well)")
        group.sentinels[0].stop()
        let one = try await Self.finding("coordination", "sentinels", at: site, settings)
        #expect(one.outcome == "warn" && one.text.hasPrefix("2 of 3 answer: sentinel 127.0.0.1:"), "\(one)")
      }
    }
  }

  @Test func `a webhook of codes that is dead, and one that answers`() async throws {
    let (descriptor, port) = try Loopback.listen()
    try await RelayOperator.with { site in
      let settings = [
        "RELAY_VERIFICATION_SENDER": "webhook", "RELAY_VERIFICATION_WEBHOOK_SECRET": "hunter2",
        "RELAY_VERIFICATION_WEBHOOK_URL": "http://127.0.0.1:\(port)/codes",
      ]
      let serving = Self.answering(descriptor) { _ in "405 Method Not Allowed" }
      #expect(try await Self.finding("verification", at: site, settings).outcome == "ok")
      try await eventually("nobody listens any more") { serving.isFinished }
      let dead = try await Self.finding("verification", at: site, settings)
      #expect(dead.outcome == "fail" && dead.text.contains("does not answer: nobody listens there"), "\(dead)")
      #expect(dead.remedy?.contains("verification.webhook.url") == true)
    }
  }

  /// By a fake that reads accounts as Twilio's API does: Basic authentication, and 404 for what it does not know.
  @Test func `Twilio: the account is known, the token is wrong, and there is no such account`() async throws {
    let right = "Basic " + Data("AC123:hunter2".utf8).base64EncodedString()
    for (account, token, outcome, says) in [
      ("AC123", "hunter2", "ok", "knows the account"), ("AC123", "wrong", "fail", "refuses the account or its token"),
      ("AC999", "hunter2", "fail", "has no such account"),
    ] {
      let (descriptor, port) = try Loopback.listen()
      let serving = Self.answering(descriptor) { request in
        guard request.hasPrefix("GET /2010-04-01/Accounts/AC123.json ") else { return "404 Not Found" }
        return request.contains(right) ? "200 OK" : "401 Unauthorized"
      }
      try await RelayOperator.with { site in
        let found = try await Self.finding(
          "verification", at: site,
          [
            "RELAY_VERIFICATION_SENDER": "twilio", "RELAY_VERIFICATION_TWILIO_ACCOUNT": account,
            "RELAY_VERIFICATION_TWILIO_TOKEN": token, "RELAY_VERIFICATION_TWILIO_FROM": "+14155550100",
            "RELAY_VERIFICATION_TWILIO_URL": "http://127.0.0.1:\(port)",
          ])
        #expect(found.outcome == outcome && found.text.contains(says), "\(found)")
      }
      try await eventually("it was asked once") { serving.isFinished }
    }
  }

  /// Answers one request with the status that `answer` makes of it, and listens no more.
  private static func answering(_ descriptor: Int32, _ answer: @escaping @Sendable (String) -> String) -> Thread {
    let serving = Thread {
      let connection = accept(descriptor, nil, nil)
      var bytes = [UInt8](repeating: 0, count: 4096)
      let count = recv(connection, &bytes, bytes.count, 0)
      let status = answer(String(decoding: bytes.prefix(max(0, count)), as: UTF8.self))
      let text = Array("HTTP/1.1 \(status)\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".utf8)
      _ = send(connection, text, text.count, Int32(MSG_NOSIGNAL))
      close(connection)
      close(descriptor)
    }
    serving.start()
    return serving
  }
}
