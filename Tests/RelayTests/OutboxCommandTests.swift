import Foundation
import TestSupport
import TestTags
import Testing

/// A peer that is killed and comes back, and what its operator's neighbour sees: real processes, embedded stores.
@Suite(.tags(.processes)) struct OutboxCommandTests {
  @Test func `a message accepted for a peer that is away arrives, or its sender is told`() async throws {
    try await PeeredOperator.withTwo { alpha, beta in
      let bob = try await alpha.relay.register()
      let alice = try await beta.relay.register()
      try await beta.site.relay("peer", "set", "alpha", "--hold", "on")
      func send(_ time: Int64) async throws -> Int {
        let body =
          #"{"relay":"alpha","timestamp":\#(time),"messages":[\#(message(registrationID: bob.registrationID))]}"#
        return try await beta.relay.send("PUT", "/v1/messages/\(bob.number)", json: body, as: alice).status
      }
      // Again and again: alpha stores a repetition once.
      try await eventually("bob's devices are confirmed", every: .milliseconds(200)) {
        #expect(try await send(1) == 200)
        return try await beta.site.hasConfirmedDevices(of: bob, by: "alpha")
      }
      await alpha.relay.kill9()
      // The process hears of the policy within a second; what is held is held once.
      for time: Int64 in 2...5 {
        try await eventually("message \(time) is accepted", every: .milliseconds(200)) { try await send(time) == 200 }
      }
      await beta.relay.kill9()
      try await beta.serve()

      let messages = try await Self.held(by: beta)
      #expect(messages.count == 4)
      let listing = try await beta.site.relay("queue", "list")
      #expect(listing.contains("alpha") && !listing.contains(String(bob.number.dropFirst())))
      let first = try #require(messages.first?["id"] as? Int)
      let outcome = try await beta.site.relay("queue", "drop", "--peer", "alpha", "--id", "\(first)")
      #expect(outcome.contains("1 message for alpha given up"))
      let notices = try await beta.relay.mailbox(of: alice).filter { $0["type"] as? Int == 64 }
      let notice = try #require(notices.first)
      #expect(notices.count == 1)
      #expect(notice["timestamp"] as? Int == 2 && notice["source"] as? String == bob.number)
      #expect(notice["relay"] as? String == "alpha" && notice["message"] as? String == "")
      // It is acknowledged like a message, and nobody is told.
      let path = "/v1/messages/\(bob.number)/2"
      #expect(try await beta.relay.send("PUT", "/v1/receipt/\(bob.number)/2", as: alice).status == 404)
      #expect(try await beta.relay.send("DELETE", path, as: alice).status == 200)

      try await alpha.serve()
      #expect(try await beta.site.relay("queue", "retry", "--peer", "alpha").contains("for alpha"))
      try await eventually("all have arrived") { try await Self.held(by: beta).isEmpty }
      let arrived = try await alpha.relay.mailbox(of: bob).compactMap { $0["timestamp"] as? Int }
      #expect(arrived == [1, 3, 4, 5])
      #expect(try await beta.site.relay("queue", "list").contains("Nothing waits"))
    }
  }

  private static func held(by relay: PeeredOperator) async throws -> [[String: Any]] {
    let text = try await relay.site.relay("queue", "list", "--peer", "alpha", "--json")
    return try #require(try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [[String: Any]])
  }
}
