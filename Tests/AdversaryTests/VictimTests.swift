// The base of the attacks: a hostile peer is heard as the peer that it is, and nobody else is.

import TestSupport
import TestTags
import Testing

@Suite(.tags(.processes)) struct VictimTests {
  @Test(arguments: StoreKind.allCases) func `only a trusted peer is heard`(kind: StoreKind) async throws {
    try await Victim.with(kind) { victim in
      let evil = try await ScriptedPeer.start("evil")
      let stranger = try await ScriptedPeer.start("stranger")
      try await victim.trust(evil, as: "evil")
      try await eventually("evil is known") {
        // Until the relay has read its peers anew, the handshake fails.
        let answer = try? await victim.withClient(of: evil) { try await $0.get("/v1/federation/user_count") }
        return answer?.status == 200
      }
      await #expect(throws: (any Error).self) {
        try await victim.withClient(of: stranger) { try await $0.get("/v1/federation/user_count") }
      }
      try await evil.close()
      try await stranger.close()
    }
  }
}
