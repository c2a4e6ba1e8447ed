// A relay that was invited tries to become more than the one peer that it was invited as.

import AsyncHTTPClient
import ChildProcesses
import NIOHTTP1
import RelayClient
import RelayCore
import TestSupport
import TestTags
import Testing

@Suite(.tags(.processes)) struct RedemptionTests {
  private static let path = "/v1/federation/peering"
  private static let nowhere = "https://127.0.0.1:1"

  /// With any URL, and then a walk back to it, it had our relay look for it who listens where.
  @Test(arguments: StoreKind.allCases) func `an invited peer cannot redeem again with another URL`(kind: StoreKind)
    async throws
  {
    try await Victim.with(kind) { victim in
      let evil = try await ScriptedPeer.start("evil")
      let invitations = try await [victim.site.invite(), victim.site.invite()].map {
        try OpenedInvitation($0.invitation)
      }
      try await victim.withClient(of: evil) { client in
        func redeem(_ invitation: OpenedInvitation, at url: String) async throws -> RawResponse {
          try await client.send(.PUT, Self.path, body: invitation.redemption(as: "evil", at: url))
        }
        for _ in 0..<2 { #expect(try await redeem(invitations[0], at: Self.nowhere).status == 200) }
        // The one that it has used, and another one that it got hold of.
        for invitation in invitations {
          for url in ["https://127.0.0.1:22", "https://10.0.0.1:1", "https://localhost:1"] {
            let answer = try await redeem(invitation, at: url)
            #expect(answer.status == 409 && answer.text.hasPrefix("url-fixed"), "\(url): \(answer.text)")
          }
        }
        #expect(try await redeem(invitations[0], at: Self.nowhere).status == 200)
      }
      #expect(try await victim.site.peers().map { "\($0.name) \($0.url)" } == ["evil \(Self.nowhere)"])
      // One name for a CA as well, while an invitation is open.
      let renamed = try evil.authority.leaf(relay: "other").clientConfiguration(trusting: victim.authority)
      await #expect(throws: (any Error).self) {
        try await withClient(to: victim.federationURL, renamed) {
          try await $0.send(.PUT, Self.path, body: invitations[1].redemption(as: "other", at: Self.nowhere))
        }
      }
      #expect(try await victim.site.peers().count == 1)
      try await evil.close()
    }
  }

  @Test(arguments: StoreKind.allCases) func `if an invitation is redeemed twice at once, one URL stands`(
    kind: StoreKind
  ) async throws {
    try await Victim.with(kind) { victim in
      let evil = try await ScriptedPeer.start("evil")
      var relays: [RelayProcess] = []
      var doors = [victim.federationURL]
      if kind == .servers {
        let port = try Loopback.freePorts(1)[0]
        relays.append(try await victim.site.serve(["RELAY_FEDERATION_PORT": "\(port)"]))
        doors.append("https://127.0.0.1:\(port)")
      }
      let invitation = try OpenedInvitation(try await victim.site.invite().invitation)
      let bodies = try (1...16).map { try invitation.redemption(as: "evil", at: "https://127.0.0.1:\($0)") }
      let configuration = try evil.leaf.clientConfiguration(trusting: victim.authority)
      let answers: [(Int, Int)] = try await withThrowingTaskGroup(of: (Int, Int).self) { group in
        for (place, body) in bodies.enumerated() {
          let door = doors[place % doors.count]
          group.addTask {
            try await eventually("an answer") {
              do {
                return try await withClient(to: door, configuration) {
                  (place + 1, try await $0.send(.PUT, Self.path, body: body).status)
                }
              } catch is HTTPClientError {
                // The invitation is used up, and this process does not know the new peer yet.
                return nil
              }
            }
          }
        }
        var answers: [(Int, Int)] = []
        for try await answer in group { answers.append(answer) }
        return answers
      }
      let accepted = answers.filter { $0.1 == 200 }.map { "https://127.0.0.1:\($0.0)" }
      #expect(accepted.count == 1, "\(answers)")
      #expect(answers.filter { $0.1 == 409 }.count == 15, "\(answers)")
      #expect(try await victim.site.peers().map(\.url) == accepted)
      for relay in relays { await relay.terminate() }
      try await evil.close()
    }
  }

  @Test(arguments: StoreKind.allCases) func `if the operator moves a peer, all processes follow`(kind: StoreKind)
    async throws
  {
    try await Victim.with(kind) { victim in
      let evil = try await ScriptedPeer.start("evil")
      let impostor = try await ScriptedPeer.start("evil")
      evil.answer { request in
        request.path == Self.path
          ? ScriptedPeer.Answer(status: 200, body: #"{"name":"local","state":"active"}"#)
          : ScriptedPeer.Answer(status: 404)
      }
      var relays = [victim.relay]
      if kind == .servers {
        // Without a listener for peers a process does not federate.
        let port = try Loopback.freePorts(1)[0]
        relays.append(try await victim.site.serve(["RELAY_FEDERATION_PORT": "\(port)"]))
      }
      let invitation = try OpenedInvitation(try await victim.site.invite().invitation)
      let status = try await victim.withClient(of: evil) {
        try await $0.send(.PUT, Self.path, body: invitation.redemption(as: "evil", at: Self.nowhere)).status
      }
      #expect(status == 200)
      // Checked: nobody is there, somebody else is there, and what is no URL at all.
      for (url, exit) in [(Self.nowhere, 1), (impostor.url, 1), ("http://127.0.0.1", 64)] {
        let result = try await victim.site.run(["peer", "set", "evil", "--url", url])
        #expect(result.exit == .code(Int32(exit)), "\(url): \(result.errors)")
      }
      #expect(impostor.requests.isEmpty)
      #expect(try await victim.site.peers().map(\.url) == [Self.nowhere])
      try await victim.site.relay("peer", "set", "evil", "--url", evil.url)
      #expect(try await victim.site.peers().map(\.url) == [evil.url])
      for relay in relays {
        let number = try #require(PhoneNumber(TestDevice.freshNumber()))
        let ann = try await RelayClient(url: relay.url).register(try #require(PhoneNumber(TestDevice.freshNumber())))
        try await eventually("this process asks there") {
          // It is refused, or there is no such account: what counts is who was asked.
          _ = try? await ann.client.drawPreKeys(of: number, at: "evil")
          return evil.requests.contains { $0.path.contains(number.e164.dropFirst()) }
        }
      }
      for relay in relays.dropFirst() { await relay.terminate() }
      try await evil.close()
      try await impostor.close()
    }
  }
}
