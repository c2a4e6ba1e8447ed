import ChildProcesses
import Foundation
import TestSupport
import TestTags
import Testing

/// An operator looks at accounts while the relay runs.
@Suite(.tags(.processes)) struct AccountsCommandTests {
  private static func objects(_ text: String) throws -> [[String: Any]] {
    try #require(try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [[String: Any]])
  }

  private static func object(_ text: String) throws -> [String: Any] {
    try #require(try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any])
  }

  @Test func `accounts are listed, counted and shown with what waits for them`() async throws {
    try await RelayOperator.with { site in
      #expect(try await site.relay("accounts", "list").contains("No accounts."))
      let relay = try await site.serve()
      let (ann, bob) = (try await relay.register(), try await relay.register())
      let hidden = try await relay.register(
        TestDevice.freshNumber(), attributes: #","discoverableByPhoneNumber":false"#)
      try await relay.upload([1, 2, 3], as: bob)
      let message = #"{"type":1,"destinationDeviceId":1,"destinationRegistrationId":111,"body":"QUJD"}"#
      let sent = try await relay.send(
        "PUT", "/v1/messages/\(bob.number)", json: #"{"messages":[\#(message)],"timestamp":5}"#, as: ann)
      #expect(sent.status == 200)

      let count = try Self.object(try await site.relay("accounts", "count", "--json"))
      #expect(count as? [String: Int] == ["accounts": 3, "active": 3, "found": 2, "devices": 3, "banned": 0])

      let listed = try Self.objects(try await site.relay("accounts", "list", "--json"))
      let numbers = listed.compactMap { $0["number"] as? String }
      #expect(Set(numbers) == [ann.number, bob.number, hidden.number] && numbers == numbers.sorted())
      #expect(listed.filter { $0["isFound"] as? Bool == false }.map { $0["number"] as? String } == [hidden.number])
      let page = try await site.run(["accounts", "list", "--limit", "1"])
      #expect(page.output.contains(numbers[0]) && page.errors.contains("--after "))
      let rest = try Self.objects(try await site.relay("accounts", "list", "--after", numbers[0], "--json"))
      #expect(rest.compactMap { $0["number"] as? String } == Array(numbers.dropFirst()))
      let mine = try Self.objects(try await site.relay("accounts", "list", "--prefix", bob.number, "--json"))
      #expect(mine.compactMap { $0["number"] as? String } == [bob.number])

      let shown = try await site.relay("accounts", "show", bob.number, "--json")
      #expect(!shown.contains(bob.number.dropFirst()) && !shown.contains(bob.password))
      let device = try #require((try Self.object(shown)["devices"] as? [[String: Any]])?.first)
      #expect(device["waiting"] as? Int == 1 && device["waitingBytes"] as? Int == 3 && device["preKeys"] as? Int == 3)
      #expect(device["isActive"] as? Bool == true && device["push"] as? [String] == [])
      #expect(try await site.relay("accounts", "devices", bob.number).contains("fetches"))
      #expect(try await site.relay("accounts", "show", ann.number).contains("registration lock"))

      let file = site.folder + "/export.json"
      try await site.relay("accounts", "export", bob.number, "--output", file)
      let exported = try String(contentsOfFile: file, encoding: .utf8)
      let export = try Self.object(exported)
      #expect(export["number"] as? String == bob.number && export["attachments"] as? Int == 0)
      #expect((export["leftOut"] as? [String])?.isEmpty == false && !exported.contains(bob.password))
      let mode = try FileManager.default.attributesOfItem(atPath: file)[.posixPermissions] as? Int
      #expect(mode == 0o600)
      let again = try await site.run(["accounts", "export", bob.number, "--output", file])
      #expect(again.exit == .code(1) && again.errors.contains("there already"))
      let handle = try #require(export["handle"] as? String)
      #expect(try Self.object(try await site.relay("accounts", "export", handle))["handle"] as? String == handle)

      for (arguments, reason) in [
        (["show", "00000000-0000-4000-8000-000000000000"], "not one of this relay"),
        (["show", "4711"], "no number"), (["show", TestDevice.freshNumber()], "no such account"),
        (["list", "--limit", "0"], "--limit"), (["list", "--prefix", "x"], "--prefix"),
      ] {
        let refused = try await site.run(["accounts"] + arguments)
        #expect(refused.exit != .code(0) && refused.errors.contains(reason), "\(refused.errors)")
      }
      #expect(await relay.terminate() == .code(0))
    }
  }
}
