import Push
import RelayCore
import TestTags
import Testing

@testable import Waking

@Suite(.tags(.unit)) struct WakePiecesTests {
  private static let noon = Timestamp(millis: 1_000_000)
  private static let token = Secret("to\"ken")

  @Test func `an envelope that does not fit becomes a wake-up`() {
    for (bytes, kind) in [(3000, WakeAttempt.Kind.content), (3054, .content), (3060, .wakeUp), (9000, .wakeUp)] {
      let content = WakePayload.Content(sealed: [UInt8](repeating: 1, count: bytes), isReceipt: false)
      let fcm = WakePayload.fcm(to: Self.token, content, expires: Self.noon, now: Self.noon)
      #expect(fcm.kind == kind, "\(bytes)")
    }
    for (bytes, kind) in [(2900, WakeAttempt.Kind.content), (3060, .wakeUp)] {
      let content = WakePayload.Content(sealed: [UInt8](repeating: 1, count: bytes), isReceipt: false)
      let apns = WakePayload.apns(to: Self.token, content, badge: 1, expires: Self.noon)
      #expect(apns.kind == kind, "\(bytes)")
      #expect(apns.message.payload.bytes.count <= WakePayload.bytesMax)
    }
  }

  @Test func `the shapes are those of the reference`() {
    let later = Self.noon.adding(.seconds(90))
    let wakeUp = WakePayload.fcm(to: Self.token, nil, expires: later, now: Self.noon)
    #expect(
      String(decoding: wakeUp.message.payload.bytes, as: UTF8.self)
        == #"{"message":{"token":"to\"ken","data":{"type":"message","message":"","notification":"true"},"#
        + #""android":{"priority":"high","ttl":"90s","collapse_key":"messages"}}}"#)
    let content = WakePayload.Content(sealed: [1, 2, 3, 4], isReceipt: false)
    let receipt = WakePayload.Content(sealed: [1, 2, 3, 4], isReceipt: true)
    let whole = WakePayload.fcm(to: Self.token, content, expires: later, now: Self.noon)
    #expect(
      String(decoding: whole.message.payload.bytes, as: UTF8.self)
        == #"{"message":{"token":"to\"ken","data":{"type":"message","message":"AQIDBA=="},"#
        + #""android":{"priority":"high","ttl":"90s"}}}"#)
    let told = WakePayload.fcm(to: Self.token, receipt, expires: later, now: Self.noon)
    #expect(String(decoding: told.message.payload.bytes, as: UTF8.self).contains(#""receipt":"AQIDBA==""#))
    let apns = WakePayload.apns(to: Self.token, content, badge: nil, expires: later)
    #expect(
      String(decoding: apns.message.payload.bytes, as: UTF8.self)
        == #"{"aps":{"sound":"default","alert":{"loc-key":"APN_Message"}},"m":"AQIDBA=="}"#)
    let call = WakePayload.call(to: Self.token, badge: 3, expires: later)
    #expect(call.message.kind == .voip && call.message.topicSuffix == "voip" && call.message.expires == later)
  }

  @Test func `waits grow within bounds, and are never shorter than asked for`() {
    let backOff = WakeBackOff()
    #expect(backOff.wait(after: 1, asked: nil, spread: 0.5) == .seconds(5))
    #expect(backOff.wait(after: 3, asked: nil, spread: 0.5) == .seconds(20))
    // Seconds times a factor: not exact to the attosecond.
    #expect(backOff.wait(after: 1000, asked: nil, spread: 1) <= .milliseconds(360_001))
    #expect(backOff.wait(after: 1000, asked: nil, spread: 1) >= .milliseconds(359_999))
    #expect(backOff.wait(after: 1, asked: .seconds(90), spread: 0) == .seconds(90))
    #expect(backOff.wait(after: 1, asked: .seconds(1), spread: 0) == .seconds(4))
  }

  @Test func `what a breaker keeps back comes again the rarer the longer it waits, where services are many`() {
    let backOff = WakeBackOff()
    let rows: [(WakeProvider, Duration?, Int, Int)] = [
      (.apns, .seconds(7), 600, 7), (.fcm, nil, 600, 1), (.webPush, nil, 0, 1), (.webPush, .seconds(7), 4, 7),
      (.webPush, .seconds(2), 20, 10), (.webPush, .seconds(2), 600, 30), (.webPush, nil, -5, 1),
    ]
    for (provider, asked, age, wait) in rows {
      #expect(backOff.waitWhileHalted(of: provider, asked: asked, age: .seconds(age)) == .seconds(wait))
    }
  }

  @Test func `every fault has words and a remedy`() {
    for fault in WakeFault.allCases {
      #expect(!fault.text.isEmpty && fault.remedy.hasSuffix(".") || fault.remedy.hasSuffix("?"))
    }
    for outcome in WakeAttempt.Outcome.allCases {
      let fault = WakeFault(Self.attempt(outcome, answer: "status-500", status: 500))
      let isFine = [.delivered, .connected, .fetched, .receipts].contains(outcome)
      #expect((fault == nil) == isFine, "\(outcome)")
    }
  }

  @Test func `a provider's reason counts more than its status`() {
    let rows: [(String?, Int?, WakeFault)] = [
      ("TopicDisallowed", 400, .topic), ("BadDeviceToken", 400, .environment), ("status-404", 404, .refused),
      ("PayloadTooLarge", 413, .tooLarge), ("x", 413, .tooLarge),
      ("Forbidden", 403, .credentials), ("SENDER_ID_MISMATCH", 403, .refused),
      ("TooManyProviderTokenUpdates", 429, .credentials), ("TooManyRequests", 429, .quota),
      ("INTERNAL", 500, .provider), ("unreachable", nil, .unreachable), ("handshake", nil, .untrusted),
      ("timed-out", nil, .silent), ("halted", nil, .halted), ("token-refused", nil, .credentials), (nil, nil, .refused),
    ]
    for (word, status, fault) in rows {
      #expect(WakeFault(Self.attempt(.putOff, answer: word, status: status)) == fault, "\(word ?? "-")")
    }
  }

  /// By these alone ids are cleared.
  @Test func `only answers about a registration count against it`() {
    let rows: [(WakeProvider, String?, Int, Bool)] = [
      (.fcm, "UNREGISTERED", 404, true), (.fcm, "UNREGISTERED", 400, true), (.fcm, "INVALID_ARGUMENT", 400, true),
      (.fcm, "NOT_FOUND", 404, false), (.fcm, nil, 404, false), (.apns, "Unregistered", 410, true),
      (.apns, nil, 410, true), (.apns, "BadDeviceToken", 400, false), (.apns, "TopicDisallowed", 400, false),
      (.apns, "DeviceTokenNotForTopic", 400, false),
    ]
    for (provider, word, status, speaks) in rows {
      let reason = PushReason(.target, provider: word, status: status)
      #expect(reason.isOfRegistration(at: provider) == speaks, "\(provider) \(word ?? "-") \(status)")
    }
    #expect(PushReason(.target, "bad-device-token").isOfRegistration(at: .apns))
  }

  private static func attempt(_ outcome: WakeAttempt.Outcome, answer: String?, status: Int?) -> WakeAttempt {
    WakeAttempt(
      asked: noon, claimed: noon, number: 1, provider: .fcm, kind: .wakeUp, answer: answer, status: status,
      latency: nil, outcome: outcome, isTest: false)
  }
}
