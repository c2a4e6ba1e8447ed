import ChildProcesses
import Foundation
import TestSupport
import TestTags
import Testing

/// Accounts that are deleted by the person, or by the operator, and numbers that are banned.
@Suite(.tags(.processes)) struct AccountRemovalTests {
  private static func object(_ text: String) throws -> [String: Any] {
    try #require(try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any])
  }

  private func send(_ relay: RelayProcess, to number: String, as sender: TestDevice) async throws -> Int {
    let message = #"{"type":1,"destinationDeviceId":1,"destinationRegistrationId":111,"body":"QUJD"}"#
    return try await relay.send(
      "PUT", "/v1/messages/\(number)", json: #"{"messages":[\#(message)],"timestamp":5}"#, as: sender
    ).status
  }

  /// As where --config is forgotten: the relay's own store would stay as it is.
  @Test func `what is said of a store that is not there is said in vain`() async throws {
    try await RelayOperator.with { site in
      for command in [["storage", "restored"], ["storage", "clock"], ["storage", "clock", "--accept"]] {
        let refused = try await site.run(command)
        #expect(refused.exit == .code(1) && refused.errors.contains("--config"), "\(command): \(refused.errors)")
        #expect(!FileManager.default.fileExists(atPath: site.folder + "/relay.sqlite"), "\(command)")
      }
    }
  }

  @Test func `people delete their accounts, with all that is kept for them`() async throws {
    try await RelayOperator.with(settings: RelayUnderTest.unlimited) { site in
      let relay = try await site.serve()
      let (ann, bob) = (try await relay.register(), try await relay.register())
      try await relay.upload([1, 2, 3], as: bob)
      #expect(try await send(relay, to: bob.number, as: ann) == 200)
      let slot = try await relay.send("GET", "/v1/attachments/", as: bob)
      #expect(slot.status == 200)

      #expect(try await relay.send("DELETE", "/v1/accounts/").status == 401)
      let wrong = TestDevice(number: bob.number, password: "wrong")
      #expect(try await relay.send("DELETE", "/v1/accounts/", as: wrong).status == 401)
      #expect(try await relay.send("PUT", "/v1/accounts/", as: bob).status == 405)
      let answer = try await relay.send("DELETE", "/v1/accounts/", as: bob)
      #expect((200...204).contains(answer.status), "\(answer.text)")

      #expect(try await relay.send("GET", "/v1/keys", as: bob).status == 401)
      #expect(try await send(relay, to: bob.number, as: ann) == 404)
      #expect(try await relay.send("GET", "/v2/keys/\(bob.number)/1", as: ann).status == 404)
      let count = try Self.object(try await site.relay("accounts", "count", "--json"))
      #expect(count as? [String: Int] == ["accounts": 1, "active": 1, "found": 1, "devices": 1, "banned": 0])
      // The number is free for whoever proves it.
      _ = try await relay.register(bob.number)
      #expect(try await send(relay, to: bob.number, as: ann) == 200)
      #expect(await relay.terminate() == .code(0))
    }
  }

  @Test func `an operator deletes, bans and unbans, with a receipt`() async throws {
    try await RelayOperator.with(settings: RelayUnderTest.unlimited) { site in
      let relay = try await site.serve()
      let (ann, bob) = (try await relay.register(), try await relay.register())
      try await relay.upload([1, 2, 3], as: bob)
      let receipt = site.folder + "/receipt.json"
      let words = try await site.relay("accounts", "delete", bob.number, "--receipt", receipt)
      #expect(words.contains("Deleted: 1 device") && words.contains("3 prekeys") && !words.contains(bob.number))
      let written = try Self.object(try String(contentsOfFile: receipt, encoding: .utf8))
      #expect(written["number"] as? String == bob.number)
      #expect((written["deleted"] as? [String: Int])?["devices"] == 1)
      let mode = try FileManager.default.attributesOfItem(atPath: receipt)[.posixPermissions] as? Int
      #expect(mode == 0o600)

      // Nothing is deleted without its receipt, and no receipt is written over.
      let refused = try await site.run(["accounts", "delete", ann.number, "--receipt", receipt])
      #expect(refused.exit != .code(0) && refused.errors.contains("there already"))
      #expect(try await site.relay("accounts", "list", "--json").contains(ann.number))
      let unknown = try await site.run(["accounts", "delete", bob.number])
      #expect(unknown.exit != .code(0) && unknown.errors.contains("no such account"))

      #expect(try await site.relay("accounts", "ban", bob.number).contains("had no account"))
      #expect(try await site.relay("accounts", "count").contains("banned numbers"))
      let asked = try await relay.send("GET", "/v1/accounts/dev/code/\(bob.number)")
      #expect(asked.status == 403 && asked.text.contains("number-banned"), "\(asked.status) \(asked.text)")
      #expect(try await site.relay("accounts", "unban", bob.number).contains("may register again"))
      _ = try await relay.register(bob.number)
      let twice = try await site.run(["accounts", "unban", bob.number])
      #expect(twice.exit != .code(0) && twice.errors.contains("not banned"))
      #expect(await relay.terminate() == .code(0))
    }
  }

  @Test func `peers learn that a deleted account is not here any more`() async throws {
    try await PeeredOperator.withTwo { alpha, beta in
      let (ann, bob) = (try await alpha.relay.register(), try await beta.relay.register())
      let path = "/v1/directory/\(try TestTokens.urlSafe(bob.number))"
      func found() async throws -> Int { try await alpha.relay.send("GET", path, as: ann).status }
      try await eventually("alpha lists bob") { try await found() == 200 }
      #expect(try await beta.relay.send("DELETE", "/v1/accounts/", as: bob).status == 200)
      try await eventually("alpha lists bob no more") { try await found() == 404 }
    }
  }
}
