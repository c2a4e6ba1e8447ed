import ChildProcesses
import Foundation
import RelayClient
import RelayCore
import TestSupport
import TestTags
import Testing

/// Devices of a relay, and the providers that wake them.
@Suite(.tags(.processes)) struct WakingTests {
  /// Runs `body` with a relay that wakes by both providers, and a device that writes to others.
  private static func with(
    _ settings: [String: String] = [:],
    _ body: (WakingSite, RelayOperator, RelayProcess, WokenDevice) async throws -> Void
  ) async throws {
    try await WakingSite.with { waking in
      try await RelayOperator.with(settings: waking.settings([.google, .apple], settings)) { site in
        let relay = try await site.serve()
        do {
          try await body(waking, site, relay, WokenDevice(at: relay))
        } catch {
          print("--- the end of the relay's log\n\(relay.log().suffix(2000))")
          await relay.kill9()
          throw error
        }
        #expect(await relay.terminate() == .code(0))
        #expect(waking.fcm.faults.isEmpty, "\(waking.fcm.faults)")
        #expect(waking.apns.faults.isEmpty, "\(waking.apns.faults)")
      }
    }
  }

  @Test func `a device that is connected nowhere is woken, and the provider learns nothing but that`() async throws {
    try await Self.with { waking, _, relay, sender in
      let (android, iPhone) = (try await WokenDevice(at: relay), try await WokenDevice(at: relay))
      let token = WokenDevice.appleToken()
      try await android.register(gcm: "token-a", at: relay)
      try await iPhone.register(apn: token, at: relay)
      #expect(try await sender.send(to: android, at: relay) == 200)
      #expect(try await sender.send(to: iPhone, at: relay) == 200)

      let push = try await eventually("FCM is told") { waking.pushes(toGoogle: "token-a").first }
      let data = try #require(push["data"] as? [String: String])
      #expect(data == ["type": "message", "message": "", "notification": "true"])
      let options = try #require(push["android"] as? [String: Any])
      #expect(options["priority"] as? String == "high")
      #expect((options["ttl"] as? String)?.hasSuffix("s") == true)

      let request = try await eventually("APNs is told") { waking.pushes(toApple: token).first }
      #expect(
        request.text == #"{"aps":{"sound":"default","badge":1,"alert":{"loc-key":"APN_Message"}}}"#)
      #expect(request.headers["apns-push-type"] == "alert")
      #expect(request.headers["apns-topic"] == PushFiles.topic)
      #expect(request.headers["apns-expiration"] != nil)
    }
  }

  @Test func `fifty messages are one push, and a device that is connected gets none`() async throws {
    try await Self.with { waking, _, relay, sender in
      let (absent, present, last) = (
        try await WokenDevice(at: relay), try await WokenDevice(at: relay), try await WokenDevice(at: relay)
      )
      try await absent.register(gcm: "token-absent", at: relay)
      try await present.register(gcm: "token-present", at: relay)
      try await last.register(gcm: "token-last", at: relay)
      let live = try await present.client.connect(signalingKey: present.key)
      for number in 1...50 {
        #expect(try await sender.send(to: absent, at: relay, timestamp: Int64(number)) == 200)
        #expect(try await sender.send(to: present, at: relay, timestamp: Int64(number)) == 200)
      }
      var delivered = 0
      for try await delivery in live.deliveries {
        try await delivery.acknowledge()
        delivered += 1
        if delivered == 50 { break }
      }
      // A device that is woken after all these has been woken after all of their results.
      #expect(try await sender.send(to: last, at: relay) == 200)
      try await eventually("the last is woken") { !waking.pushes(toGoogle: "token-last").isEmpty }
      #expect(waking.pushes(toGoogle: "token-absent").count == 1)
      #expect(waking.pushes(toGoogle: "token-present").isEmpty)
      await live.close()
    }
  }

  @Test func `a device that has connected meanwhile is woken for the next message at once`() async throws {
    try await Self.with { waking, _, relay, sender in
      let device = try await WokenDevice(at: relay)
      try await device.register(gcm: "token", at: relay)
      for number in 1...3 {
        #expect(try await sender.send(to: device, at: relay, timestamp: Int64(number)) == 200)
        try await eventually("push \(number)") { waking.pushes(toGoogle: "token").count == number }
        let live = try await device.client.connect(signalingKey: device.key)
        for try await delivery in live.deliveries {
          try await delivery.acknowledge()
          break
        }
        try await eventually("the mailbox is empty") { try await relay.mailbox(of: device.account).isEmpty }
        await live.close()
        try await eventually("nobody is connected") {
          try await relay.metric("relay_connections{kind=\"device\"}") == 0
        }
      }
    }
  }

  @Test func `a connection that ends before its backlog is taken leads to another push`() async throws {
    try await Self.with { waking, _, relay, sender in
      let device = try await WokenDevice(at: relay)
      try await device.register(gcm: "token", at: relay)
      #expect(try await sender.send(to: device, at: relay) == 200)
      try await eventually("it is woken") { waking.pushes(toGoogle: "token").count == 1 }
      let live = try await device.client.connect(signalingKey: device.key)
      // It has it, and says nothing.
      for try await _ in live.deliveries { break }
      await live.close()
      try await eventually("it is woken again", within: .seconds(120)) { waking.pushes(toGoogle: "token").count == 2 }
    }
  }

  @Test func `with content, a message that waits alone goes with the push, under the device's signaling key`()
    async throws
  {
    try await Self.with(["RELAY_PUSH_CONTENT": "envelope", "RELAY_PUSH_PAUSE_SECONDS": "0"]) {
      waking, _, relay, sender in
      let (android, iPhone) = (try await WokenDevice(at: relay), try await WokenDevice(at: relay))
      let token = WokenDevice.appleToken()
      try await android.register(gcm: "token-a", at: relay)
      try await iPhone.register(apn: token, at: relay)
      let body = Data("the message".utf8).base64EncodedString()
      #expect(try await sender.send(body, to: android, at: relay, timestamp: 1) == 200)
      #expect(try await sender.send(body, to: iPhone, at: relay, timestamp: 1) == 200)

      let push = try await eventually("FCM is told") { waking.pushes(toGoogle: "token-a").first }
      let data = try #require(push["data"] as? [String: String])
      #expect(Set(data.keys) == ["type", "message"])
      let sealed = try #require(Data(base64Encoded: data["message"] ?? ""))
      let opened = try android.key.open(Array(sealed))
      #expect(String(decoding: opened.body, as: UTF8.self) == "the message" && opened.timestamp == 1)

      let request = try await eventually("APNs is told") { waking.pushes(toApple: token).first }
      let sealedForApple = try #require(Data(base64Encoded: request.json["m"] as? String ?? ""))
      #expect(try iPhone.key.open(Array(sealedForApple)).timestamp == 1)
      #expect(request.body.count <= 4096)

      // Two that wait, and one that does not fit, are a wake-up.
      #expect(try await sender.send(body, to: android, at: relay, timestamp: 2) == 200)
      let second = try await eventually("FCM is told again") { waking.pushes(toGoogle: "token-a").dropFirst().first }
      #expect((second["data"] as? [String: String])?["notification"] == "true")
      let large = try await WokenDevice(at: relay)
      try await large.register(gcm: "token-large", at: relay)
      let long = Data(repeating: 7, count: 3500).base64EncodedString()
      #expect(try await sender.send(long, to: large, at: relay) == 200)
      let third = try await eventually("FCM is told of the large one") { waking.pushes(toGoogle: "token-large").first }
      #expect((third["data"] as? [String: String])?["notification"] == "true")
    }
  }

  @Test func `an app with a VoIP id is called first, and then told by an ordinary push`() async throws {
    try await Self.with { waking, _, relay, sender in
      let device = try await WokenDevice(at: relay)
      let (token, voip) = (WokenDevice.appleToken(), WokenDevice.appleToken())
      try await device.register(apn: token, voip: voip, at: relay)
      #expect(try await sender.send(to: device, at: relay) == 200)
      let call = try await eventually("the call") { waking.pushes(toApple: voip).first }
      #expect(call.headers["apns-push-type"] == "voip")
      #expect(call.headers["apns-topic"] == "\(PushFiles.topic).voip")
      #expect(waking.pushes(toApple: token).isEmpty)
      try await eventually("the ordinary push", within: .seconds(120)) { !waking.pushes(toApple: token).isEmpty }
      #expect(waking.pushes(toApple: voip).count == 1)
    }
  }

  @Test func `a dead id is cleared, one that was registered since is kept`() async throws {
    try await Self.with { waking, _, relay, sender in
      let (android, iPhone) = (try await WokenDevice(at: relay), try await WokenDevice(at: relay))
      let token = WokenDevice.appleToken()
      try await android.register(gcm: "token-dead", at: relay)
      try await iPhone.register(apn: token, at: relay)
      waking.fcm.answer(404, "NOT_FOUND", code: "UNREGISTERED")
      #expect(try await sender.send(to: android, at: relay) == 200)
      // The device can be reached no more, here and in the caches of the relay.
      try await eventually("the account is inactive") { try await sender.send(to: android, at: relay) == 404 }
      try await android.register(gcm: "token-new", at: relay)
      #expect(try await sender.send(to: android, at: relay, timestamp: 5) == 200)
      try await eventually("the new id is woken") { waking.pushes(toGoogle: "token-new").count == 1 }
      #expect(waking.pushes(toGoogle: "token-dead").count == 1)

      // Apple's word is older than the registration: it is not about this one.
      waking.apns.answer(410, reason: "Unregistered", timestamp: 1)
      #expect(try await sender.send(to: iPhone, at: relay) == 200)
      try await eventually("the same id is tried again") { waking.pushes(toApple: token).count == 2 }
      #expect(try await sender.send(to: iPhone, at: relay, timestamp: 5) == 200)
    }
  }

  @Test func `a provider that is down for a while costs time, and nothing is sent twice`() async throws {
    try await Self.with { waking, site, relay, sender in
      let device = try await WokenDevice(at: relay)
      try await device.register(gcm: "token", at: relay)
      waking.fcm.answer(503, "UNAVAILABLE")
      waking.fcm.service.answer(.answer(500, "<html>"))
      #expect(try await sender.send(to: device, at: relay) == 200)
      try await eventually("it is delivered", within: .seconds(150)) {
        try await Self.history(of: device, site).contains { $0.outcome == "delivered" }
      }
      #expect(waking.pushes(toGoogle: "token").count == 3)
      let history = try await Self.history(of: device, site)
      #expect(history.map(\.outcome) == ["delivered", "put-off", "put-off"])
      #expect(history.map(\.fault) == [nil, "provider-in-trouble", "provider-in-trouble"])
      #expect(history.map(\.number) == [3, 2, 1])
    }
  }

  @Test func `metrics tell what was asked for, sent and delivered`() async throws {
    try await Self.with { waking, _, relay, sender in
      let device = try await WokenDevice(at: relay)
      try await device.register(gcm: "token", at: relay)
      #expect(try await sender.send(to: device, at: relay) == 200)
      try await eventually("it is counted") {
        try await relay.metric(#"relay_wakes_total{outcome="delivered",provider="fcm"}"#) == 1
      }
      #expect(try await relay.metric(#"relay_wakes_asked_total{by="message"}"#) == 1)
      #expect(try await relay.metric(#"relay_wakes_sent_total{kind="wake-up",provider="fcm"}"#) == 1)
      #expect(try await relay.metric(#"relay_wakes_waiting{provider="apns"}"#) == 0)
      _ = waking
    }
  }

  struct Attempt: Decodable {
    let outcome: String
    let fault: String?
    let number: Int
    let kind: String?
    let answer: String?
    let status: Int?
  }

  static func history(of device: WokenDevice, _ site: RelayOperator) async throws -> [Attempt] {
    let text = try await site.relay("push", "history", device.name, "--json")
    #expect(!text.contains(device.account.number.dropFirst()))
    return try JSONDecoder().decode([Attempt].self, from: Data(text.utf8))
  }
}

extension RelayProcess {
  /// The value of one series of `/metrics`, its labels in alphabetical order; nil when it is not there.
  func metric(_ series: String) async throws -> Double? {
    for line in try await ask("/metrics").text.split(separator: "\n") where line.hasPrefix(series + " ") {
      return Double(line.dropFirst(series.count + 1))
    }
    return nil
  }
}
