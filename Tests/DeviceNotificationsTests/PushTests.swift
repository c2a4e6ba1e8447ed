import NIOHTTP1
import RelayCore
import TestSupport
import TestTags
import Testing

/// The pushes to the providers, and their outcome.
@Suite(.tags(.stores)) struct PushTests {
  /// The life of a push in these tests: the clock may be moved far.
  private static let longLife = "&timetolive=2419200"

  private static func isIdle(_ site: NotificationSite) async throws -> Bool {
    try await site.store.notificationQueues().allSatisfy { $0.waiting == 0 }
  }

  @Test(arguments: Backend.allCases) func `a provider in trouble is asked again until it takes the push`(
    _ backend: Backend
  ) async throws {
    try await NotificationSite.with(backend) { site in
      let number = try await site.subscribe(key: "tok")
      site.google.answer(503, "UNAVAILABLE")
      site.google.answer(429, "RESOURCE_EXHAUSTED", headers: ["retry-after": "30"])
      site.google.service.answer(.hangUp)
      try await site.send(to: number, options: Self.longLife)
      try await site.passTime(until: "the push is taken") { try await Self.isIdle(site) }
      // PostgreSQL ends the claim of an attempt by its own clock: on a machine that is slower than that it is made
      // again.
      #expect(site.google.requests.count >= 4)
      if backend == .embedded { #expect(site.google.requests.count == 4) }
      #expect(Set(site.google.requests.map(\.text)).count == 1)
    }
  }

  @Test(arguments: Backend.allCases)
  func `pushes for a provider without keys here are left to a process that has them`(_ backend: Backend) async throws {
    try await NotificationSite.with(backend, providers: [.fcm]) { site in
      let google = try await site.subscribe(key: "tok")
      let apple = try await site.subscribe(key: "00fcde", provider: "apns")
      let moved = try await site.subscribe(key: "tok-2")
      try await site.send(to: "\(google),\(apple)", options: Self.longLife)
      try await eventually("Google has its push") { site.google.requests.count == 1 }
      try await eventually("Apple's waits") {
        try await site.store.notificationQueues().map(\.waiting).reduce(0, +) == 1
      }
      _ = try await site.get("updatekey?user=acme&recipientid=\(moved)&spid=apns&key=00fcdf")
      try await site.send(to: moved, options: Self.longLife)
      #expect(site.apple.requests.isEmpty && site.google.requests.count == 1)
      try await site.withOtherProcess {
        try await site.passTime(until: "Apple has both") { site.apple.requests.count == 2 }
        try await site.passTime(until: "nothing waits") { try await Self.isIdle(site) }
      }
      #expect(Set(site.apple.requests.map(\.path)) == ["/3/device/00fcde", "/3/device/00fcdf"])
    }
  }

  @Test func `a failure that another try cannot change is given up, and costs nobody a recipient`() async throws {
    try await NotificationSite.with { site in
      let number = try await site.subscribe(key: "tok")
      // Refused credentials also halt the lane for a while: what comes meanwhile waits.
      site.google.answer(403, "PERMISSION_DENIED")
      try await site.send(to: number, options: Self.longLife)
      try await site.passTime(until: "the push is given up") { try await Self.isIdle(site) }
      // A project that is not there says nothing of the key.
      site.google.answer(404, "NOT_FOUND")
      try await site.send(to: number, options: Self.longLife)
      try await site.passTime(until: "the push is given up") { try await Self.isIdle(site) }
      #expect(site.google.requests.count == 2)
      try await site.send(to: number, options: Self.longLife)
      try await site.passTime(until: "the push is made") { try await Self.isIdle(site) }
      #expect(site.google.requests.count == 3)
      let events = try await site.events()
      #expect(events.count == 1)
    }
  }

  @Test func `now or never: one attempt`() async throws {
    try await NotificationSite.with { site in
      let number = try await site.subscribe(key: "tok")
      site.google.answer(503, "UNAVAILABLE")
      // A machine that is slower than a claim holds may miss the one attempt: then there is none.
      for _ in 0..<10 where site.google.requests.isEmpty {
        try await site.send(to: number, options: "&timetolive=0")
        try await site.passTime(until: "the push is given up") { try await Self.isIdle(site) }
      }
      #expect(site.google.requests.count == 1)
      let text = try #require(site.google.requests.first?.text)
      #expect(text.contains(#""ttl":"0s""#) && text.contains(#""apns-expiration":"0""#))
    }
  }

  @Test func `a service in trouble slows no other`() async throws {
    try await NotificationSite.with { site in
      let android = try await site.subscribe(key: "tok")
      let apple = try await site.subscribe(key: "ab", provider: "apns")
      site.google.service.answerAlways(.silence)
      for _ in 0..<5 { try await site.send(to: "\(android),\(apple)") }
      try await site.passTime(until: "Apple has all") { site.apple.requests.count == 5 }
      // The silent provider is let go, so that the pushers can stop.
      try await site.google.close()
    }
  }

  @Test(arguments: Backend.allCases)
  func `a key that was replaced gets the repeat, and the former one's death changes nothing`(
    _ backend: Backend
  ) async throws {
    try await NotificationSite.with(backend) { site in
      let number = try await site.subscribe(key: "old")
      // The answer waits until the key is another one.
      site.google.service.hold()
      site.google.answer(404, "NOT_FOUND", code: "UNREGISTERED")
      try await site.send(to: number)
      try await site.passTime(until: "the old key is pushed to") { !site.google.requests.isEmpty }
      let updated = try await site.get("updatekey?user=acme&recipientid=\(number)&spid=fcm&key=new")
      #expect(updated.text == "A\n\(number)\n")
      site.google.service.release()
      try await site.passTime(until: "the new key is pushed to") {
        site.google.requests.contains { $0.text.contains(#""token":"new""#) }
      }
      let events = try await site.events()
      #expect(events.count == 1)
    }
  }

  @Test func `Apple's word on a dead key makes the recipient inactive`() async throws {
    try await NotificationSite.with { site in
      let number = try await site.subscribe(key: "AB", provider: "apns")
      site.apple.answer(410, reason: "Unregistered")
      try await site.send(to: number)
      try await site.passTime(until: "the recipient is inactive") {
        let event = try await site.events().last
        return event?.hasSuffix("unsub \(number)") == true
      }
      let reply = try await site.post("send", "user=acme&pwd=s3cret&message=x&recipients=\(number)")
      #expect(reply.text == "N\n28\n")
    }
  }

  @Test func `events wait for a server that fails, in their order`() async throws {
    try await EventServer.with { server in
      try await NotificationSite.with { site in
        try await site.setEventURL(server.url + "?secret=1", .get)
        server.answer(500, 302)
        let number = try await site.subscribe(key: "tok", message: "one")
        for text in ["two", "three"] {
          _ = try await site.get("unsubscribe?user=acme&recipientid=\(number)&spid=fcm&message=\(text)")
        }
        try await site.passTime(until: "all events are taken") { server.calls.count >= 5 }
        let calls = server.calls
        #expect(calls.count == 5)
        #expect(calls.map { $0.target.suffix(7) } == ["ect=one", "ect=one", "ect=one", "ect=two", "t=three"])
        #expect(calls.allSatisfy { $0.method == "GET" && $0.target.hasPrefix("/events?secret=1&messageType=DPN&") })
        // They can be fetched all the same.
        let events = try await site.events()
        #expect(events.count == 3)
      }
    }
  }
}
