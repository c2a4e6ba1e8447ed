// An invitation asks for more than the operator who accepts it wants to give.

import ChildProcesses
import TestSupport
import TestTags
import Testing

@Suite(.tags(.processes)) struct GrantTests {
  @Test(arguments: StoreKind.allCases) func `accept grants no more than the invitation and the operator both name`(
    kind: StoreKind
  ) async throws {
    try await Victim.with(kind) { victim in
      try await withOperator("greedy") { greedy in
        let word = try await greedy.invite(scope: "messages,keys,directory,attachments").invitation
        let misspelt = try await victim.site.run(["peer", "accept", word, "--scope", "keys,everything"])
        #expect(misspelt.exit == .code(64) && misspelt.errors.contains(#"There is no scope "everything""#))
        #expect(try await victim.site.peers().isEmpty)
        let accepted = try await victim.site.accept(word, "--scope", "keys,lookup")
        #expect(accepted.scopes == ["keys"] && accepted.gets == ["attachments", "directory", "keys", "messages"])
        // Neither without the option, nor by another invitation, nor with scopes that it was not granted.
        let another = try await greedy.invite(scope: "messages,keys,directory,lookup,attachments").invitation
        for invitation in [word, another] {
          #expect(try await victim.site.accept(invitation).scopes == ["keys"])
          let more = try await victim.site.run(["peer", "accept", invitation, "--scope", "messages,directory"])
          #expect(more.exit == .code(1) && more.errors.contains("keys"), "\(more.errors)")
        }
        #expect(try await victim.site.peers().map(\.scopes) == [["keys"]])
        try await greedy.withClient(to: victim) { client in
          let (covered, refused) = (
            try await client.get("/v2/federation/key/+14155550100/1"), try await client.get("/v1/federation/user_count")
          )
          #expect(covered.status == 404, "\(covered.text)")
          #expect(refused.status == 403 && refused.text.hasPrefix("scope-refused"), "\(refused.text)")
        }
      }
    }
  }

  @Test(arguments: StoreKind.allCases) func `the scopes are shown before anything is stored`(kind: StoreKind)
    async throws
  {
    try await Victim.with(kind) { victim in
      try await withOperator("greedy") { greedy in
        let invited = try await greedy.invite(scope: "messages,directory")
        var spoilt = try OpenedInvitation(invited.invitation)
        spoilt.secret = spoilt.ca
        let result = try await victim.site.run(["peer", "accept", try spoilt.word])
        #expect(result.exit == .code(1))
        for line in [
          "grants them: directory,messages", "gets from them: directory,messages", "their words: \(invited.ourWords)",
        ] {
          #expect(result.output.contains(line), "\(result.output)")
        }
        #expect(try await victim.site.peers().isEmpty)
        #expect(try await greedy.peers().isEmpty)
        // Nothing but the result is on the standard output of --json.
        _ = try await victim.site.accept(invited.invitation)
      }
    }
  }

  /// Somebody on the way has us believe that the inviter asks for more, and gives more, than it does.
  @Test(arguments: StoreKind.allCases) func `an invitation that was widened on its way is noticed`(kind: StoreKind)
    async throws
  {
    try await Victim.with(kind) { victim in
      try await withOperator("modest") { modest in
        var widened = try OpenedInvitation(try await modest.invite(scope: "messages").invitation)
        widened.scopes = ["messages", "directory"]
        let result = try await victim.site.run(["peer", "accept", try widened.word, "--scope", "messages"])
        #expect(result.exit == .code(0), "\(result.errors)")
        #expect(result.output.contains("It grants messages, other than the invitation says"), "\(result.output)")
        #expect(try await victim.site.peers().map(\.scopes) == [["messages"]])
        #expect(try await modest.peers().map(\.scopes) == [["messages"]])
      }
    }
  }
}
