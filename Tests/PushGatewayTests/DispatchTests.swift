import NIOHTTP1
import OrderedCollections
import Push
import PushGateway
import RelayCore
import Synchronization
import TestSupport
import TestTags
import Testing

/// Devices of one request, and requests that are repeated (reference 9, 12, 13).
@Suite(.tags(.unit)) struct DispatchTests {
  private static let (apns, fcm, web) = ("com.example.apns", "com.example.fcm", "com.example.web")
  private static let token = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="

  @Test func `a device that fails hides no other's outcome`() async throws {
    try await PushSite.with { site in
      try await site.gateway { gateway in
        site.apple.answer(410, reason: "Unregistered")
        site.google.answer(.answer(400, "{}"), to: #""k2""#)
        let devices = [(Self.apns, Self.token), (Self.fcm, "k2"), ("no.such", "k3"), (Self.fcm, "k4")]
        let failed = try await gateway.notify(devices)
        #expect(failed.status == 502 && failed.errorCode == "M_UNKNOWN")
        #expect(site.apple.requests.count == 1 && site.google.requests.count == 2)
        // Only the one that failed is tried again, and the rejections are not lost.
        let repeated = try await gateway.notify(devices)
        #expect(repeated.status == 200 && repeated.rejected == [Self.token, "k3"])
        #expect(site.apple.requests.count == 1 && site.google.requests.count == 3)
        #expect(Set(site.google.requests.prefix(2).map(Self.key)) == ["k2", "k4"])
        #expect(site.google.requests.map(Self.key).last == "k2")
      }
    }
  }

  @Test func `a repeated request pushes nothing again`() async throws {
    try await PushSite.with { site in
      try await site.gateway { gateway in
        for _ in 0..<3 {
          let status = try await gateway.notify([(Self.fcm, "k"), (Self.fcm, "k")]).status
          #expect(status == 200)
        }
        // The same key twice is two pushes.
        #expect(site.google.requests.count == 2)
        Self.expect(try await gateway.notify([(Self.fcm, "k")], event: "$other"), 200)
        Self.expect(try await gateway.notify([(Self.fcm, "other")]), 200)
        Self.expect(try await gateway.notify([(Self.fcm, "k")], data: ["account": .text("2")]), 200)
        #expect(site.google.requests.count == 5)
      }
    }
  }

  @Test func `counts alone are pushed each time`() async throws {
    try await PushSite.with { site in
      try await site.gateway { gateway in
        for _ in 0..<3 {
          let status = try await gateway.notify([(Self.fcm, "k")], event: nil).status
          #expect(status == 200)
        }
        #expect(site.google.requests.count == 3)
      }
    }
  }

  @Test func `a request that is repeated while it is under way is one push`() async throws {
    try await PushSite.with { site in
      site.google.pause(.milliseconds(300))
      try await site.gateway { gateway in
        let statuses = try await Self.together(20) { _ in try await gateway.notify([(Self.fcm, "k")]).status }
        #expect(statuses == Array(repeating: 200, count: 20))
        #expect(site.google.requests.count == 1)
      }
    }
  }

  @Test func `a caller that joins a failing push is told so`() async throws {
    try await PushSite.with { site in
      site.google.pause(.milliseconds(300))
      site.google.answerAlways(.answer(400, "{}"))
      try await site.gateway { gateway in
        let statuses = try await Self.together(5) { _ in try await gateway.notify([(Self.fcm, "k")]).status }
        #expect(statuses == Array(repeating: 502, count: 5))
      }
    }
  }

  @Test func `a provider that does not answer slows no other`() async throws {
    try await PushSite.with { site in
      site.apple.service.answerAlways(.silence)
      try await site.gateway(deadline: .seconds(280)) { gateway in
        async let stuck = gateway.notify([(Self.apns, Self.token)], event: "$stuck")
        try await eventually("Apple is asked") { !site.apple.requests.isEmpty }
        for number in 0..<50 {
          Self.expect(try await gateway.notify([(Self.fcm, "k")], event: "$\(number)"), 200)
        }
        #expect(site.google.requests.count == 50)
        // No provider answers there from now on, and that is soon known.
        try await site.apple.close()
        #expect(try await stuck.status == 502)
      }
    }
  }

  @Test func `no request outlasts its deadline, and a push that failed is no success`() async throws {
    try await PushSite.with { site in
      site.google.answerAlways(.answer(503, "{}"))
      site.browsers.service.answerAlways(.answer(503))
      site.apple.service.answerAlways(.answer(503, #"{"reason":"ServiceUnavailable"}"#))
      let time = RecordedTime()
      try await site.gateway(time.time, deadline: .seconds(2)) { gateway in
        let data: JSONObject = ["endpoint": .text(site.subscription.endpoint), "auth": .text(site.subscription.auth)]
        for (app, key) in [(Self.apns, Self.token), (Self.fcm, "k"), (Self.web, site.subscription.p256dh)] {
          Self.expect(try await gateway.notify([(app, key)], data: data), 502)
        }
        // No wait fits: none is begun.
        #expect(time.waits == [])
      }
    }
  }

  @Test func `an app with as much under way as may be takes no more`() async throws {
    try await PushSite.with { site in
      site.google.answerAlways(.silence)
      try await site.gateway(RecordedTime().time, deadline: .seconds(280), inflightMax: 2) { gateway in
        async let first = gateway.notify([(Self.fcm, "k")], event: "$1")
        async let second = gateway.notify([(Self.fcm, "k")], event: "$2")
        try await eventually("two are under way") { site.google.requests.count == 2 }
        Self.expect(try await gateway.notify([(Self.fcm, "k")], event: "$3"), 502)
        #expect(site.google.requests.count == 2)
        // Others are not held up.
        Self.expect(try await gateway.notify([(Self.apns, Self.token)], event: "$4"), 200)
        try await site.google.close()
        #expect(try await (first.status, second.status) == (502, 502))
      }
    }
  }

  @Test func `work is dropped when its caller has gone`() async throws {
    try await PushSite.with { site in
      // Its repeat would come in ten minutes, and until then the app takes no other.
      site.google.answer(.answer(503, "{}", headers: ["Retry-After": "600"]))
      try await site.gateway(deadline: .seconds(900), inflightMax: 1) { gateway in
        let abandoned = Task { try await gateway.notify([(Self.fcm, "k")], event: "$1") }
        try await eventually("Google is asked") { site.google.requests.count == 1 }
        abandoned.cancel()
        var number = 1
        try await eventually("the app takes another") {
          number += 1
          return try await gateway.notify([(Self.fcm, "other")], event: "$\(number)").status == 200
        }
        #expect(site.google.requests.map(Self.key) == ["k", "other"])
      }
    }
  }

  @Test func `a caller that waits for a push that is given up takes it on`() async throws {
    try await PushSite.with { site in
      site.google.answer(.answer(503, "{}", headers: ["Retry-After": "600"]))
      try await site.gateway(deadline: .seconds(900)) { gateway in
        let abandoned = Task { try await gateway.notify([(Self.fcm, "k")]) }
        try await eventually("Google is asked") { site.google.requests.count == 1 }
        let joiners = (0..<3).map { _ in Task { try await gateway.notify([(Self.fcm, "k")]).status } }
        // Theirs are behind it, as far as can be told from here.
        Self.expect(try await gateway.notify([(Self.fcm, "other")], event: "$other"), 200)
        abandoned.cancel()
        for joiner in joiners { #expect(try await joiner.value == 200) }
        #expect(site.google.requests.map(Self.key) == ["k", "other", "k"])
      }
    }
  }

  @Test func `bodies have a bound together, those that wait for a push included`() async throws {
    try await PushSite.with { site in
      site.google.answerAlways(.silence)
      try await site.gateway(RecordedTime().time, deadline: .seconds(280), openBytesMax: 1000) { gateway in
        let large = ["pad": JSONValue.text(String(repeating: "x", count: 600))] as JSONObject
        async let first = gateway.notify([(Self.fcm, "k")], data: large)
        try await eventually("the first is open") { site.google.requests.count == 1 }
        let refused = try await gateway.notify([(Self.fcm, "k")], data: large)
        #expect(refused.status == 503 && refused.errorCode == "M_UNKNOWN")
        #expect(refused.headers.first(name: "Retry-After") == "10")
        Self.expect(try await gateway.notify([(Self.apns, Self.token)]), 200)
        try await site.google.close()
        Self.expect(try await first, 502)
        // All of it is free again.
        for number in 0..<10 {
          let reply = try await gateway.notify([(Self.apns, Self.token)], event: "$\(number)", data: large)
          Self.expect(reply, 200)
        }
      }
    }
  }

  @Test func `a homeserver is not put off for long`() {
    let device = NotifiedDevice(appID: "a", pushKey: "k", data: nil)
    let reason = PushReason(.server, "busy")
    for (asked, told) in [(7, 7), (300, 300), (86_400, 300)] {
      let answer = NotifyAnswer([device], [.failed(reason, retryAfter: .seconds(asked))])
      #expect(answer == .failed(retryAfter: .seconds(told)))
    }
  }

  /// Reference 7.2, 7.5; 13, number 3: given up is only what no repeat would change.
  @Test func `a push that a push service refuses is given up, and one that it cannot take now failed`() async throws {
    try await PushSite.with { site in
      let data: JSONObject = ["endpoint": .text(site.subscription.endpoint), "auth": .text(site.subscription.auth)]
      let rows = [
        (400, 200), (401, 200), (403, 200), (405, 200), (301, 200), (500, 502), (429, 502), (413, 200),
        (408, 502),
      ]
      for (status, told) in rows {
        site.browsers.service.answerAlways(.answer(status))
        try await site.gateway(RecordedTime().time) { gateway in
          let reply = try await gateway.notify([(Self.web, site.subscription.p256dh)], data: data)
          #expect(reply.status == told && reply.rejected == (told == 200 ? [] : nil), "\(status): \(reply.text)")
        }
      }
    }
  }

  /// Apple takes a new token of a key every 20 minutes at most.
  @Test func `apps of one key show Apple one token`() async throws {
    try await PushSite.with { site in
      try await site.gateway { gateway in
        let apps = [Self.apns, Self.apns + ".alert", Self.apns + ".voip"]
        let reply = try await gateway.notify(apps.map { ($0, Self.token) })
        #expect(reply.status == 200 && reply.rejected == [])
        #expect(site.apple.tokens.count == 1 && site.apple.faults.isEmpty)
      }
    }
  }

  @Test func `many devices are all served`() async throws {
    try await PushSite.with { site in
      try await site.gateway { gateway in
        let devices = (0..<200).map { (Self.fcm, "k\($0)") }
        Self.expect(try await gateway.notify(devices), 200)
        #expect(Set(site.google.requests.compactMap(Self.key)).count == 200)
      }
    }
  }

  @Test func `devices of one app start side by side`() async throws {
    try await PushSite.with { site in
      site.google.hold()
      site.apple.service.hold()
      try await site.gateway { gateway in
        let devices = (0..<12).map { (Self.fcm, "k\($0)") } + [(Self.apns, Self.token)]
        async let reply = gateway.notify(devices)
        // None has its answer.
        try await eventually("all are asked for") { site.google.requests.count == 12 && site.apple.requests.count == 1 }
        site.google.release()
        site.apple.service.release()
        Self.expect(try await reply, 200)
      }
    }
  }

  @Test func `a request of more devices than may be under way is served bit by bit`() async throws {
    try await PushSite.with { site in
      try await site.gateway(inflightMax: 3) { gateway in
        site.google.hold()
        async let reply = gateway.notify((0..<12).map { (Self.fcm, "k\($0)") })
        try await eventually("three are under way") { site.google.requests.count == 3 }
        site.google.release()
        Self.expect(try await reply, 200)
        #expect(Set(site.google.requests.compactMap(Self.key)).count == 12)
      }
    }
  }

  /// As FCM's.
  @Test func `a push service that asks for a short pause is asked again within the request`() async throws {
    try await PushSite.with { site in
      let data: JSONObject = ["endpoint": .text(site.subscription.endpoint), "auth": .text(site.subscription.auth)]
      let time = RecordedTime()
      try await site.gateway(time.time, deadline: .seconds(45)) { gateway in
        site.browsers.service.answer(.answer(429, "", headers: ["Retry-After": "3"]))
        Self.expect(try await gateway.notify([(Self.web, site.subscription.p256dh)], data: data), 200)
        #expect(time.waits == [.seconds(3)] && site.browsers.requests.count == 2)
      }
    }
  }

  @Test func `legacy FCM is asked again for those it could not serve, in one form or the other`() async throws {
    try await PushSite.with { site in
      let time = RecordedTime()
      try await site.gateway(time.time) { gateway in
        let unavailable = #"{"error":"Unavailable"}"#
        site.google.answer(
          .answer(200, #"{"results":[{"message_id":"m"},\#(unavailable),{"error":"NotRegistered"},\#(unavailable)]}"#),
          .answer(200, #"{"results":[{"message_id":"m"},\#(unavailable)]}"#))
        let devices = (1...4).map { ("com.example.legacy", "r\($0)") }
        let reply = try await gateway.notify(devices)
        #expect(reply.status == 200 && reply.rejected == ["r3"])
        let bodies = try site.google.requests.map { try #require(try JSONValue(parsing: $0.body).object) }
        #expect(
          bodies.map { $0["registration_ids"]?.list?.compactMap(\.text) } == [
            ["r1", "r2", "r3", "r4"], ["r2", "r4"], nil,
          ])
        #expect(bodies.map { $0["to"]?.text } == [nil, nil, "r4"])
        #expect(time.waits == [.seconds(10), .seconds(10)])
      }
    }
  }

  @Test func `a push service that takes less is sent the ids alone`() async throws {
    try await PushSite.with { site in
      try await site.gateway { gateway in
        site.browsers.service.answer(.answer(413))
        let notification = try JSONValue(
          """
          {"notification": {"event_id": "$e", "room_id": "!r:x", "type": "m.room.message", "room_name": "Room",
          "content": {"body": "\(String(repeating: "x", count: 900))"}, "counts": {"unread": 1}, "devices": [
          {"app_id": "\(Self.web)", "pushkey": "\(site.subscription.p256dh)",
          "data": {"endpoint": "\(site.subscription.endpoint)", "auth": "\(site.subscription.auth)"}}]}}
          """)
        Self.expect(try await gateway.post(notification), 200)
        let messages = try site.browsers.messages.map { try JSONValue($0) }
        #expect(messages.count == 2)
        let brief = try JSONValue(#"{"room_id": "!r:x", "event_id": "$e", "unread": 1}"#)
        #expect(messages.last.map { $0.says(brief) } == true)
      }
    }
  }

  // MARK: Help

  private static func expect(
    _ reply: GatewayClient.Reply, _ status: Int, sourceLocation: SourceLocation = #_sourceLocation
  ) {
    #expect(reply.status == status, "\(reply.text)", sourceLocation: sourceLocation)
  }

  private static func key(_ request: FakeRequest) -> String? {
    (request.json["message"] as? [String: Any])?["token"] as? String
  }

  private static func together<Value: Sendable>(
    _ count: Int, _ body: @escaping @Sendable (Int) async throws -> Value
  ) async throws -> [Value] {
    try await withThrowingTaskGroup(of: Value.self) { group in
      for index in 0..<count { group.addTask { try await body(index) } }
      return try await group.reduce(into: []) { $0.append($1) }
    }
  }
}
