import NIOHTTP1
import RelayCore
import TestSupport
import TestTags
import Testing

/// The worked examples of docs/device-notifications.md, one after the other, over both kinds of store.
@Suite(.tags(.stores)) struct ExampleTests {
  private struct Example: Sendable {
    let number: Int
    /// The method, and for GET its query string.
    let call: String
    /// nil: GET.
    var form: String?
    let answer: String
    init(_ number: Int, _ call: String, form: String? = nil, _ answer: String) {
      (self.number, self.call, self.form, self.answer) = (number, call, form, answer)
    }
  }

  private static let sender = "user=acme&pwd=s3cret"
  private static let long = String(repeating: "%C3%BC", count: 2000)

  private static let first = [
    Example(1, "subscribe", form: "user=acme&spid=fcm&key=tokA&message=news", "A\n2000001\n"),
    Example(2, "subscribe?user=acme&recipientid=&spid=apns&key=00FCDE", "A\n2000002\n"),
    Example(3, "subscribe?user=acme&recipientid=2000001&spid=fcm&key=tokA&message=weather", "A\n2000001\n"),
    Example(4, "updatekey?user=acme&recipientid=2000001&spid=fcm&key=tokB", "A\n2000001\n"),
    Example(5, "unsubscribe?user=acme&recipientid=2000001&spid=fcm&message=weather", "A\n2000001\n"),
  ]
  private static let sixth = Example(
    6, "send", form: sender + "&message=Hello&recipients=2000001%2C+2000002", "A\n12554\n")
  private static let seventh = Example(
    7, "get?user=acme&recipientid=2000001&lastmsgno=0", "A\n12554\t20240501100000000\tHello\n")
  private static let eighth = Example(
    8, "send",
    form: sender + "&message=Two%0Alines%09and+tab&recipients=tst&collapsekey=k&timetolive=3600", "A\n12555\n")
  private static let upToTwelfth = [
    Example(
      9, "get?user=acme&recipientid=2000002&lastmsgno=12554", "A\n12555\t20240501100507123\tTwo\\nlines and tab\n"),
    Example(10, "unsubscribeall?user=acme&recipientid=2000001&spid=fcm&message=bye", "A\n2000001\n"),
    Example(11, "unsubscribe?user=acme&recipientid=2000001&spid=fcm", "A\n2000001\n"),
    Example(12, "updatekey?user=acme&recipientid=2000001&spid=fcm&key=tokC", "A\n2000001\nreactivated\n"),
  ]
  private static let others = [
    Example(13, "get?user=acme&recipientid=2000001&lastmsgno=12555", "A\n"),
    Example(
      14, "get?user=acme&recipientid=2000001&lastmsgno=0&sentafter=20240501100001000",
      "A\n12555\t20240501100507123\tTwo\\nlines and tab\n"),
    Example(15, "get?user=acme&recipientid=2000001", "N\n392\n"),
    Example(16, "get?user=acme&recipientid=2000001&lastmsgno=-1", "N\n391\n"),
    Example(17, "get?user=acme&recipientid=2000001&lastmsgno=0&sentafter=20241301000000000", "N\n66\n"),
    Example(18, "subscribe?spid=fcm&key=t", "N\n23\n"),
    Example(19, "subscribe?user=&spid=fcm&key=t", "N\n22\n"),
    Example(20, "subscribe?user=nobody&spid=fcm&key=t", "N\n7\n"),
    Example(21, "subscribe?user=acme&spid=wns&key=t", "N\n60\n"),
    Example(22, "subscribe?user=acme&spid=FCM&key=t", "N\n60\n"),
    Example(23, "subscribe?user=acme&spid=fcm", "N\n61\n"),
    Example(24, "subscribe?user=acme&spid=apns&key=xyz", "N\n61\n"),
    Example(25, "subscribe?user=acme&recipientid=12x&spid=fcm&key=t", "N\n412\n"),
    Example(26, "subscribe?user=acme&recipientid=999&spid=fcm&key=t", "N\n46\n"),
    Example(27, "updatekey?user=beta&recipientid=2000001&spid=fcm&key=t", "N\n46\n"),
    Example(28, "unsubscribe?user=acme&spid=fcm", "N\n412\n"),
    Example(29, "subscribe", form: "user=acme&spid=fcm&key=t&message=a" + long, "N\n63\n"),
    Example(30, "send", form: "user=acme&pwd=wrong&message=x&recipients=2000001", "N\n7\n"),
    Example(31, "send", form: "user=acme&message=x&recipients=2000001", "N\n25\n"),
    Example(32, "send", form: "user=acme&pwd=&message=x&recipients=2000001", "N\n24\n"),
    Example(33, "send", form: sender + "&message=x&recipients=777,none", "N\n28\n"),
    Example(35, "send", form: sender + "&message=x&recipients=2000001&delaywhileidle=yes", "N\n64\n"),
    Example(36, "send", form: sender + "&message=x&recipients=2000001&timetolive=2419201", "N\n67\n"),
    Example(
      37, "send",
      form: sender + "&message=x&recipients=2000001&collapsekey=" + String(repeating: "k", count: 401), "N\n65\n"),
    Example(38, "send", form: sender + "&recipients=2000001", "N\n63\n"),
    Example(
      39, "received?user=acme&pwd=s3cret&lastMsgId=12552",
      "A\n;;12553\t2024-05-01 09:59\tacme\tACTION_UNSUB\tDPN\tnull\t2000001\tweather\tweather\n"
        + ";;12556\t2024-05-01 10:06\tacme\tACTION_UNSUB_ALL\tDPN\tnull\t2000001\tbye\tbye\n"),
    Example(40, "received?user=acme&pwd=s3cret&lastMsgId=99999", "A\n"),
    Example(41, "received?user=acme&pwd=s3cret", "N\n392\n"),
    Example(42, "received?user=acme&pwd=s3cret&lastMsgId=x", "N\n391\n"),
  ]
  /// Last, since it takes a message number.
  private static let thirtyFourth = Example(
    34, "send", form: sender + "&message=x&recipients=2000001,TESTERS,2000001,777", "A\n12557\n")

  @Test(arguments: Backend.allCases) func `every worked example holds`(_ backend: Backend) async throws {
    try await EventServer.with { server in
      try await NotificationSite.with(backend) { site in
        try await site.setEventURL(server.url)
        try await Self.addGroup(site)
        for example in Self.first { try await Self.check(example, site) }
        try await Self.checkRecipients(site)
        site.clock.set(try Self.time(hour: 10))
        try await Self.check(Self.sixth, site)
        try await Self.checkFirstPushes(site)
        try await Self.check(Self.seventh, site)
        site.clock.set(try Self.time(hour: 10, minute: 5, second: 7, milli: 123))
        try await Self.check(Self.eighth, site)
        try await Self.checkSecondPushes(site)
        site.clock.set(try Self.time(hour: 10, minute: 6))
        for example in Self.upToTwelfth + Self.others { try await Self.check(example, site) }
        try await Self.checkEvents(server)
        site.google.answer(404, "NOT_FOUND", code: "UNREGISTERED")
        try await Self.check(Self.thirtyFourth, site)
        try await Self.checkDeadKey(site, server)
        let unknown = try await site.get("nosuch?user=acme")
        #expect(unknown.status == 404)
        #expect(site.google.faults.isEmpty && site.apple.faults.isEmpty)
      }
    }
  }

  private static func check(_ example: Example, _ site: NotificationSite) async throws {
    let reply: Reply
    if let form = example.form {
      reply = try await site.post(example.call, form)
    } else {
      reply = try await site.get(example.call)
    }
    #expect(reply.status == 200, "\(example.number)")
    #expect(reply.text == example.answer, "\(example.number)")
    #expect(reply.headers.first(name: "content-type") == "text/plain; charset=utf-8")
    #expect(reply.headers.first(name: "cache-control") == "no-store")
  }

  private static func addGroup(_ site: NotificationSite) async throws {
    let members = try [2_000_001, 2_000_002].map { try #require(RecipientNumber($0)) }
    let group = NotificationGroup(name: "Testers", shortName: "tst", members: members)
    let outcome = try await site.store.addNotificationGroup(group, of: try site.acme)
    #expect(outcome == .added)
  }

  private static func recipient(_ number: Int64, _ site: NotificationSite) async throws -> NotificationRecipient? {
    try await site.store.recipient(try #require(RecipientNumber(number)), of: try site.acme)
  }

  private static func checkRecipients(_ site: NotificationSite) async throws {
    let first = try await recipient(2_000_001, site)
    #expect(first?.key == RecipientKey(provider: .fcm, text: "tokB") && first?.isActive == true)
    let second = try await recipient(2_000_002, site)
    #expect(second?.key == RecipientKey(provider: .apns, text: "00fcde"))
  }

  private static func checkFirstPushes(_ site: NotificationSite) async throws {
    try await eventually("both are pushed", within: .seconds(240)) {
      site.google.requests.count == 1 && site.apple.requests.count == 1
    }
    let google =
      #"{"message":{"token":"tokB","data":{"msgno":"12554","message":"Hello"},"#
      + #""android":{"priority":"high"},"apns":{"payload":{"aps":{"alert":"Hello","mutable-content":1}}}}}"#
    #expect(site.google.requests.first?.text == google)
    let apple = try #require(site.apple.requests.first)
    #expect(apple.path == "/3/device/00fcde")
    #expect(apple.text == #"{"aps":{"alert":"Hello","mutable-content":1},"msgno":"12554"}"#)
    #expect(apple.headers["apns-topic"] == PushFiles.topic && apple.headers["apns-push-type"] == "alert")
    #expect(apple.headers["apns-priority"] == "10" && apple.headers["apns-expiration"] == nil)
  }

  private static func checkSecondPushes(_ site: NotificationSite) async throws {
    try await eventually("both are pushed", within: .seconds(240)) {
      site.google.requests.count == 2 && site.apple.requests.count == 2
    }
    let text = try #require(site.google.requests.last?.text)
    #expect(text.contains(#""android":{"priority":"high","collapse_key":"k","ttl":"3600s"}"#))
    // 11:05:07 UTC.
    #expect(text.contains(#""headers":{"apns-expiration":"1714561507","apns-collapse-id":"k"}"#))
  }

  private static func checkEvents(_ server: EventServer) async throws {
    try await eventually("all events are sent", within: .seconds(240)) { server.calls.count >= 5 }
    let calls = server.calls
    #expect(calls.count == 5)
    #expect(calls.allSatisfy { $0.method == "POST" && $0.contentType == "application/x-www-form-urlencoded" })
    let tenth =
      "messageType=DPN&msgNo=12556&createTime=2024-05-01+10%3A06&creatorName=acme&initialId=ACTION_UNSUB_ALL"
      + "&originatorText=2000001&destination=%2Fexternal%2Fnotifications%2Funsubscribeall&subject=bye"
    #expect(calls.last?.body == tenth)
    #expect(calls.first?.body.hasSuffix("destination=%2Fexternal%2Fnotifications%2Fsubscribe&subject=news") == true)
  }

  /// Example 43.
  private static func checkDeadKey(_ site: NotificationSite, _ server: EventServer) async throws {
    try await eventually("the recipient becomes inactive", within: .seconds(240)) {
      try await recipient(2_000_001, site)?.isActive == false
    }
    let events = try await site.events(after: 12_556)
    #expect(events.count == 1)
    #expect(events.first?.hasSuffix("ACTION_UNSUB_ALL\tDPN\tnull\t2000001\tunsub 2000001\tunsub 2000001") == true)
    try await eventually("the event is sent", within: .seconds(240)) { server.calls.count >= 6 }
    let body = try #require(server.calls.last?.body)
    #expect(body.contains("initialId=ACTION_UNSUB_ALL") && body.hasSuffix("destination=&subject=unsub+2000001"))
    #expect(site.google.requests.count == 3)
  }

  private static func time(hour: Int64, minute: Int64 = 0, second: Int64 = 0, milli: Int64 = 0) throws -> Timestamp {
    try #require(
      UTCTime(year: 2024, month: 5, day: 1, hour: hour, minute: minute, second: second, milli: milli)
    ).timestamp
  }
}
