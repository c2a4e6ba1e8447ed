import ChildProcesses
import Foundation
import TestSupport
import TestTags
import Testing

/// Operators' acts over HTTP, behind tokens, and the notes that are made of them.
@Suite(.tags(.processes)) struct OperatorAPITests {
  private static let read = String(repeating: "r", count: 40)
  private static let change = String(repeating: "c", count: 40)

  private func withRelay(
    _ settings: [String: String] = [:], _ body: (RelayOperator, RelayProcess) async throws -> Void
  ) async throws {
    try await RelayOperator.with(settings: RelayUnderTest.unlimited) { site in
      let file = site.folder + "/change-tokens"
      try Data("robot:\(Self.change)\nspare:\(String(repeating: "s", count: 32))\n".utf8)
        .write(to: URL(fileURLWithPath: file))
      let relay = try await site.serve(
        ["RELAY_OPERATOR_READ_TOKENS": "viewer:\(Self.read)", "RELAY_OPERATOR_CHANGE_TOKENS_FILE": file]
          .merging(settings) { $1 })
      try await body(site, relay)
      #expect(await relay.terminate() == .code(0))
    }
  }

  @Test func `tokens open what they are for and nothing else`() async throws {
    try await withRelay { site, relay in
      for token in [nil, "", "x", Self.read + "r", String(Self.read.dropLast())] as [String?] {
        let answer = try await relay.api("/accounts", token: token)
        #expect(answer.status == 401 && answer.headers["www-authenticate"] == "Bearer", "\(answer.text)")
        #expect(try answer.object()["error"] as? String == "unauthorized")
      }
      let basic = try await relay.api(
        "/accounts", token: nil,
        headers: ["Authorization": "Basic \(Data("viewer:\(Self.read)".utf8).base64EncodedString())"])
      #expect(basic.status == 401)
      for token in [Self.read, Self.change, String(repeating: "s", count: 32)] {
        #expect(try await relay.api("/accounts", token: token).status == 200)
      }
      let ann = try await relay.register()
      for (method, path) in [
        ("DELETE", "/accounts/\(ann.number)"), ("PUT", "/bans/\(ann.number)"), ("DELETE", "/bans/\(ann.number)"),
        ("DELETE", "/accounts/\(ann.number)/limits"),
      ] {
        let refused = try await relay.api(method, path, token: Self.read)
        #expect(refused.status == 403, "\(method) \(path): \(refused.text)")
        #expect(try refused.object()["error"] as? String == "read-only")
      }
      #expect(try await relay.api("/accounts/count", token: Self.read).object()["accounts"] as? Int == 1)
      let wrong = try await relay.api("PATCH", "/accounts", token: Self.change)
      #expect(wrong.status == 405 && wrong.headers["allow"] == "GET")
      #expect(try await relay.api("/nothing", token: Self.change).status == 404)
      #expect(try await site.relay("audit").contains("Nothing is noted."))
    }
  }

  @Test func `without tokens there is no API, and new ones hold from SIGHUP on`() async throws {
    try await RelayOperator.with { site in
      let file = site.folder + "/tokens"
      func write(_ text: String) throws { try Data(text.utf8).write(to: URL(fileURLWithPath: file)) }
      let closed = try await site.serve()
      let off = try await closed.api("/accounts", token: Self.read)
      #expect(off.status == 403 && off.text.contains("operator.read-tokens"), "\(off.text)")
      #expect(await closed.terminate() == .code(0))

      try write("viewer:\(Self.read)\n")
      let relay = try await site.serve(["RELAY_OPERATOR_READ_TOKENS_FILE": file])
      #expect(try await relay.api("/accounts", token: Self.read).status == 200)
      try write("viewer:\(Self.change)")
      kill(relay.child.pid, SIGHUP)
      try await eventually("the new token holds") {
        try await relay.api("/accounts", token: Self.change).status == 200
      }
      #expect(try await relay.api("/accounts", token: Self.read).status == 401)
      #expect(!relay.log().contains(Self.change))
      #expect(await relay.terminate() == .code(0))

      for text in ["viewer", "viewer:short", "Viewer:\(Self.read)", "a:\(Self.read),a:\(Self.change)", ":\(Self.read)"]
      {
        let refused = try await site.run(["check"], overrides: ["RELAY_OPERATOR_READ_TOKENS": text])
        #expect(refused.exit == .code(78) && refused.errors.contains("RELAY_OPERATOR_READ_TOKENS"), "\(text)")
        #expect(!refused.errors.contains(Self.read))
      }
      let checked = try await site.run(["check"], overrides: ["RELAY_OPERATOR_READ_TOKENS": "viewer:\(Self.read)"])
      #expect(checked.exit == .code(0) && !(checked.output + checked.errors).contains(Self.read))
    }
  }

  @Test func `accounts are found, shown, limited, exported, deleted and banned`() async throws {
    try await withRelay { site, relay in
      let (ann, bob) = (try await relay.register(), try await relay.register())
      try await relay.upload([1, 2, 3], as: bob)
      let listed = try await relay.api("/accounts", token: Self.read).objects()
      #expect(Set(listed.compactMap { $0["number"] as? String }) == [ann.number, bob.number])
      let handle = try #require(listed.first { $0["number"] as? String == bob.number }?["handle"] as? String)
      let asked = try await relay.api("POST", "/handles", token: Self.read, json: #"{"number":"\#(bob.number)"}"#)
      #expect(try asked.object() as? [String: String] == ["handle": handle])
      #expect(asked.headers["cache-control"] == "no-store")
      #expect(try await site.relay("accounts", "show", handle, "--json").contains(handle))

      // Pages.
      let first = try await relay.api("/accounts?limit=1", token: Self.read).objects()
      let last = try #require(first.first?["handle"] as? String)
      let second = try await relay.api("/accounts?limit=1&after=\(last)", token: Self.read).objects()
      #expect(Set((first + second).compactMap { $0["number"] as? String }) == [ann.number, bob.number])
      let prefix = "%2B\(bob.number.dropFirst())"
      #expect(try await relay.api("/accounts?prefix=\(prefix)", token: Self.read).objects().count == 1)

      let shown = try await relay.api("/accounts/\(handle)", token: Self.read)
      #expect(try shown.object()["isActive"] as? Bool == true && !shown.text.contains(bob.number))
      let devices = try await relay.api("/accounts/\(handle)/devices", token: Self.read).objects()
      #expect(devices.first?["preKeys"] as? Int == 3)

      // A limit that is charged shows, and is given back.
      let slots = try await relay.send("GET", "/v1/attachments/", as: bob)
      #expect(slots.status == 200)
      func free() async throws -> Double {
        let rows = try await relay.api("/accounts/\(bob.number)/limits", token: Self.read).objects()
        guard let row = rows.first(where: { $0["limiter"] as? String == "attachments" }),
          let free = row["free"] as? Double, let size = row["size"] as? Double
        else { throw TestFailure("no bucket of attachments") }
        return free - size
      }
      #expect(try await free() < 0)
      #expect(try await relay.api("DELETE", "/accounts/\(handle)/limits", token: Self.change).status == 200)
      #expect(try await free() == 0)

      let export = try await relay.api("/accounts/\(handle)/export", token: Self.read)
      #expect(try export.object()["number"] as? String == bob.number && !export.text.contains(bob.password))

      let deleted = try await relay.api("DELETE", "/accounts/\(handle)?receipt=true", token: Self.change)
      #expect(try deleted.object()["number"] as? String == bob.number, "\(deleted.text)")
      #expect((try deleted.object()["deleted"] as? [String: Int])?["preKeys"] == 3)
      #expect(try await relay.send("GET", "/v1/keys", as: bob).status == 401)
      #expect(try await relay.api("DELETE", "/accounts/\(handle)", token: Self.change).status == 404)
      #expect(try await relay.api("/accounts/\(handle)", token: Self.read).status == 404)

      // A number without an account has a handle too.
      #expect(try await relay.api("PUT", "/bans/\(handle)", token: Self.change).object()["banned"] as? Bool == true)
      #expect(try await relay.api("/bans/\(handle)", token: Self.read).object()["banned"] as? Bool == true)
      #expect(try await relay.send("GET", "/v1/accounts/dev/code/\(bob.number)").status == 403)
      #expect(try await relay.api("DELETE", "/bans/\(handle)", token: Self.change).status == 200)
      #expect(try await relay.api("DELETE", "/bans/\(handle)", token: Self.change).status == 404)

      for path in [
        "/accounts/4711", "/accounts?limit=0", "/accounts?limit=x", "/accounts?prefix=x", "/accounts?after=x",
        "/audit?before=0", "/senders?limit=1000",
      ] {
        let refused = try await relay.api(path, token: Self.read)
        #expect(refused.status == 400, "\(path): \(refused.text)")
      }
      for json in ["", "[]", #"{"number":4711}"#, #"{"number":"4711"}"#] {
        #expect(try await relay.api("POST", "/handles", token: Self.read, json: json).status == 400)
      }
      let unknown = "00000000-0000-4000-8000-000000000000"
      #expect(try await relay.api("/accounts/\(unknown)", token: Self.read).status == 404)

      let noted = try await relay.api("/audit", token: Self.read).objects()
      let words = noted.map { "\($0["who"] ?? "") \($0["action"] ?? "") \($0["result"] ?? "")" }
      #expect(
        words == [
          "token:robot accounts limits --reset done", "token:viewer accounts export done",
          "token:robot accounts delete done", "token:robot accounts delete failed", "token:robot accounts ban done",
          "token:robot accounts unban done", "token:robot accounts unban failed",
        ])
      #expect(noted.allSatisfy { $0["subject"] as? String == handle })
      #expect(!relay.log().contains(bob.number) && !relay.log().contains(Self.change))
    }
  }

  @Test func `the senders of most messages are ranked by handle`() async throws {
    try await withRelay { _, relay in
      let (ann, bob) = (try await relay.register(), try await relay.register())
      for time in 1...7 {
        let sender = time <= 5 ? ann : bob
        let other = time <= 5 ? bob : ann
        let message = #"{"type":1,"destinationDeviceId":1,"destinationRegistrationId":111,"body":"QUJD"}"#
        let sent = try await relay.send(
          "PUT", "/v1/messages/\(other.number)", json: #"{"messages":[\#(message)],"timestamp":\#(time)}"#, as: sender)
        #expect(sent.status == 200)
      }
      let ranking = try await relay.api("/senders", token: Self.read)
      let senders = try #require(try ranking.object()["senders"] as? [[String: Any]])
      #expect(senders.map { $0["messages"] as? Int } == [5, 2])
      let handle = try await relay.api("POST", "/handles", token: Self.read, json: #"{"number":"\#(ann.number)"}"#)
      #expect(senders.first?["handle"] as? String == (try handle.object()["handle"] as? String))
      #expect(!ranking.text.contains(ann.number))
    }
  }
}
