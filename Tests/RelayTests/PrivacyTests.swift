import ChildProcesses
import Foundation
import TestSupport
import Testing

@Suite struct PrivacyTests {
  @Test(arguments: ["text", "json"])
  func `nothing that is private reaches the log or the metrics, at the finest level`(format: String) async throws {
    let settings = ["RELAY_LOG_LEVEL": "trace", "RELAY_LOG_FORMAT": format]
    try await RelayOperator.with(settings: RelayUnderTest.unlimited.merging(settings) { $1 }) { site in
      let relay = try await site.serve()
      var secrets: [String: String] = [:]
      func keep(_ text: String, _ what: String) -> String {
        secrets[what] = text
        return text
      }

      // The whole flow, and what goes wrong in it.
      let sender = try await relay.register(keep("+15557654321", "sender's number"))
      secrets["sender's password"] = sender.password
      let number = keep("+15551234567", "recipient's number")
      let code = try await relay.code(for: number)
      secrets["code"] = "\(code.prefix(3))-\(code.suffix(3))"
      let recipient = TestDevice(number: number, password: keep("needle-password", "recipient's password"))
      let signalingKey = keep("bmVlZGxlLXNpZ25hbGluZy1rZXk", "signaling key")
      let attributes = #"{"signalingKey":"\#(signalingKey)","fetchesMessages":true}"#
      for wrong in ["000000", code] {
        _ = try await relay.send("PUT", "/v1/accounts/code/\(wrong)", json: attributes, as: recipient)
      }
      let key = keep("needle-public-key", "prekey")
      let one = #"{"keyId":1,"publicKey":"\#(key)","identityKey":"\#(keep("needle-identity", "identity key"))"}"#
      let keys = #"{"lastResortKey":\#(one),"keys":[\#(one)]}"#
      #expect(try await relay.send("PUT", "/v1/keys", json: keys, as: recipient).status == 200)
      _ = try await relay.send("GET", "/v1/keys/\(number)/*", as: sender)
      let body = keep(Data("needle-in-the-message".utf8).base64EncodedString(), "message")
      secrets["message's text"] = "needle-in-the-message"
      let sent = try await relay.send("PUT", "/v1/messages/\(number)", json: bundle(message(body)), as: sender)
      #expect(sent.status == 200)
      #expect(try await relay.mailbox(of: recipient).count == 1)
      let token = keep(try TestTokens.token(of: number), "token")
      for path in [token, try TestTokens.urlSafe(number), "AAAA"] {
        _ = try await relay.send("GET", "/v1/directory/\(path)", as: sender)
      }
      _ = try await relay.send("PUT", "/v1/directory/tokens", json: #"{"contacts":["\#(token)"]}"#, as: sender)
      for json in ["{\"\(body)\"", bundle(message(body, device: 7)), bundle(message(body, registrationID: 7))] {
        _ = try await relay.send("PUT", "/v1/messages/\(number)", json: json, as: sender)
      }
      _ = try await relay.send("DELETE", "/v1/messages/\(sender.number)/1", as: recipient)
      let liar = TestDevice(number: number, password: keep("needle-wrong", "wrong password"))
      #expect(try await relay.send("GET", "/v1/keys", as: liar).status == 401)
      _ = try await relay.send("BREW", "/v1/keys/\(number)", as: sender)
      _ = try await relay.send("GET", "/v1/nothing/\(number)?password=needle-query", as: sender)
      secrets["query"] = "needle-query"
      secrets["header"] = sender.authorization.split(separator: " ").last.map(String.init)

      let metrics = try await relay.ask("/metrics").text
      #expect(await relay.terminate() == .code(0))
      let log = relay.log()
      #expect(log.utf8.count > 500, "it says nothing at all")
      for (what, secret) in secrets {
        // Numbers without their `+` too, however they were split off.
        let text = secret.drop { $0 == "+" }
        #expect(!log.contains(text), "the log shows the \(what): \(Self.line(of: text, in: log))")
        #expect(!metrics.contains(text), "metrics show the \(what): \(Self.line(of: text, in: metrics))")
      }
    }
  }

  private static func line(of text: Substring, in log: String) -> Substring {
    log.split(separator: "\n").first { $0.contains(text) } ?? ""
  }
}
