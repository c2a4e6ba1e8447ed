// A malicious peer claims numbers that have an account here, and reads what our listing tells.

import Foundation
import NIOHTTP1
import RelayCore
import TestSupport
import TestTags
import Testing

@Suite(.tags(.processes)) struct HiddenAccountTests {
  @Test(arguments: StoreKind.allCases, [ListingPeer.Style.feed, .asked])
  func `a number that proved itself here belongs to no peer`(kind: StoreKind, style: ListingPeer.Style) async throws {
    try await Victim.with(kind, settings: Victim.quickRounds) { victim in
      let evil = try await victim.befriend("evil", style)
      let (user, spare) = (TestDevice.freshNumber(), TestDevice.freshNumber())
      let caller = try await victim.relay.register()
      // Claimed before, and after.
      evil.list(user)
      try await eventually("evil's claim is there") { try await victim.relay(of: user, as: caller) == "evil" }
      let hidden = try await victim.relay.register(user, attributes: #","discoverableByPhoneNumber":false"#)
      try await eventually("it is nobody's") { try await victim.relay(of: user, as: caller) == nil }
      evil.unlist(user)
      evil.list(user)
      evil.list(spare)
      try await eventually("evil's listing is read") { try await victim.relay(of: spare, as: caller) == "evil" }
      #expect(try await victim.relay(of: user, as: caller) == nil)
      #expect(try await victim.speak(evil, for: user, to: caller.number) == 403)
      // A client that was told nobody writes to this relay, and reaches the account.
      let sent = try await victim.relay.send(
        "PUT", "/v1/messages/\(user)", json: bundle(message(registrationID: 111)), as: caller)
      #expect(sent.status == 200)
      try await eventually("the message is there") { try await victim.relay.mailbox(of: hidden).count == 1 }
      try await evil.peer.close()
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `a contact that was never listed never appears`(kind: StoreKind) async throws {
    try await Victim.with(kind, settings: Victim.quickRounds) { victim in
      let evil = try await victim.befriend("evil", .pages)
      try await eventually("evil is known") {
        // Until the relay has read its peers anew, the handshake fails.
        let answer = try? await victim.withClient(of: evil.peer) { try await $0.get("/v1/federation/user_count") }
        return answer?.status == 200
      }
      func get(_ path: String) async throws -> RawResponse {
        try await victim.withClient(of: evil.peer) { try await $0.get("/v1/federation/\(path)") }
      }
      let before = [try await get("user_count"), try await get("user_tokens/0"), try await get("changes")]
      let hidden = TestDevice.freshNumber()
      for _ in 0..<2 { _ = try await victim.relay.register(hidden, attributes: #","discoverableByPhoneNumber":false"#) }
      let after = [try await get("user_count"), try await get("user_tokens/0"), try await get("changes")]
      #expect(before.map(\.text) == after.map(\.text))
      #expect(before[0].headers.first(name: "ETag") == after[0].headers.first(name: "ETag"))

      // An account that was listed, and is hidden later, is there once.
      let shown = TestDevice.freshNumber()
      _ = try await victim.relay.register(shown)
      let cursor = try #require(try await get("changes").text.split(separator: #""cursor":""#).last).prefix {
        $0 != "\""
      }
      for _ in 0..<2 { _ = try await victim.relay.register(shown, attributes: #","discoverableByPhoneNumber":false"#) }
      let entry = #"{"contacts":[{"token":"\#(ListingPeer.token(of: shown).base64)","inactive":true}]"#
      #expect(try await get("user_count").text == #"{"count":1}"#)
      #expect(try await get("user_tokens/0").text == entry + "}")
      #expect(try await get("user_tokens/1").text == #"{"contacts":[]}"#)
      #expect(try await get("changes?after=\(cursor)").text.hasPrefix(entry))
      try await evil.peer.close()
    }
  }
}
