import NIOHTTP1
import RelayCore
import RelayHTTP
import TestSupport
import TestTags
import Testing

/// The rules of the interface that no example shows.
@Suite(.tags(.stores)) struct MethodTests {
  @Test(arguments: Backend.allCases) func `a recipient's states, with what each method does`(_ backend: Backend)
    async throws
  {
    try await NotificationSite.with(backend) { site in
      let number = try await site.subscribe(key: "k1")
      let of = "user=acme&recipientid=\(number)&spid=fcm"
      for call in ["unsubscribeall?\(of)&message=bye", "unsubscribeall?\(of)", "unsubscribe?\(of)&message=no"] {
        let reply = try await site.get(call)
        #expect(reply.text == "A\n\(number)\n")
      }
      let silent = try await site.post("send", "user=acme&pwd=s3cret&message=x&recipients=\(number)")
      #expect(silent.text == "N\n28\n")
      let allowed = try await site.get("get?user=acme&recipientid=\(number)&lastmsgno=0")
      #expect(allowed.text == "A\n")
      // A subscription makes it active again, with another provider and key.
      let again = try await site.get("subscribe?user=acme&recipientid=\(number)&spid=apns&key=AB")
      #expect(again.text == "A\n\(number)\n")
      let recipient = try await site.store.recipient(try #require(RecipientNumber(text: number)), of: try site.acme)
      #expect(recipient?.isActive == true && recipient?.key == RecipientKey(provider: .apns, text: "ab"))
      let updated = try await site.get("updatekey?\(of)&key=k2")
      #expect(updated.text == "A\n\(number)\n")
      let actions = try await site.events().map { $0.split(separator: "\t")[3] }
      #expect(actions == ["ACTION_SUB", "ACTION_UNSUB_ALL", "ACTION_SUB"])
    }
  }

  /// Each request breaks the rule of its code and those of all codes behind it.
  @Test func `the first failure in the order of checks answers`() async throws {
    try await NotificationSite.with { site in
      let number = try await site.subscribe(key: "k1")
      let long = String(repeating: "m", count: 4001)
      let (bad, badKey) = ("spid=x", "spid=fcm&key=%20")
      let requests: [(String, String, Int)] = [
        ("subscribe", "recipientid=x&\(bad)", 23), ("subscribe", "user=&recipientid=x", 22),
        ("subscribe", "user=none&recipientid=x", 7), ("subscribe", "user=acme&recipientid=x&\(bad)", 412),
        ("subscribe", "user=acme&recipientid=1&\(bad)", 46), ("subscribe", "user=acme&\(bad)&message=\(long)", 60),
        ("subscribe", "user=acme&\(badKey)&message=\(long)", 61),
        ("subscribe", "user=acme&spid=fcm&key=k&message=\(long)", 63),
        ("updatekey", "user=acme&\(bad)", 412), ("updatekey", "user=acme&recipientid=01&\(bad)", 46),
        ("updatekey", "user=acme&recipientid=\(number)&\(bad)", 60),
        ("updatekey", "user=acme&recipientid=\(number)&\(badKey)", 61),
        ("unsubscribe", "user=acme&recipientid=\(number)&\(bad)&message=\(long)", 60),
        ("unsubscribeall", "user=acme&recipientid=\(number)&spid=apns&message=\(long)", 63),
        ("get", "user=acme&recipientid=x&sentafter=1", 392),
        ("get", "user=acme&lastmsgno=1234567890123456789&recipientid=x", 391),
        ("get", "user=acme&lastmsgno=0&recipientid=&sentafter=1", 412),
        ("get", "user=acme&lastmsgno=0&recipientid=5&sentafter=1", 46),
        ("get", "user=acme&lastmsgno=0&recipientid=\(number)&sentafter=20230229000000000", 66),
        ("send", "user=&message=", 22), ("send", "user=none", 25), ("send", "user=none&pwd=", 24),
        ("send", "user=none&pwd=s3cret&message=", 7),
        ("send", "user=acme&pwd=s3cret&message=&delaywhileidle=x", 63),
        ("send", "user=acme&pwd=s3cret&message=\(long)&delaywhileidle=x", 63),
        ("send", "user=acme&pwd=s3cret&message=a&delaywhileidle=TRUE&collapsekey=%FF", 64),
        ("send", "user=acme&pwd=s3cret&message=a&collapsekey=%FF&timetolive=-1", 65),
        ("send", "user=acme&pwd=s3cret&message=a&timetolive=-1&restrictedpackagename=a-b", 67),
        ("send", "user=acme&pwd=s3cret&message=a&restrictedpackagename=a-b", 68),
        ("send", "user=acme&pwd=s3cret&message=a&recipients=%20,%20", 28),
        ("received", "user=acme&pwd=s3cret&lastMsgId=", 392),
        ("received", "user=acme&pwd=s3cret&lastMsgId=1x", 391),
      ]
      for (method, form, code) in requests {
        let reply = try await site.post(method, form)
        #expect(reply.text == "N\n\(code)\n", "\(method) \(form.prefix(80))")
      }
      // None had an effect.
      let events = try await site.events()
      #expect(events.count == 1)
    }
  }

  @Test func `an account without the right is nobody, and quota and credits come last`() async throws {
    try await NotificationSite.with { site in
      let number = try await site.subscribe(key: "k1")
      func set(_ edit: (inout NotificationAccountChange) -> Void) async throws {
        var change = NotificationAccountChange()
        edit(&change)
        let isChanged = try await site.store.changeNotificationAccount(
          try site.acme, change, now: site.clock.now)
        #expect(isChanged)
      }
      let form = "user=acme&pwd=s3cret&message=a&recipients=\(number)"
      try await set {
        $0.quota = .set(NotificationQuota(max: 1, period: .day))
        $0.credits = .set(1)
      }
      var texts = [try await site.post("send", form).text, try await site.post("send", form).text]
      try await set { $0.quota = .set(nil) }
      texts.append(try await site.post("send", form).text)
      try await set { $0.isPermitted = false }
      texts.append(try await site.post("send", form).text)
      texts.append(try await site.get("get?user=acme&recipientid=\(number)&lastmsgno=0").text)
      #expect(texts == ["A\n12551\n", "N\n11\n", "N\n12\n", "N\n7\n", "N\n7\n"])
    }
  }

  @Test func `parameters, verbs, types and sizes`() async throws {
    try await NotificationSite.with { site in
      // The body goes before the query string, and the first of those that repeat.
      let posted = try await site.post("subscribe?user=nobody&spid=apns&key=ab", "user=acme&spid=fcm&spid=x&key=k&key=")
      #expect(posted.text == "A\n2000001\n")
      let spaced = try await site.get("get?user=acme&recipientid=+2000001%20&lastmsgno=%200&unknown=%FF")
      #expect(spaced.text == "A\n")
      let malformed = try await site.get("subscribe?user=acme&spid=fcm&key=k&message=%FF")
      #expect(malformed.text == "N\n63\n")
      let named = try await site.get("subscribe?User=acme&spid=fcm&key=k")
      #expect(named.text == "N\n23\n")
      for method in [HTTPMethod.PUT, .DELETE, .HEAD] {
        let reply = try await NotificationSite.request(site.base + "get", method)
        #expect(reply.status == 405)
        #expect(reply.headers.first(name: "allow") == "GET, POST")
      }
      let typed = try await NotificationSite.request(
        site.base + "get", .POST, body: "{}", headers: ["content-type": "application/json"])
      #expect(typed.status == 415)
      let large = try await site.post("send", "user=acme&message=" + String(repeating: "a", count: 64 << 10))
      #expect(large.status == 413)
    }
  }

  @Test func `a request's line may be as long as a request`() async throws {
    try await NotificationSite.with { site in
      let path = "/external/notifications/"
      func call(bytes: Int) -> String {
        // The parameters that count stand at the end.
        let (start, end) = ("subscribe?filler=", "&user=acme&spid=fcm&key=tok")
        return start + String(repeating: "x", count: bytes - (path + start + end).utf8.count) + end
      }
      let long = try await site.get(call(bytes: 60 << 10))
      #expect(long.status == 200 && long.text == "A\n2000001\n")
      let longest = try await site.get(call(bytes: 64 << 10))
      #expect(longest.status == 200 && longest.text == "A\n2000002\n")
      for bytes in [(64 << 10) + 1, 70 << 10] {
        let refused = try await site.get(call(bytes: bytes))
        #expect(refused.status == 413, "\(bytes)")
      }
    }
  }

  @Test func `JSON has the same fields, and texts as they are`() async throws {
    try await NotificationSite.with { site in
      let json: HTTPHeaders = ["accept": "text/html;q=0.5, application/json"]
      let subscribed = try await site.get("subscribe?user=acme&spid=fcm&key=k&message=a%09b", headers: json)
      #expect(subscribed.text == #"{"result":"A","recipientid":"2000001"}"#)
      #expect(subscribed.headers.first(name: "content-type") == "application/json")
      let of = "user=acme&recipientid=2000001&spid=fcm"
      _ = try await site.get("unsubscribeall?\(of)")
      let updated = try await site.get("updatekey?\(of)&key=k", headers: json)
      #expect(updated.text == #"{"result":"A","recipientid":"2000001","message":"reactivated"}"#)
      let sent = try await site.post(
        "send", "user=acme&pwd=s3cret&message=a%0Ab&recipients=2000001", headers: json)
      #expect(sent.text == #"{"result":"A","msgno":"12552"}"#)
      let got = try await site.get("get?user=acme&recipientid=2000001&lastmsgno=0", headers: json)
      let content = #""content":"a\u000ab"}]}"#
      #expect(
        got.text == #"{"result":"A","notifications":[{"msgno":"12552","sent":"20240501095900000","# + content)
      let refused = try await site.get("get?user=acme&recipientid=5&lastmsgno=0", headers: json)
      #expect(
        refused.text
          == #"{"result":"N","errno":46,"error":"Cannot find a recipient with the supplied recipient ID"}"#)
    }
  }

  @Test func `washing is the default of get alone`() async throws {
    try await NotificationSite.with { site in
      let number = try await site.subscribe(key: "k", message: "a%0D%0Ab%09c%0Ad")
      try await site.send("a%0Db", to: number)
      let raw = try await site.get("received?user=acme&pwd=s3cret&lastMsgId=0")
      #expect(raw.text.hasSuffix("\ta\r\nb\tc\nd\ta\r\nb\tc\nd\n"))
      let washed = try await site.get("received?user=acme&pwd=s3cret&lastMsgId=0&clean=true")
      #expect(washed.text.hasSuffix("\ta\\nb c\\nd\ta\\nb c\\nd\n"))
      let got = try await site.get("get?user=acme&recipientid=\(number)&lastmsgno=0&clean=false")
      #expect(got.text.hasSuffix("\ta\rb\n"))
    }
  }

  @Test func `a client that is wrong too often is told nothing more, and fetching has its limit`() async throws {
    let limits: [LimiterName: Bucket] = [
      .notificationLookups: Bucket(size: 3, perMinute: 3), .notificationRetrievals: Bucket(size: 2, perMinute: 2),
    ]
    try await NotificationSite.with(limits: limits) { site in
      let number = try await site.subscribe(key: "k")
      let fetch = "received?user=acme&pwd=s3cret&lastMsgId=99999"
      var texts: [String] = []
      for _ in 0..<3 { texts.append(try await site.get(fetch).text) }
      #expect(texts == ["A\n", "A\n", "N\n11\n"])
      var statuses: [Int] = []
      for call in [
        "user=nobody", "user=acme&recipientid=x", "user=acme&recipientid=5", "user=acme&recipientid=\(number)",
      ] {
        statuses.append(try await site.get("get?lastmsgno=0&\(call)").status)
      }
      #expect(statuses == [200, 200, 200, 429])
      site.clock.advance(.seconds(60))
      let later = try await site.get("get?lastmsgno=0&user=acme&recipientid=\(number)")
      #expect(later.text == "A\n")
    }
  }

  @Test func `events of one address have a bound, and what is refused costs nothing`() async throws {
    try await NotificationSite.with(limits: [.notificationEvents: Bucket(size: 3, perMinute: 3)]) { site in
      let number = try await site.subscribe(key: "k")
      let of = "user=acme&spid=fcm&recipientid="
      // Of a number that is nobody's.
      _ = try await site.get("unsubscribe?\(of)5")
      for call in ["subscribe?key=k&", "unsubscribe?", "unsubscribeall?"] {
        let taken = try await site.get("\(call)\(of)\(number)")
        #expect(taken.status == 200 && taken.text.hasPrefix("A"), "\(call)")
      }
      for call in ["subscribe?key=k&", "unsubscribe?", "unsubscribeall?"] {
        let refused = try await site.get("\(call)\(of)\(number)")
        #expect(refused.status == 429 && refused.headers.first(name: "retry-after") == "60", "\(call)")
      }
      let events = try await site.events()
      #expect(events.count == 4)
      // Whoever makes no event is served, and so is a new recipient, by its own bound.
      let got = try await site.get("get?user=acme&lastmsgno=0&recipientid=\(number)")
      #expect(got.text.hasPrefix("A"))
      _ = try await site.subscribe(key: "other")
      site.clock.advance(.seconds(60))
      let later = try await site.get("unsubscribe?\(of)\(number)")
      #expect(later.status == 200)
    }
  }

  @Test func `a process that is about to stop takes nothing`() async throws {
    try await NotificationSite.with { site in
      site.drain.begin()
      let reply = try await site.get("get?user=acme")
      #expect(reply.status == 503)
    }
  }

  @Test func `pages of a thousand, the oldest first`() async throws {
    try await NotificationSite.with { site in
      let number = try #require(RecipientNumber(text: try await site.subscribe(key: "k")))
      for _ in 0..<1001 {
        try await site.store.unsubscribe(
          number, of: try site.acme, fromAll: false, subject: NotificationText(""), now: site.clock.now)
      }
      let first = try await site.events()
      #expect(first.count == 1000 && first.last?.hasPrefix(";;13549\t") == true)
      let second = try await site.events(after: 13_549)
      #expect(second.count == 2)
    }
  }
}
