import ChildProcesses
import Foundation
import TestSupport
import TestTags
import Testing

/// An operator gives somebody back what was charged by mistake; limits are in Redis.
@Suite(.tags(.processes)) struct LimitsCommandTests {
  private static func rows(_ text: String) throws -> [[String: Any]] {
    try #require(try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [[String: Any]])
  }

  @Test(.timeLimit(.minutes(5))) func `the limits command shows who is limited, and lifts the limit`() async throws {
    let settings = ["RELAY_LIMITS_ATTACHMENTS_SIZE": "2", "RELAY_LIMITS_ATTACHMENTS_PER_MINUTE": "0"]
    try await Victim.with(.servers, settings: Victim.unlimited.merging(settings) { $1 }) { victim in
      let (relay, site) = (victim.relay, victim.site)
      let bob = try await relay.register()
      #expect(try await site.relay("accounts", "limits", bob.number, "--json").contains("attachments"))
      for status in [200, 200, 413] {
        #expect(try await relay.send("GET", "/v1/attachments/", as: bob).status == status)
      }
      let shown = try await site.relay("accounts", "limits", bob.number)
      #expect(shown.contains("attachments") && !shown.contains("prekeys-target"))
      let rows = try Self.rows(try await site.relay("accounts", "limits", bob.number, "--json"))
      let row = try #require(rows.first { $0["limiter"] as? String == "attachments" })
      #expect(row["free"] as? Double == 0 && row["size"] as? Double == 2)

      try await site.relay("accounts", "limits", bob.number, "--reset")
      let after = try Self.rows(try await site.relay("accounts", "limits", bob.number, "--json"))
      #expect(after.allSatisfy { $0["free"] as? Double == $0["size"] as? Double })
      #expect(try await relay.send("GET", "/v1/attachments/", as: bob).status == 200)
      #expect(try await site.relay("audit").contains("accounts limits --reset"))
    }
  }

  @Test func `without Redis the limits command asks the process`() async throws {
    try await RelayOperator.with { site in
      let refused = try await site.run(["accounts", "limits", TestDevice.freshNumber()])
      #expect(refused.exit == .code(1) && refused.errors.contains("/api/v1/accounts"), "\(refused.errors)")
    }
  }
}
