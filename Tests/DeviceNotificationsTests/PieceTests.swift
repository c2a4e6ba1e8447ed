import DeviceNotifications
import Foundation
import Push
import RelayCore
import TestTags
import Testing

@Suite(.tags(.unit)) struct PieceTests {
  private static func job(
    _ text: String, provider: NotificationProvider = .fcm, key: String = "tokB", attempt: Int = 1,
    ttl: Int64? = nil, collapse: String? = nil, idle: Bool = false, package: String? = nil
  ) throws -> NotificationJob {
    let sent = Timestamp(millis: 1_714_557_600_000)
    let notification = DeviceNotification(
      text: NotificationText(text), waitsWhileIdle: idle, collapseKey: collapse, timeToLive: ttl, packageName: package)
    return NotificationJob(
      id: 1, attempt: attempt, expires: sent.adding(notification.life), recipient: try #require(RecipientNumber(5)),
      key: RecipientKey(provider: provider, text: key), number: 12_554, sent: sent, notification: notification)
  }

  private static func payload(_ job: NotificationJob) -> [UInt8] { ProviderPayload.message(job).payload.bytes }

  private static func json(_ bytes: [UInt8]) throws -> [String: Any] {
    try #require(try JSONSerialization.jsonObject(with: Data(bytes)) as? [String: Any])
  }

  @Test func `options stand where Google's service looks for them`() throws {
    let job = try Self.job("a", ttl: 0, collapse: String(repeating: "ü", count: 33), idle: true, package: "org.example")
    let text = String(decoding: Self.payload(job), as: UTF8.self)
    #expect(text.contains(#""priority":"normal","collapse_key":"ü"#))
    #expect(text.contains(#""ttl":"0s","restricted_package_name":"org.example"}"#))
    // Too long for Apple's collapse id.
    #expect(text.contains(#""apns":{"headers":{"apns-expiration":"0"},"payload""#))
    let historic = try Self.job("a", provider: .gcm)
    #expect(ProviderPayload.message(historic).target == .fcm(registrationToken: "tokB"))
  }

  /// The texts are made of any characters.
  @Test(arguments: ["a", "\"", "\u{1}", "ü", "\u{1F600}", "e\u{301}", "a\n"])
  func `a text that is too long is cut as late as possible`(_ unit: String) throws {
    for (provider, copies) in [(NotificationProvider.fcm, 2), (.apns, 1)] {
      let text = String(repeating: unit, count: 4000 / unit.utf8.count)
      let bytes = Self.payload(try Self.job(text, provider: provider, key: "ab"))
      #expect(bytes.count <= 4096)
      let object = try Self.json(bytes)
      let (shown, flag) = try Self.shown(object, provider)
      guard shown != text else {
        #expect(!flag)
        continue
      }
      #expect(flag && text.unicodeScalars.starts(with: shown.unicodeScalars))
      // One more scalar would not have fitted.
      let next = text.unicodeScalars.dropFirst(shown.unicodeScalars.count).prefix(1)
      let more = try JSONSerialization.data(withJSONObject: [String(String.UnicodeScalarView(next))]).count - 4
      #expect(bytes.count + copies * max(more, 1) > 4096 || unit == "\u{1}" || unit == "a\n")
    }
  }

  private static func shown(
    _ object: [String: Any], _ provider: NotificationProvider
  ) throws -> (text: String, isShortened: Bool) {
    if provider == .apns {
      let aps = try #require(object["aps"] as? [String: Any])
      return (try #require(aps["alert"] as? String), object["truncated"] as? Int == 1)
    }
    let message = try #require(object["message"] as? [String: Any])
    let data = try #require(message["data"] as? [String: String])
    return (try #require(data["message"]), data["truncated"] == "1")
  }

  @Test func `a text that just fits is whole`() throws {
    let empty = Self.payload(try Self.job("", provider: .apns, key: "ab")).count
    let whole = Self.payload(try Self.job(String(repeating: "a", count: 4096 - empty), provider: .apns, key: "ab"))
    #expect(whole.count == 4096 && !String(decoding: whole, as: UTF8.self).contains("truncated"))
    let cut = Self.payload(try Self.job(String(repeating: "a", count: 4097 - empty), provider: .apns, key: "ab"))
    #expect(cut.count == 4096 && String(decoding: cut, as: UTF8.self).hasSuffix(#""truncated":1}"#))
  }

  @Test func `outcomes decide what becomes of a push`() throws {
    let job = try Self.job("a")
    let now = job.sent
    func verdict(_ outcome: PushOutcome, attempt: Int = 1, at time: Timestamp? = nil) throws -> PushVerdict {
      PushVerdict(outcome, of: try Self.job("a", attempt: attempt), at: time ?? now)
    }
    func reason(_ kind: PushReason.Kind, _ word: String, _ status: Int) -> PushReason {
      PushReason(kind, provider: word, status: status)
    }
    let server = reason(.server, "UNAVAILABLE", 503)
    let verdicts = [
      try verdict(.delivered(id: nil)),
      try verdict(.dead(reason(.target, "UNREGISTERED", 404))),
      try verdict(.dead(reason(.target, "INVALID_ARGUMENT", 400))),
      // The answer for a wrong project.
      try verdict(.dead(reason(.target, "NOT_FOUND", 404))),
      try verdict(.refused(reason(.credentials, "PERMISSION_DENIED", 403))),
      try verdict(.temporary(server)), try verdict(.temporary(server), attempt: 3),
      try verdict(.temporary(server, retryAfter: .seconds(77))),
      try verdict(.temporary(.halted, retryAfter: .seconds(4))),
      try verdict(.temporary(server), attempt: 30, at: now.adding(.seconds(3600 - 600))),
    ]
    #expect(
      verdicts == [
        .done, .keyIsDead(since: nil), .keyIsDead(since: nil), .dropped(word: "NOT_FOUND"),
        .dropped(word: "PERMISSION_DENIED"), .again(at: now.adding(.seconds(10)), isCounted: true),
        .again(at: now.adding(.seconds(40)), isCounted: true), .again(at: now.adding(.seconds(77)), isCounted: true),
        .again(at: now.adding(.seconds(4)), isCounted: false), .dropped(word: "UNAVAILABLE"),
      ])
  }

  @Test func `an event goes out by GET where the account wants it`() throws {
    let event = NotificationEvent(
      number: 7, created: Timestamp(millis: 0), action: .subscribed, recipient: try #require(RecipientNumber(5)),
      isOurs: false, subject: NotificationText("a b&ü~*"))
    let user = try #require(NotificationUser("acme"))
    let request = EventRequest(event, of: user, to: EventTarget(url: "https://example.org/e?x=1", method: .get))
    let expected =
      "https://example.org/e?x=1&messageType=DPN&msgNo=7&createTime=1970-01-01+00%3A00&creatorName=acme"
      + "&initialId=ACTION_SUB&originatorText=5&destination=%2Fexternal%2Fnotifications%2Fsubscribe"
      + "&subject=a+b%26%C3%BC%7E*"
    #expect(request.url == expected && request.form == nil)
  }

  @Test func `fields of a moment lead back to it`() throws {
    for millis in stride(from: Int64(-70_000_000_000_000), through: 250_000_000_000_000, by: 7_777_777_777_777) {
      let time = Timestamp(millis: millis)
      #expect(UTCTime(time).timestamp == time)
    }
    let leap = try #require(UTCTime(year: 2024, month: 2, day: 29))
    #expect(leap.timestamp == Timestamp(millis: 1_709_164_800_000))
    #expect(UTCTime(year: 2023, month: 2, day: 29) == nil && UTCTime(year: 2024, month: 4, day: 31) == nil)
    #expect(UTCTime(year: 2024, month: 1, day: 1, hour: 24) == nil)
  }

  @Test func `no text of others shows by accident`() throws {
    let job = try Self.job("a secret text", key: "a secret key")
    for shown in ["\(job)", String(reflecting: job), "\(EventTarget(url: "https://secret", method: .get))"] {
      #expect(!shown.contains("secret"))
    }
  }
}
