import Logging
import NIOHTTP1
import OrderedCollections
import Push
import PushGateway
import RelayCore
import TestSupport
import TestTags
import Testing

/// The listener's promises, whatever is pushed (reference 2, 11).
@Suite(.tags(.unit)) struct EdgeTests {
  private static func with(_ body: (GatewayClient) async throws -> Void) async throws {
    try await GatewayClient.with(PushGatewaySettings(host: "127.0.0.1", port: 0), [], .system, body)
  }

  private static let request = Array(#"{"notification":{"devices":[{"app_id":"a","pushkey":"k"}]}}"#.utf8)

  @Test func `health is told`() async throws {
    try await Self.with { gateway in
      for method in [HTTPMethod.GET, .HEAD] {
        let reply = try await gateway.send(method, "/health")
        #expect(reply.status == 200 && reply.text.isEmpty)
      }
    }
  }

  @Test func `answers are JSON, with or without a slash at the end`() async throws {
    try await Self.with { gateway in
      for path in [GatewayClient.notifyPath, GatewayClient.notifyPath + "/"] {
        let reply = try await gateway.post(Self.request, to: path)
        #expect(reply.status == 200 && reply.rejected == ["k"])
        #expect(reply.headers.first(name: "Content-Type") == "application/json")
      }
    }
  }

  @Test func `unknown paths and methods are unrecognized`() async throws {
    try await Self.with { gateway in
      for path in ["/", "/_matrix/push/v1", "/_matrix/push/v1/notify/x", "/metrics"] {
        let reply = try await gateway.post(Self.request, to: path)
        #expect(reply.status == 404 && reply.errorCode == "M_UNRECOGNIZED", "\(path)")
      }
      for method in [HTTPMethod.GET, .PUT, .DELETE, .OPTIONS, .PATCH] {
        let reply = try await gateway.send(method, GatewayClient.notifyPath)
        #expect(reply.status == 405 && reply.errorCode == "M_UNRECOGNIZED", "\(method)")
        #expect(reply.headers.first(name: "Allow") == "POST", "\(method)")
      }
      #expect(try await gateway.send(.HEAD, GatewayClient.notifyPath).status == 405)
      #expect(try await gateway.post([], to: "/health").status == 405)
    }
  }

  @Test func `a body may have 512 KiB`() async throws {
    try await Self.with { gateway in
      func padded(_ count: Int) -> [UInt8] { Self.request + Array(repeating: 0x20, count: count - Self.request.count) }
      #expect(try await gateway.post(padded(512 << 10)).status == 200)
      let tooLarge = try await gateway.post(padded(512 << 10 + 1))
      #expect(tooLarge.status == 413 && tooLarge.errorCode == "M_TOO_LARGE")
    }
  }

  @Test(
    arguments: [
      #"{"notification":{"room_name":5,"devices":[]}}"#, #"{"notification":{"content":[],"devices":[]}}"#,
      #"{"notification":{"user_is_target":"yes","devices":[]}}"#, #"{"notification":{"prio":1,"devices":[]}}"#,
      #"{"notification":{"counts":[],"devices":[]}}"#, #"{"notification":{"devices":[5]}}"#,
      #"{"notification":{"counts":{"unread":null},"devices":[{"app_id":"a","pushkey":"k"}]}}"#,
      #"{"notification":{"counts":{"missed_calls":1.5},"devices":[{"app_id":"a","pushkey":"k"}]}}"#,
      #"{"notification":{"counts":{"unread":99999999999999999999},"devices":[{"app_id":"a","pushkey":"k"}]}}"#,
      #"{"notification":{"devices":[{"app_id":null,"pushkey":"k"}]}}"#,
      #"{"notification":{"devices":[{"app_id":"a","pushkey":"k","tweaks":null}]}}"#,
      #"{"notification":{"devices":[{"app_id":"a","pushkey":"k","pushkey_ts":1.5}]}}"#,
    ])
  func `every wrong type is refused`(body: String) throws {
    #expect(throws: NotifyFault.self) { try PushNotification(body: Array(body.utf8)) }
  }

  @Test func `a count may be true, which is one`() throws {
    let body = #"{"notification":{"counts":{"unread":true},"devices":[{"app_id":"a","pushkey":"k"}]}}"#
    #expect(try PushNotification(body: Array(body.utf8)).counts == NotificationCounts(unread: 1))
  }

  @Test func `fields that may be missing may be null`() throws {
    let notification = try PushNotification(
      body: Array(
        """
        {"notification": {"event_id": null, "type": null, "room_name": null, "content": null, "user_is_target": null,
        "prio": null, "unknown": [1], "counts": {}, "devices": [{"app_id": "a", "pushkey": "", "pushkey_ts": 1}]}}
        """.utf8))
    #expect(notification.eventID == nil && notification.content == nil && notification.counts.isAbsent)
    #expect(!notification.isLowPriority && !notification.userIsTarget)
  }

  @Test func `of equal fields the later counts, in whatever spelling`() throws {
    let notification = try PushNotification(
      body: Array(
        #"""
        {"notification": 5, "\u006eotification": {"devices": 7, "event_id": 1, "ev\u0065nt_id": "$e", "event_ID": 2,
        "counts": [], "counts": {"unread": "1", "unread": 2, "more": {"unread": [3]}}, "prio": "low",
        "more": {"event_id": "$f", "devices": [{"x": "\"}]"}]}, "devices": [{"app_id": "a", "app_id": "b",
        "p\u0075shkey": "k", "data": {"auth": "s"}}, {"pushkey": "l", "app_id": "c"}]}, "devices": 1}
        """#.utf8))
    #expect(notification.eventID == "$e" && notification.isLowPriority)
    #expect(notification.counts == NotificationCounts(unread: 2))
    #expect(notification.devices.map(\.appID) == ["b", "c"] && notification.devices.map(\.pushKey) == ["k", "l"])
    #expect(notification.devices[0].data == ["auth": .text("s")] && notification.devices[1].data == nil)
  }

  @Test(arguments: [
    ("{}", "notification must be an object."), ("[]", "notification must be an object."),
    (#"{"notification":null}"#, "notification must be an object."),
    (#"{"notification":{}}"#, "devices is missing."),
    (#"{"notification":{"devices":null}}"#, "devices must be a list."),
    (#"{"notification":{"counts":5,"devices":[]}}"#, "counts must be an object."),
    (#"{"notification":{"devices":[]}}"#, "devices is empty."),
    (
      #"{"notification":{"counts":{"unread":"1"},"devices":[]}}"#,
      "counts.unread must be an integer of at most 64 bits."
    ),
    (#"{"notification":{"devices":[{"app_id":"a","pushkey":"k"},[]]}}"#, "devices[1] must be an object."),
    (#"{"notification":{"devices":[{"app_id":"a","pushkey":"k"},{"app_id":"a"}]}}"#, "devices[1].pushkey is missing."),
    (
      #"{"notification":{"devices":[{"app_id":"a","pushkey":"k","tweaks":{"sound":1}}]}}"#,
      "devices[0].tweaks.sound must be text."
    ),
    // That it is no JSON goes before everything else.
    (#"{"notification":{"devices":5},}"#, "The body is not JSON."),
    (#"{"notification":{"event_id":1,"x":tru}}"#, "The body is not JSON."),
    (#"{"notification":{}} x"#, "The body is not JSON."),
    ("{\"notification\":{\"a\nb\":1}}", "The body is not JSON."),
  ])
  func `each fault has its words`(body: String, words: String) throws {
    let fault = #expect(throws: NotifyFault.self) { try PushNotification(body: Array(body.utf8)) }
    #expect(fault?.text == words)
  }

  @Test func `a body is nested as deep as any JSON here`() throws {
    // Around the innermost list stand the body, the notification and the content.
    for (depth, isRead) in [(125, true), (126, false)] {
      let nested = String(repeating: "[", count: depth) + String(repeating: "]", count: depth)
      let body = #"{"notification":{"content":{"x":\#(nested)},"devices":[{"app_id":"a","pushkey":"k"}]}}"#
      #expect(((try? PushNotification(body: Array(body.utf8))) != nil) == isRead)
    }
  }

  @Test func `a fault names the field and nothing of the body`() throws {
    let body = #"{"notification":{"devices":[{"app_id":"a","pushkey":"secret-key","data":"secret-data"}]}}"#
    let fault = #expect(throws: NotifyFault.self) { try PushNotification(body: Array(body.utf8)) }
    #expect(fault?.text == "devices[0].data must be an object.")
  }
}
