import OrderedCollections
import PushGateway
import RelayCore
import TestSupport
import TestTags
import Testing

/// The rules of shortening beyond the recorded examples.
@Suite(.tags(.unit)) struct ShorteningTests {
  /// The reference's rule to the letter: everything is measured anew for each character.
  private static func slowly(_ payload: JSONObject, bytesMax: Int) -> [UInt8]? {
    var payload = payload
    while true {
      let bytes = JSONValue.object(payload).bytes(.spaced)
      if bytes.count <= bytesMax { return bytes }
      guard var aps = payload["aps"]?.object, var alert = aps["alert"]?.object else { return nil }
      var texts = [alert["body"]?.text ?? ""] + (alert["loc-args"]?.list ?? []).map { $0.text ?? "" }
      guard let longest = texts.map(\.utf8.count).max(), longest > 0,
        let index = texts.firstIndex(where: { $0.utf8.count == longest })
      else { return nil }
      texts[index].unicodeScalars.removeLast()
      if alert["body"] != nil { alert["body"] = .text(texts[0]) }
      if alert["loc-args"] != nil { alert["loc-args"] = .list(texts.dropFirst().map { .text($0) }) }
      aps["alert"] = .object(alert)
      payload["aps"] = .object(aps)
    }
  }

  @Test func `any payload is cut as it would be character by character`() {
    var generator = SeededGenerator(seed: 7)
    let alphabet: [Character] = ["a", "b", "\"", "\\", "\n", "\u{1}", "é", "…", "🐰", "e\u{301}"]
    for _ in 0..<200 {
      let texts = (0...3).map { _ in
        String(
          (0..<Int.random(in: 0...40, using: &generator)).compactMap { _ in alphabet.randomElement(using: &generator) })
      }
      var alert: JSONObject = ["loc-key": .text("K"), "loc-args": .list(texts.dropFirst().map { .text($0) })]
      if Bool.random(using: &generator) { alert["body"] = .text(texts[0]) }
      let payload: JSONObject = ["aps": .object(["alert": .object(alert)]), "room_id": .text("!r:x")]
      let max = Int.random(in: 60...200, using: &generator)
      #expect(APNsShortening.shorten(payload, bytesMax: max) == Self.slowly(payload, bytesMax: max))
    }
  }

  /// The reference takes minutes for it.
  @Test func `a body as large as a request may be is cut`() throws {
    let body = String(repeating: "🐰\"", count: 100_000)
    let payload: JSONObject = ["aps": .object(["alert": .object(["body": .text(body)])])]
    let bytes = try #require(APNsShortening.shorten(payload, bytesMax: 4096))
    #expect((4090...4096).contains(bytes.count))
  }

  @Test func `many texts are cut as well as one`() throws {
    let texts = (0..<40_000).map { _ in JSONValue.text("abc") }
    let payload: JSONObject = ["aps": .object(["alert": .object(["loc-args": .list(texts)])])]
    #expect(APNsShortening.shorten(payload, bytesMax: 4096) == nil)
    #expect(APNsShortening.shorten(payload, bytesMax: 200_000)?.count ?? .max <= 200_000)
  }

  @Test func `WebPush texts fit one record, whatever they are made of`() throws {
    var generator = SeededGenerator(seed: 11)
    for _ in 0..<100 {
      var notification = PushNotification()
      let characters = ["x", "\"", "é", "🐰", "\u{2}"]
      func text(_ max: Int) -> String {
        String(
          repeating: characters.randomElement(using: &generator) ?? "",
          count: Int.random(in: 0...max, using: &generator))
      }
      (notification.eventID, notification.roomID, notification.type) = ("$e", "!r:x", "m.room.message")
      notification.roomName = text(3000)
      notification.content = [
        "body": .text(text(3000)), "ciphertext": .text(text(3000)), "more": .text(text(3000)),
        "formatted_body": .text("x"),
      ]
      let device = NotifiedDevice(appID: "a", pushKey: "k")
      let bytes = try #require(WebPushText.text(notification, device: device))
      #expect(bytes.count <= WebPushText.bytesMax)
      let message = try #require(try JSONValue(parsing: bytes).object)
      #expect(message["event_id"] == .text("$e") && message["room_id"] == .text("!r:x"))
      #expect(message["content"]?.object?["formatted_body"] == nil)
    }
  }

  /// FCM refuses more, and the homeserver would repeat that for a day.
  @Test(arguments: [(3, 1024), (5, 512), (12, 256), (40, 0), (400, 0)])
  func `FCM's data fits, however much content an event has`(texts: Int, kept: Int) throws {
    var notification = PushNotification()
    (notification.eventID, notification.roomID, notification.type) = ("$e", "!r:x", "m.room.message")
    notification.content = JSONObject(
      uniqueKeysWithValues: (0..<texts).map {
        (JSONName("long.name.of.a.member.\($0)"), .text(String(repeating: "é", count: 2000)))
      })
    let data = try #require(try Self.data(notification, NotifiedDevice(appID: "a", pushKey: "k")))
    #expect(data.reduce(0) { $0 + $1.key.text.utf8.count + ($1.value.text?.utf8.count ?? 0) } <= 4096)
    #expect(data["event_id"] == .text("$e") && data["room_id"] == .text("!r:x"))
    let content = data.filter { $0.key.text.hasPrefix("content_") }.values.compactMap { $0.text?.utf8.count }
    #expect(content.count == (kept == 0 ? 0 : texts))
    #expect(content.allSatisfy { (kept - 1...kept).contains($0) })
  }

  @Test func `a default payload that FCM would refuse is no push`() throws {
    var notification = PushNotification()
    notification.eventID = "$e"
    let texts = JSONObject(
      uniqueKeysWithValues: (0..<20).map { (JSONName("k\($0)"), .text(String(repeating: "x", count: 250))) })
    let device = NotifiedDevice(appID: "a", pushKey: "k", data: ["default_payload": .object(texts)])
    #expect(FCMMessage(notification, device: device, options: [:], sendsCounts: true) == .tooLarge)
  }

  private static func data(_ notification: PushNotification, _ device: NotifiedDevice) throws -> JSONObject? {
    guard case .send(let body) = FCMMessage(notification, device: device, options: [:], sendsCounts: true) else {
      return nil
    }
    return try JSONValue(parsing: body).object?["message"]?.object?["data"]?.object
  }
}
