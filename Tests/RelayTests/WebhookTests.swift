import ChildProcesses
import Crypto
import Foundation
import TestSupport
import TestTags
import Testing

@Suite(.tags(.processes)) struct WebhookTests {
  @Test func `codes go to the webhook, signed, and a webhook that fails is told to the client`() async throws {
    let webhook = try WebhookServer()
    defer { webhook.close() }
    let settings = [
      "RELAY_VERIFICATION_SENDER": "webhook",
      "RELAY_VERIFICATION_WEBHOOK_URL": "http://127.0.0.1:\(webhook.port)/codes",
      "RELAY_VERIFICATION_WEBHOOK_SECRET": "hush-hush",
    ]
    try await RelayOperator.with(settings: RelayUnderTest.unlimited.merging(settings) { $1 }) { site in
      let relay = try await site.serve()
      for transport in ["sms", "voice"] {
        let number = TestDevice.freshNumber()
        #expect(try await relay.send("GET", "/v1/accounts/\(transport)/code/\(number)").status == 200)
        let request = try #require(webhook.received.last)
        #expect(request.requestLine == "POST /codes HTTP/1.1")
        #expect(request.headers["content-type"] == "application/json")

        let key = SymmetricKey(data: Data("hush-hush".utf8))
        let code = HMAC<SHA256>.authenticationCode(for: Data(request.body.utf8), using: key)
        #expect(request.headers["x-relay-signature"] == code.map { String(format: "%02x", $0) }.joined())

        let object = try #require(
          try JSONSerialization.jsonObject(with: Data(request.body.utf8)) as? [String: String])
        #expect(Set(object.keys) == ["number", "transport", "code"])
        #expect(object["number"] == number && object["transport"] == transport)
        let digits = try #require(object["code"]).filter(\.isNumber)
        #expect(digits.count == 6)
        let device = TestDevice(number: number, password: "p")
        let confirmed = try await relay.send(
          "PUT", "/v1/accounts/code/\(digits)", json: #"{"signalingKey":"c2ln"}"#, as: device)
        #expect(confirmed.status == 200)
        #expect(!relay.log().contains(number.dropFirst()) && !relay.log().contains("hush-hush"))
      }

      // A code that it refuses is the log's matter: the client can do nothing about it.
      for status in [400, 403, 422] {
        webhook.answer(with: status)
        let number = TestDevice.freshNumber()
        #expect(try await relay.send("GET", "/v1/accounts/sms/code/\(number)").status == 200)
        #expect(!relay.log().contains(number.dropFirst()))
      }
      #expect(relay.log().contains("the verification webhook refused a code"))
      for status in [401, 404, 429] {
        webhook.answer(with: status)
        #expect(try await relay.send("GET", "/v1/accounts/sms/code/\(TestDevice.freshNumber())").status == 503)
      }

      webhook.answer(with: 500)
      let refused = try await relay.send("GET", "/v1/accounts/sms/code/\(TestDevice.freshNumber())")
      #expect(refused.status == 503)
      #expect(refused.headers["retry-after"] != nil)
      webhook.close()
      #expect(try await relay.send("GET", "/v1/accounts/sms/code/\(TestDevice.freshNumber())").status == 503)
      #expect(await relay.terminate() == .code(0))
    }
  }
}
