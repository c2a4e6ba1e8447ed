import OrderedCollections
import Push
import PushGateway
import RelayCore
import TestTags
import Testing

/// The reference's small pure functions.
@Suite(.tags(.unit)) struct FunctionVectorTests {
  @Test func `patterns match as the reference's do`() throws {
    for vector in try Vectors().function("app_id_glob") {
      let (pattern, text) = (try vector.text("pattern"), try vector.text("text"))
      #expect(PushGlob(pattern).matches(text) == vector["matches"]?.boolean, "\(pattern) \(text)")
    }
  }

  @Test func `an app id finds its entry`() throws {
    for vector in try Vectors().function("app_selection") {
      let names = try #require(vector["configured"]?.list).compactMap(\.text)
      let expected = try vector.object("expect")
      let choice: PushAppSelection.Choice =
        switch expected["why"]?.text {
        case "unknown": .unknown
        case "ambiguous": .ambiguous
        default: .app(try #require(names.firstIndex(of: try expected.text("app"))))
        }
      #expect(PushAppSelection(names: names).app(for: try vector.text("app_id")) == choice, "\(vector)")
    }
  }

  @Test func `an app id of any length is answered at once`() {
    let selection = PushAppSelection(names: ["*a*a*a*a*a*a*a*b", "a*"])
    #expect(selection.app(for: String(repeating: "a", count: 400)) == .app(1))
    #expect(selection.app(for: String(repeating: "a", count: 500_000)) == .unknown)
  }

  @Test func `allowed endpoints are compared with the authority`() throws {
    for vector in try Vectors().function("webpush_allowed_endpoint") {
      let allowed = vector["allowed_endpoints"]?.list?.compactMap(\.text)
      let settings = WebPushSettings(keyFile: "", contact: "", allowedEndpoints: allowed)
      let endpoint = try vector.text("endpoint")
      #expect(settings.allows(endpoint) == vector["allowed"]?.boolean, "\(endpoint)")
    }
  }

  @Test func `topics are the reference's without padding`() throws {
    for vector in try Vectors().function("webpush_topic") {
      let topic = RoomTopic.topic(of: try vector.text("room_id"))
      #expect(topic == vector["topic_without_padding"]?.text)
    }
  }

  @Test func `texts for FCM are cut between characters`() throws {
    for vector in try Vectors().function("field_truncation") {
      let cut = FCMText.shortened(try vector.text("input"), bytesMax: try vector.integer("max_bytes"))
      #expect(cut == vector["output"]?.text)
    }
  }

  @Test func `payloads for APNs are shortened as the reference's`() throws {
    for vector in try Vectors().function("apns_truncation") {
      let payload = try vector.object("payload")
      #expect(JSONValue.object(payload).bytes(.spaced).count == (try vector.integer("bytes_before")))
      let shortened = APNsShortening.shorten(payload, bytesMax: try vector.integer("max_bytes"))
      let expected = try vector.object("expect")
      guard expected["error"] == nil else {
        #expect(shortened == nil, "\(vector)")
        continue
      }
      let bytes = try #require(shortened)
      #expect(bytes.count == (try expected.integer("bytes")), "\(vector)")
      #expect(try JSONValue(parsing: bytes).says(try #require(expected["payload"])), "\(vector)")
    }
  }

  @Test func `push keys become device tokens`() throws {
    for vector in try Vectors().function("apns_token_hex") {
      let token = APNsDeviceToken.hexadecimal(base64: try vector.text("pushkey"))
      #expect(token == vector["expect"]?.object?["hex"]?.text, "\(vector)")
    }
  }

  @Test(arguments: ["", "abc/../..", "0102\r\nx: y", "é", String(repeating: "ab", count: 600)])
  func `a token that is not hexadecimal stays out of the path`(pushKey: String) {
    #expect(APNsDeviceToken.token(from: pushKey, converts: false) == nil)
  }
}
