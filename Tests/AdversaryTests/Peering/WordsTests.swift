// Somebody reads and changes the invitation on its way: what both operators see of it.

import TestSupport
import TestTags
import Testing

@Suite(.tags(.processes)) struct PeeringWordsTests {
  /// They were made of both CAs, so that who stood between could choose his own two until both operators saw the same.
  @Test(arguments: StoreKind.allCases) func `an authority shows the same words to every peer`(kind: StoreKind)
    async throws
  {
    try await Victim.with(kind) { victim in
      try await withOperator("beta") { beta in
        try await withOperator("gamma") { gamma in
          // Before the other side is known, and however that comes about.
          let invited = try await victim.site.invite()
          let seenByBeta = try await beta.accept(invited.invitation)
          let seenByUs = try await victim.site.accept(try await gamma.invite().invitation)
          let listed = try await victim.site.peers()
          #expect(listed.map(\.name) == ["beta", "gamma"])
          #expect(Set(listed.map(\.ourWords) + [seenByUs.ourWords, seenByBeta.theirWords]) == [invited.ourWords])
          #expect(try await gamma.peers().map(\.theirWords) == [invited.ourWords])
          #expect(try await listed.map(\.theirWords) == [beta.peers()[0].ourWords, gamma.peers()[0].ourWords])
          #expect(Set(listed.map(\.theirWords)).count == 2)
          #expect(invited.ourWords.split(separator: " ").count == 10)
        }
      }
    }
  }

  @Test(arguments: StoreKind.allCases) func `a man in the middle of the invitation is noticed by the words`(
    kind: StoreKind
  ) async throws {
    try await Victim.with(kind) { victim in
      try await withOperator("beta") { beta in
        // One who keeps our invitation for himself, as beta, and gives beta one of his own, as us.
        try await withOperator("beta") { towardsUs in
          try await withOperator("local") { towardsBeta in
            let ours = try await victim.site.invite()
            _ = try await towardsUs.accept(ours.invitation)
            let accepted = try await beta.accept(try await towardsBeta.invite().invitation)
            let listed = try #require(try await victim.site.peers().first)
            #expect(listed.name == "beta" && listed.state == "active" && accepted.name == "local")
            // All is in order, but for the words: what one reads out is not what the other sees.
            #expect(accepted.theirWords != ours.ourWords)
            #expect(listed.theirWords != accepted.ourWords)
            #expect(listed.ourWords == ours.ourWords)
          }
        }
      }
    }
  }

  @Test(arguments: StoreKind.allCases) func `a roll-over shows the words of the new authority`(kind: StoreKind)
    async throws
  {
    try await Victim.with(kind) { victim in
      try await withOperator("beta") { beta in
        let before = try await beta.accept(try await victim.site.invite().invitation).theirWords
        let begun = try await victim.site.relay("ca", "rollover", "begin")
        let next = try await eventually("beta has heard of the next CA") { () -> String? in
          let shown = try await beta.relay("peer", "show", "local").split(separator: "\n")
          let line = shown.first { $0.hasPrefix("their next words") }
          return line?.split(separator: " ").suffix(10).joined(separator: " ")
        }
        #expect(begun.contains(next) && next != before)
        #expect(try await victim.site.relay("ca", "rollover", "status").contains(next))
        #expect(try await victim.site.relay("ca", "rollover", "finish").contains(next))
        #expect(try await victim.site.peers().map(\.ourWords) == [next])
      }
    }
  }
}
