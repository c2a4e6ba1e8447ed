import ChildProcesses
import Foundation
import NIOHTTP1
import TestSupport
import TestTags
import Testing

@Suite(.tags(.processes)) struct ServeTests {
  @Test func `an accepted notification is pushed and listed, even if the process is killed`() async throws {
    try await ServedNotifications.with { served in
      let password = try await served.addUser("acme")
      let (relay, base) = try await served.serve()
      let number = try await ServedNotifications.call(base, "subscribe", "user=acme&spid=fcm&key=tok")
      served.google.service.answerAlways(.silence)
      let message = try await ServedNotifications.call(
        base, "send", "user=acme&pwd=\(password)&message=Hello&recipients=\(number)")
      try await eventually("the provider is asked", within: .seconds(120)) { !served.google.requests.isEmpty }
      await relay.kill9()
      let before = served.google.requests.count
      served.google.service.answerAlways(.answer(200, #"{"name":"projects/example-project/messages/0:1"}"#))
      let (next, nextBase) = try await served.serve()
      // The claim of the process that is gone runs out after a minute.
      try await eventually("it is pushed again", within: .seconds(300)) { served.google.requests.count > before }
      let reply = try await NotificationSite.request(
        nextBase + "get?user=acme&recipientid=\(number)&lastmsgno=0")
      #expect(reply.text.hasPrefix("A\n\(message)\t") && reply.text.hasSuffix("\tHello\n"))
      for log in [relay.log(), next.log()] {
        #expect(!log.contains("Hello") && !log.contains(password) && !log.contains(number))
      }
      let exit = await next.terminate(within: .seconds(120))
      #expect(exit == .code(0))
    }
  }

  @Test func `connections to every listener of a process end when they are told to, and name one host`() async throws {
    try await ServedNotifications.with { served in
      let (relay, base) = try await served.serve()
      for (url, path) in [(relay.operatorURL, "/livez"), (relay.url, "/v1/keys"), (base, "/external/notifications")] {
        let port = try #require(URL(string: url)?.port)
        try await ConnectionRules(port: port, path: path).expectAll()
      }
      #expect(await relay.terminate() == .code(0))
    }
  }

  @Test func `of two processes, one makes each push`() async throws {
    try await RedisServer.with { redis in
      let postgres = try await Loopback.blocking { try PostgresServer.shared() }
      let database = try await Loopback.blocking { try postgres.createDatabase() }
      try await ServedNotifications.with(
        stores: .servers(storage: database, coordination: redis.url)
      ) { served in
        try await served.site.relay("migrate", "run")
        let password = try await served.addUser("acme")
        let (one, base) = try await served.serve()
        let (other, otherBase) = try await served.serve()
        var numbers: [String] = []
        for index in 0..<100 {
          numbers.append(
            try await ServedNotifications.call(
              index % 2 == 0 ? base : otherBase, "subscribe", "user=acme&spid=fcm&key=tok-\(index)-"))
        }
        try await served.site.relay("notifications", "group", "add", "acme", "Everybody", "--short", "all")
        try await served.site.relay(
          "notifications", "group", "members", "acme", "Everybody", "--add", numbers.joined(separator: ","))
        // Slow enough for both to take part.
        served.google.service.pause(.milliseconds(100))
        for sender in [base, otherBase] {
          _ = try await ServedNotifications.call(
            sender, "send", "user=acme&pwd=\(password)&message=Hello&recipients=all")
        }
        try await eventually("all are pushed", within: .seconds(240)) { served.google.requests.count >= 200 }
        try await eventually("nothing waits", within: .seconds(240), every: .milliseconds(200)) {
          let queue = try await served.site.relay("notifications", "queue", "--json")
          return !queue.contains(#""oldestSeconds""#)
        }
        let texts = served.google.requests.map(\.text)
        #expect(Set(texts).count == 200)
        // A machine that is slow may cost an answer: then the push is made again, and counted.
        let repeats = try await Self.putOffs(of: one) + Self.putOffs(of: other)
        #expect(texts.count <= 200 + repeats)
        for relay in [one, other] {
          let exit = await relay.terminate(within: .seconds(120))
          #expect(exit == .code(0))
        }
      }
    }
  }

  /// How many attempts one process has counted as in vain.
  private static func putOffs(of relay: RelayProcess) async throws -> Int {
    let metrics = try await NotificationSite.request(relay.operatorURL + "/metrics").text
    let lines = metrics.split(separator: "\n").filter {
      $0.hasPrefix("relay_notification_pushes_total") && $0.contains("put-off")
    }
    return lines.compactMap { $0.split(separator: " ").last.flatMap { Double($0) } }.reduce(0) { $0 + Int($1) }
  }

  @Test func `commands add, show, change and remove users and groups`() async throws {
    try await RelayOperator.with { site in
      let password = try await site.relay(
        "notifications", "user", "add", "acme", "--credits", "10", "--quota", "5", "--period", "month",
        "--event-url", "https://example.org/events?token=secret")
      #expect(password.count == 33)
      let again = try await site.run(["notifications", "user", "add", "acme"])
      #expect(again.exit == .code(1))
      var list = try await site.relay("notifications", "user", "list", "--json")
      for part in [#""credits" : 10"#, #""period" : "month""#, #""eventURL" : "https://example.org/events?...""#] {
        #expect(list.contains(part), "\(part)")
      }
      try await site.relay(
        "notifications", "user", "set", "acme", "--credits", "unlimited", "--event-url", "none", "--permitted", "no")
      list = try await site.relay("notifications", "user", "list")
      #expect(list.contains("unlimited") && list.contains("5 a month") && !list.contains("example.org"))
      let wrong = try await site.run(["notifications", "user", "set", "acme", "--event-url", "ftp://example.org"])
      #expect(wrong.exit != .code(0))
      try await site.relay("notifications", "group", "add", "acme", "Testers", "--short", "tst")
      try await site.relay(
        "notifications", "group", "members", "acme", "testers", "--add", "123456, 5", "--remove", "7")
      let members = try await site.relay("notifications", "group", "members", "acme", "Testers")
      #expect(members == "5\n123456\n")
      let groups = try await site.relay("notifications", "group", "list", "acme", "--json")
      #expect(groups.contains(#""short" : "tst""#) && groups.contains(#""members" : 2"#))
      try await site.relay("notifications", "group", "remove", "acme", "Testers")
      try await site.relay("notifications", "numbers", "--above", "1000")
      try await site.relay("notifications", "user", "remove", "acme")
      let empty = try await site.relay("notifications", "user", "list", "--json")
      #expect(empty.split(whereSeparator: \.isWhitespace).joined() == "[]")
    }
  }
}
