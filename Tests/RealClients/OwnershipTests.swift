import ChildProcesses
import Foundation
import RelayClient
import TestSupport
import TestTags
import Testing

/// The account that a request without a relay's name reaches, and those that it does not reach.
@Suite(.tags(.processes)) struct OwnershipTests {
  @Test func `a number that two peers claim when they are asked is nobody's, and counted`() async throws {
    try await RelayOperator.with("alpha", settings: Stage.settings) { alpha in
      try await RelayOperator.with("beta", settings: Stage.settings) { beta in
        try await RelayOperator.with("gamma", settings: Stage.settings) { gamma in
          let relays = [
            try await Stage.start(alpha), try await Stage.start(beta), try await Stage.start(gamma),
          ]
          try await Stage.serving(relays) { relays in
            for (site, name) in [(beta, "beta"), (gamma, "gamma")] {
              try await Stage.peer(alpha, with: site)
              try await alpha.relay("peer", "set", name, "--contacts", "query")
            }
            // A relay that starts anew has copied nothing, and remembers nobody.
            await relays[0].terminate()
            try await Stage.serving([try await Stage.serve(alpha)]) { asking in
              try await Self.play(asking[0], relays[1], relays[2])
            }
          }
        }
      }
    }
  }

  private static func play(_ alpha: RelayProcess, _ beta: RelayProcess, _ gamma: RelayProcess) async throws {
    let ann = try await Person.register(.go2017, at: alpha, registrationID: 1)
    let bob = try await Person.register(.go2017, at: beta, registrationID: 2)
    // Asked, not copied: found by the request itself.
    try await eventually("the one who has it is reached", within: .seconds(40), every: .milliseconds(200)) {
      try await ann.ask("GET", "/v2/keys/\(bob.number)/1").status == 200
    }
    let both = try await Person.register(.go2017, at: beta, registrationID: 3)
    let other = try await Person.register(.go2017, at: gamma, both.number, registrationID: 4)
    // Each says that it has the number: what was just registered is listed soon, not at once.
    let token = ContactTokens.token(for: try #require(PhoneNumber(both.number)))
    for person in [both, other] {
      try await eventually("the number is listed", within: .seconds(40), every: .milliseconds(50)) {
        let found = try await person.ask("PUT", "/v1/directory/tokens", #"{"contacts": ["\#(token)"]}"#)
        return !found.list("contacts").isEmpty
      }
    }
    for path in ["/v2/keys/\(both.number)/1", "/v1/keys/\(both.number)"] {
      #expect(try await ann.ask("GET", path).status == 404)
    }
    let bundle = RealClient.go2017.bundle(
      [.init(device: 1, registrationID: 3, type: 3, text: "x")], to: both.number, at: 1, relay: nil)
    #expect(try await ann.ask("PUT", "/v1/messages/\(both.number)", bundle).status == 404)
    let metrics = try await alpha.ask("/metrics").text
    #expect(metrics.contains(#"relay_implicit_routes_total{outcome="contested"} 3"#), "\(metrics.count)")
    #expect(metrics.contains(#"relay_implicit_routes_total{outcome="routed"}"#))
    // A caller that names the relay reaches the account there.
    #expect(try await ann.ask("GET", "/v2/keys/\(both.number)/1?relay=beta").status == 200)
  }

  @Test func `an operator switches it off for a peer, and for all`() async throws {
    try await Stage.with(.twoOperators) { stage in
      let ann = try await Person.register(.go2017, at: stage.near, registrationID: 1)
      let bob = try await Person.register(.go2017, at: stage.far, registrationID: 2)
      let path = "/v2/keys/\(bob.number)/1"
      let reached = { try await ann.ask("GET", path).status }
      try await eventually("routed", within: .seconds(40)) { try await reached() == 200 }
      try await stage.alpha.relay("peer", "set", "beta", "--implicit", "off")
      try await eventually("not routed any more", within: .seconds(20)) { try await reached() == 404 }
      #expect(try await ann.ask("GET", path + "?relay=beta").status == 200)
      try await stage.alpha.relay("peer", "set", "beta", "--implicit", "on")
      try await eventually("routed again", within: .seconds(20)) { try await reached() == 200 }
      let test = try await stage.alpha.run(["peer", "test", "beta"], within: .seconds(60))
      #expect(test.output.contains("clients that name no relay reach its numbers by the copied listing"), "\(test)")
    }
    let off = Stage.settings.merging(["RELAY_FEDERATION_IMPLICIT": "false"]) { $1 }
    try await Stage.with(.twoOperators, settings: off) { stage in
      let ann = try await Person.register(.android2017, at: stage.near, registrationID: 1)
      let bob = try await Person.register(.android2017, at: stage.far, registrationID: 2)
      try await eventually("who names the relay reaches it", within: .seconds(40)) {
        try await ann.ask("GET", "/v2/keys/\(bob.number)/1?relay=beta").status == 200
      }
      #expect(try await ann.ask("GET", "/v2/keys/\(bob.number)/1").status == 404)
    }
  }

  /// Numbers that a peer has are not cheaper to find out than numbers that are here.
  @Test func `looking for ever new numbers costs the budget that look-ups have`() async throws {
    let tight = Stage.settings.merging([
      "RELAY_DIRECTORY_BUDGET_FIRST": "60", "RELAY_DIRECTORY_BUDGET_PER_DAY": "60",
    ]) { $1 }
    try await Stage.with(.twoOperators, settings: tight) { stage in
      let ann = try await Person.register(.go2017, at: stage.near, registrationID: 1)
      var statuses: [Int] = []
      for _ in 0..<80 {
        statuses.append(try await ann.ask("GET", "/v2/keys/\(TestDevice.freshNumber())/1").status)
      }
      #expect(statuses.first == 404 && statuses.last == 413)
      #expect((40...79).contains(statuses.count { $0 == 404 }), "\(statuses)")
      // Then a number of the peer's tells nothing either.
      let bob = try await Person.register(.go2017, at: stage.far, registrationID: 2)
      #expect(try await ann.ask("GET", "/v2/keys/\(bob.number)/1").status == 413)
    }
  }

  @Test func `conformance keeps every rule of clients that name no relay`() async throws {
    try await Stage.with(.twoOperators) { stage in
      let result = try await stage.alpha.run(
        ["conformance", "--target", stage.near.url, "--across", stage.far.url, "--filter", "name no relay"],
        within: .seconds(120))
      #expect(result.exit == .code(0), "\(result.output.suffix(3000)) \(result.errors)")
      #expect(result.output.split(separator: "\n").count { $0.hasPrefix("ok ") } >= 6, "\(result.output)")
    }
  }

  @Test func `the demo holds its conversation with clients that name no relay too`() async throws {
    try await RelayOperator.with { site in
      let result = try await site.run(["demo", "--exit"], within: .seconds(120))
      #expect(result.exit == .code(0), "\(result.output.suffix(3000)) \(result.errors)")
      #expect(result.output.contains("by clients that never name a relay"))
      #expect(result.output.contains("by the mark in the id alpha knows that beta holds it"))
    }
  }
}
