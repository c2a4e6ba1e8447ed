import ChildProcesses
import Foundation
import TestSupport
import TestTags
import Testing

/// Invitations that are listed and taken back, and suspensions with a reason and an end.
@Suite(.tags(.processes)) struct PeerTermsCommandTests {
  private static func objects(_ text: String) throws -> [[String: Any]] {
    try #require(try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [[String: Any]])
  }

  private static func object(_ text: String) throws -> [String: Any] {
    try #require(try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any])
  }

  @Test func `an invitation is listed, used, and another is withdrawn`() async throws {
    try await PeeredOperator.withTwo { alpha, beta in
      let invited = try Self.object(try await alpha.site.relay("peer", "invite", "--scope", "keys", "--json"))
      let (id, word) = (try #require(invited["id"] as? String), try #require(invited["invitation"] as? String))
      let listed = try Self.objects(try await alpha.site.relay("peer", "invitations", "--json"))
      // The first made the two peers.
      #expect(listed.map { $0["state"] as? String } == ["used", "open"])
      #expect(listed[0]["usedBy"] as? String == "beta")
      #expect(listed[1]["id"] as? String == id && listed[1]["scopes"] as? [String] == ["keys"])
      #expect(!listed.description.contains(word))
      #expect(try await alpha.site.relay("peer", "invitations").contains(id))

      let used = try await alpha.site.run(["peer", "withdraw", try #require(listed[0]["id"] as? String)])
      #expect(used.exit == .code(1) && used.errors.contains("used already"))
      #expect(try await alpha.site.relay("peer", "withdraw", id).contains("withdrawn"))
      let refused = try await beta.site.run(["peer", "accept", word])
      #expect(refused.exit != .code(0), "\(refused.output)")
      let gone = try await alpha.site.run(["peer", "withdraw", id])
      #expect(gone.exit == .code(1) && gone.errors.contains("peer invitations"))
      let none = try await alpha.site.run(["peer", "withdraw", "--all"])
      #expect(none.exit == .code(1) && none.errors.contains("No invitation is open"))
      for arguments in [[], [id, "--all"]] {
        #expect(try await alpha.site.run(["peer", "withdraw"] + arguments).exit == .code(64))
      }
      try await alpha.site.relay("peer", "invite")
      #expect(try await alpha.site.relay("peer", "withdraw", "--all").contains("withdrawn"))
    }
  }

  @Test func `a suspension shows its reason and ends by itself`() async throws {
    try await PeeredOperator.withTwo { alpha, _ in
      // The shortest that minutes can say is too long for a test: a moment soon.
      let seconds = Int(Date().timeIntervalSince1970) + 8
      let until = Date(timeIntervalSince1970: Double(seconds)).formatted(.iso8601)
      try await alpha.site.relay("peer", "suspend", "beta", "--reason", "they send spam", "--until", until)
      let row = try #require(try Self.objects(try await alpha.site.relay("peer", "list", "--json")).first)
      #expect(row["state"] as? String == "suspended" && row["suspensionReason"] as? String == "they send spam")
      #expect(row["suspendedUntil"] as? String == until)
      #expect(try await alpha.site.relay("peer", "show", "beta").contains("suspended until \(until): they send spam"))
      #expect(!alpha.relay.log().contains("its suspension has ended"))
      try await eventually("it ends", within: .seconds(60)) {
        alpha.relay.log().contains("its suspension has ended")
      }
      #expect(Int(Date().timeIntervalSince1970) >= seconds)
      let after = try #require(try Self.objects(try await alpha.site.relay("peer", "list", "--json")).first)
      #expect(after["state"] as? String == "active" && after["suspensionReason"] == nil)

      for arguments in [["--until", "2020-01-01"], ["--until", "soon"], ["--until", "0d"], ["--reason", ""]] {
        let refused = try await alpha.site.run(["peer", "suspend", "beta"] + arguments)
        #expect(refused.exit == .code(64), "\(arguments)")
      }
      #expect(try await alpha.site.relay("audit", "--about", "beta").contains("peer suspend"))
    }
  }
}
