import ChildProcesses
import Crypto
import Foundation
import Glibc
import TestSupport
import TestTags
import Testing

/// SIGHUP: what changes while a relay serves, and what waits for a restart.
@Suite(.tags(.processes)) struct ReloadTests {
  /// Writes `text` as the configuration file of `site`'s relays. - Returns: its path.
  @discardableResult
  private static func write(_ text: String, at site: RelayOperator) throws -> String {
    let path = site.folder + "/relay.yaml"
    try text.write(toFile: path, atomically: true, encoding: .utf8)
    return path
  }

  /// - Returns: the lines that the relay logs about it.
  private static func hangUp(_ relay: RelayProcess, until text: String) async throws -> [Substring] {
    let before = relay.log().count
    relay.child.send(SIGHUP)
    return try await eventually("the log says \(text)") {
      let news = relay.log().dropFirst(before)
      return news.contains(text) ? news.split(separator: "\n") : nil
    }
  }

  @Test func `limits and the log's level change, and what needs a restart is named`() async throws {
    try await RelayOperator.with { site in
      let text = """
        limits: {messages: {size: 2, per-minute: 0}}
        log: {level: notice}
        """
      let relay = try await site.serve(["RELAY_CONFIG": try Self.write(text, at: site)])
      let (sender, recipient) = (try await relay.register(), try await relay.register())
      func send() async throws -> Int {
        let path = "/v1/messages/\(recipient.number)"
        return try await relay.send("PUT", path, json: bundle(message()), as: sender).status
      }
      #expect(try await [send(), send(), send()] == [200, 200, 413])
      #expect(!relay.log().contains(" debug "), "\(relay.log())")

      try Self.write(
        """
        limits: {messages: {size: 100, per-minute: 600000}}
        log: {level: debug}
        messages: {retention-days: 7}
        client: {connections-max: 900}
        """, at: site)
      let lines = try await Self.hangUp(relay, until: "need a restart")
      let read = try #require(lines.first { $0.contains("configuration read anew") })
      #expect(read.contains("changed=limits.messages.size, limits.messages.per-minute, log.level"), "\(read)")
      let waiting = try #require(lines.first { $0.contains("need a restart") })
      #expect(waiting.contains("keys=client.connections-max, messages.retention-days"), "\(waiting)")
      try await eventually("the limit is another one") { try await send() == 200 }
      #expect(try await [send(), send(), send()] == [200, 200, 200])

      // Said again: nothing has changed since, and what waits for a restart still does.
      let again = try await Self.hangUp(relay, until: "need a restart")
      #expect(again.contains { $0.contains("changed=nothing") }, "\(again)")
      #expect(await relay.terminate() == .code(0))
      #expect(relay.log().contains(" debug "), "the level is another one")
    }
  }

  @Test func `a configuration with faults changes nothing`() async throws {
    try await RelayOperator.with { site in
      let relay = try await site.serve([
        "RELAY_CONFIG": try Self.write("limits: {messages: {size: 2, per-minute: 0}}", at: site)
      ])
      let (sender, recipient) = (try await relay.register(), try await relay.register())
      try Self.write("limits: {messages: {size: many}}\nlog: {levle: debug}", at: site)
      let lines = try await Self.hangUp(relay, until: "stays in force")
      let line = try #require(lines.first { $0.contains("stays in force") })
      #expect(line.contains("limits.messages.size") && line.contains("levle") && line.contains("count=2"), "\(line)")
      let path = "/v1/messages/\(recipient.number)"
      var statuses: [Int] = []
      for _ in 0..<3 {
        statuses.append(try await relay.send("PUT", path, json: bundle(message()), as: sender).status)
      }
      #expect(statuses == [200, 200, 413])
      #expect(await relay.terminate() == .code(0))
    }
  }

  @Test func `the secret of the webhook is taken from its file again`() async throws {
    let webhook = try WebhookServer()
    defer { webhook.close() }
    try await RelayOperator.with(settings: RelayUnderTest.unlimited) { site in
      let file = site.folder + "/webhook-secret"
      try "one".write(toFile: file, atomically: true, encoding: .utf8)
      let relay = try await site.serve([
        "RELAY_VERIFICATION_SENDER": "webhook", "RELAY_VERIFICATION_WEBHOOK_SECRET_FILE": file,
        "RELAY_VERIFICATION_WEBHOOK_URL": "http://127.0.0.1:\(webhook.port)/codes",
      ])
      func isSigned(by secret: String) async throws -> Bool {
        #expect(try await relay.send("GET", "/v1/accounts/sms/code/\(TestDevice.freshNumber())").status == 200)
        let request = try #require(webhook.received.last)
        let key = SymmetricKey(data: Data(secret.utf8))
        let code = HMAC<SHA256>.authenticationCode(for: Data(request.body.utf8), using: key)
        return request.headers["x-relay-signature"] == code.map { String(format: "%02x", $0) }.joined()
      }
      #expect(try await isSigned(by: "one"))
      try "two".write(toFile: file, atomically: true, encoding: .utf8)
      #expect(try await isSigned(by: "one"), "not before it is told")
      let lines = try await Self.hangUp(relay, until: "configuration read anew")
      #expect(lines.contains { $0.contains("changed=verification.webhook.secret") }, "\(lines)")
      #expect(try await isSigned(by: "two"))
      #expect(!relay.log().contains("two\n"), "no secret in the log")
      #expect(await relay.terminate() == .code(0))
    }
  }

  @Test func `a secret of another webhook is not used at the one that still serves`() async throws {
    let (webhook, other) = (try WebhookServer(), try WebhookServer())
    defer {
      webhook.close()
      other.close()
    }
    try await RelayOperator.with(settings: RelayUnderTest.unlimited) { site in
      func configuration(_ port: Int, _ secret: String) -> String {
        """
        verification:
          sender: webhook
          webhook: {url: "http://127.0.0.1:\(port)/codes", secret: \(secret)}
        """
      }
      let relay = try await site.serve(["RELAY_CONFIG": try Self.write(configuration(webhook.port, "one"), at: site)])
      try Self.write(configuration(other.port, "two"), at: site)
      _ = try await Self.hangUp(relay, until: "need a restart")
      #expect(try await relay.send("GET", "/v1/accounts/sms/code/\(TestDevice.freshNumber())").status == 200)
      let request = try #require(webhook.received.last)
      let code = HMAC<SHA256>.authenticationCode(
        for: Data(request.body.utf8), using: SymmetricKey(data: Data("one".utf8)))
      #expect(request.headers["x-relay-signature"] == code.map { String(format: "%02x", $0) }.joined())
      #expect(other.received.isEmpty)
      #expect(await relay.terminate() == .code(0))
    }
  }

  @Test func `the keys of S3 are those of the configuration as it was read last`() async throws {
    // A variable would go before the file.
    let here = RelayOperator.Place(address: "127.0.0.1", wrapper: ["env", "-u", "RELAY_ATTACHMENTS_URL"])
    try await RelayOperator.with(settings: RelayUnderTest.unlimited, at: here) { site in
      func configuration(_ key: String) -> String {
        """
        attachments:
          url: s3://blobs?endpoint=http://127.0.0.1:9&region=here
          s3: {access-key: \(key), secret-key: secret-of-\(key)}
        """
      }
      let relay = try await site.serve(["RELAY_CONFIG": try Self.write(configuration("first"), at: site)])
      let device = try await relay.register()
      // The URL is signed here; nobody asks S3 for it.
      func isSigned(by key: String) async throws -> Bool {
        let answer = try await relay.send("GET", "/v1/attachments", as: device)
        #expect(answer.status == 200)
        return answer.text.contains("X-Amz-Credential=\(key)%2F")
      }
      #expect(try await isSigned(by: "first"))
      try Self.write(configuration("second"), at: site)
      let lines = try await Self.hangUp(relay, until: "configuration read anew")
      #expect(
        lines.contains { $0.contains("changed=attachments.s3.access-key, attachments.s3.secret-key") }, "\(lines)")
      #expect(try await isSigned(by: "second"))

      // Keys of another place wait for the restart that the place needs.
      try Self.write(configuration("third").replacing("s3://blobs", with: "s3://elsewhere"), at: site)
      _ = try await Self.hangUp(relay, until: "need a restart")
      let showsOthers = try await isSigned(by: "third")
      #expect(!showsOthers)
      #expect(!relay.log().contains("secret-of-"), "no secret in the log")
      #expect(await relay.terminate() == .code(0))
    }
  }

  @Test func `a relay that waits for its store outlives SIGHUP, and follows it when it serves`() async throws {
    let postgres = try await Loopback.blocking { try PostgresServer() }
    let database = try await Loopback.blocking {
      let database = try postgres.createDatabase()
      try postgres.stop()
      return database
    }
    try await RelayOperator.with { site in
      let relay = try await site.startServing(["RELAY_STORAGE_URL": database, "RELAY_STORAGE_MIGRATE": "true"])
      try await eventually("it waits") { relay.log().contains("waiting for the store") }
      relay.child.send(SIGHUP)
      try await Loopback.blocking { try postgres.start() }
      guard case .ready = try await relay.readiness(within: .seconds(60)) else { throw TestFailure("it has ended") }
      try await eventually("it has followed") { relay.log().contains("configuration read anew") }
      #expect(await relay.terminate() == .code(0))
    }
    try await Loopback.blocking { try postgres.stop() }
  }
}
