// A malicious peer lists the users of another, and waits.

import ChildProcesses
import Foundation
import RelayCore
import TestSupport
import TestTags
import Testing

@Suite(.tags(.processes)) struct OwnershipTests {
  /// gamma lists a user, and evil lists the same later. Then gamma's user registers again, or leaves and comes back.
  @Test(arguments: StoreKind.allCases, [ListingPeer.Style.pages, .feed])
  func `a contact stays with the peer that listed it first`(kind: StoreKind, style: ListingPeer.Style) async throws {
    try await Victim.with(kind, settings: Victim.quickRounds) { victim in
      let (user, spare) = (TestDevice.freshNumber(), TestDevice.freshNumber())
      let gamma = try await victim.befriend("gamma", style)
      let evil = try await victim.befriend("evil", .pages)
      let caller = try await victim.relay.register()
      func owner() async throws -> String? { try await victim.relay(of: user, as: caller) }

      gamma.list(user)
      try await eventually("gamma's user is found") { try await owner() == "gamma" }
      evil.list(user)
      evil.list(spare)
      try await eventually("evil's listing is read") { try await victim.relay(of: spare, as: caller) == "evil" }
      #expect(try await owner() == "gamma")

      for leave in [{ gamma.list(user, isActive: false) }, { gamma.unlist(user) }] {
        leave()
        try await eventually("the user is gone") { try await owner() == nil }
        // Evil says it again, and is heard: what it says besides is found.
        let next = TestDevice.freshNumber()
        evil.unlist(user)
        evil.list(next)
        try await eventually("evil's listing is read") { try await victim.relay(of: next, as: caller) == "evil" }
        evil.list(user)
        let last = TestDevice.freshNumber()
        evil.list(last)
        try await eventually("evil's listing is read") { try await victim.relay(of: last, as: caller) == "evil" }
        #expect(try await owner() == nil)
        #expect(try await victim.speak(evil, for: user, to: caller.number) == 403)
        #expect(try await victim.speak(gamma, for: user, to: caller.number) == 200)

        gamma.list(user)
        try await eventually("the user is gamma's again") { try await owner() == "gamma" }
        #expect(try await victim.speak(evil, for: user, to: caller.number) == 403)
        #expect(try await victim.speak(gamma, for: user, to: caller.number) == 200)
      }
      #expect(try await victim.passesCounted() == 0)
      for peer in [gamma, evil] { try await peer.peer.close() }
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `a contact passes when its tombstone ends, and is counted without its number`(kind: StoreKind) async throws {
    try await Victim.with(kind, settings: Victim.quickRounds) { victim in
      let (user, other) = (TestDevice.freshNumber(), TestDevice.freshNumber())
      let gamma = try await victim.befriend("gamma", .feed)
      let delta = try await victim.befriend("delta", .feed)
      let caller = try await victim.relay.register()
      gamma.list(user)
      try await eventually("gamma's user is found") { try await victim.relay(of: user, as: caller) == "gamma" }
      for number in [user, other] { delta.list(number) }
      try await eventually("delta's listing is read") { try await victim.relay(of: other, as: caller) == "delta" }
      gamma.unlist(user)
      try await eventually("the user is gone") { try await victim.relay(of: user, as: caller) == nil }
      try await victim.ageTombstones()
      try await eventually("the user is delta's") { try await victim.relay(of: user, as: caller) == "delta" }
      try await eventually("it is counted") { try await victim.passesCounted() == 1 }
      #expect(victim.relay.log().contains("contacts passed from one peer to another"))
      #expect(!victim.relay.log().contains(user.dropFirst()))
      try await eventually("delta is heard") {
        try await victim.speak(delta, for: user, to: caller.number) == 200
      }
      for peer in [gamma, delta] { try await peer.peer.close() }
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `the operator decides whose a contact is, and sees which are contested`(kind: StoreKind) async throws {
    try await Victim.with(kind, settings: Victim.quickRounds) { victim in
      let (user, spare) = (TestDevice.freshNumber(), TestDevice.freshNumber())
      let evil = try await victim.befriend("evil", .feed)
      let gamma = try await victim.befriend("gamma", .feed)
      let caller = try await victim.relay.register()
      // Evil was faster.
      evil.list(user)
      try await eventually("evil has it") { try await victim.relay(of: user, as: caller) == "evil" }
      for number in [user, spare] { gamma.list(number) }
      try await eventually("gamma's listing is read") { try await victim.relay(of: spare, as: caller) == "gamma" }

      let peers = try await victim.site.relay("peer", "list", "--json")
      let rows = try #require(try JSONSerialization.jsonObject(with: Data(peers.utf8)) as? [[String: Any]])
      func contested(_ name: String) -> [String: Int]? {
        rows.first { $0["name"] as? String == name }?["contested"] as? [String: Int]
      }
      #expect(contested("evil") == ["lists": 0, "has": 1])
      #expect(contested("gamma") == ["lists": 1, "has": 0])
      #expect(try await victim.site.relay("peer", "list").contains("CONTESTED"))
      let shown = try await victim.site.relay("directory", "owner", user, "--show")
      #expect(shown.contains("evil") && shown.contains("gamma") && !shown.contains(user.dropFirst()))

      let decided = try await victim.site.run(["directory", "owner", user, "--peer", "gamma"])
      #expect(decided.exit == .code(0) && decided.errors.contains("from evil to gamma"))
      #expect(!(decided.output + decided.errors).contains(user.dropFirst()))
      try await eventually("gamma has it") { try await victim.relay(of: user, as: caller) == "gamma" }
      try await eventually("it is counted") { try await victim.passesCounted() == 1 }
      try await eventually("gamma is heard") { try await victim.speak(gamma, for: user, to: caller.number) == 200 }
      try await eventually("evil is not") { try await victim.speak(evil, for: user, to: caller.number) == 403 }
      // By listing it anew evil wins nothing.
      evil.unlist(user)
      evil.list(user)
      evil.list(TestDevice.freshNumber())
      let last = TestDevice.freshNumber()
      evil.list(last)
      try await eventually("evil's listing is read") { try await victim.relay(of: last, as: caller) == "evil" }
      #expect(try await victim.relay(of: user, as: caller) == "gamma")
      for (arguments, reason) in [
        ([user, "--peer", "nobody"], "no peer"), (["4711", "--show"], "no number"), ([user], "--show"),
      ] {
        let refused = try await victim.site.run(["directory", "owner"] + arguments)
        #expect(refused.exit != .code(0) && refused.errors.contains(reason))
      }
      for peer in [gamma, evil] { try await peer.peer.close() }
    }
  }

  /// Commands on a peer move contacts that others claim too. These passes are counted like any other.
  @Test(arguments: StoreKind.allCases)
  func `contacts that the operator's commands move are counted, even while no process runs`(kind: StoreKind)
    async throws
  {
    try await Victim.with(kind, settings: Victim.quickRounds) { victim in
      let (user, spare) = (TestDevice.freshNumber(), TestDevice.freshNumber())
      let gamma = try await victim.befriend("gamma", .feed)
      let evil = try await victim.befriend("evil", .feed)
      let caller = try await victim.relay.register()
      gamma.list(user)
      try await eventually("gamma has it") { try await victim.relay(of: user, as: caller) == "gamma" }
      for number in [user, spare] { evil.list(number) }
      try await eventually("evil's listing is read") { try await victim.relay(of: spare, as: caller) == "evil" }
      var passed = 0
      for command in ["suspend", "resume"] {
        let said = try await victim.site.run(["peer", command, "gamma"])
        #expect(said.exit == .code(0) && said.errors.contains(": 1. `relay directory owner`"), "\(said.errors)")
        passed += 1
        try await eventually("it is counted") { try await victim.passesCounted() == passed }
      }
      let again = try await victim.site.run(["peer", "resume", "gamma"])
      #expect(again.exit == .code(0) && !again.errors.contains("Contacts"))
      // The claims of a copy end with it. Read anew, it comes second.
      let ended = try await victim.site.run(["peer", "set", "gamma", "--contacts", "query"])
      #expect(ended.exit == .code(0) && ended.errors.contains(": 1. `relay directory owner`"), "\(ended.errors)")
      try await eventually("it is counted") { try await victim.passesCounted() == passed + 1 }
      try await victim.site.relay("peer", "set", "gamma", "--contacts", "copy")
      try await eventually("gamma claims it again") {
        try await victim.site.relay("directory", "owner", user, "--show").contains("gamma")
      }
      #expect(await victim.relay.terminate() == .code(0))

      let decided = try await victim.site.run(["directory", "owner", user, "--peer", "gamma", "--show"])
      #expect(decided.exit == .code(0) && decided.output.contains("evil") && decided.output.contains("gamma"))
      let removed = try await victim.site.run(["peer", "remove", "gamma"])
      #expect(removed.exit == .code(0) && removed.errors.contains(": 1. `relay directory owner`"), "\(removed.errors)")
      let next = try await victim.site.serve(["RELAY_FEDERATION_PORT": "\(victim.site.federationPort)"])
      try await eventually("the log tells of both") {
        next.log().contains("contacts passed from one peer to another")
          && next.log().contains(#""contacts":"2""#) || next.log().contains("contacts=2")
      }
      #expect(await next.terminate() == .code(0))
      for peer in [gamma, evil] { try await peer.peer.close() }
    }
  }

  /// Evil lists as many as it may, un-lists them, and lists others.
  @Test(arguments: StoreKind.allCases)
  func `tombstones count against the room of their own peer alone`(kind: StoreKind) async throws {
    let settings = Victim.quickRounds.merging(["RELAY_FEDERATION_CONTACTS_MAX": "20"]) { $1 }
    try await Victim.with(kind, settings: settings) { victim in
      let gamma = try await victim.befriend("gamma", .feed)
      let evil = try await victim.befriend("evil", .pages)
      let caller = try await victim.relay.register()
      let user = TestDevice.freshNumber()
      gamma.list(user)
      try await eventually("gamma's user is found") { try await victim.relay(of: user, as: caller) == "gamma" }
      gamma.unlist(user)
      try await eventually("the user is gone") { try await victim.relay(of: user, as: caller) == nil }
      var former: [String] = []
      for round in 0..<3 {
        let numbers = (0..<15).map { _ in TestDevice.freshNumber() }
        for number in former { evil.unlist(number) }
        for number in numbers + [user] { evil.list(number) }
        let count = [15, 4, 0][round]
        var found = 0
        try await eventually("evil's listing is read") {
          found = 0
          for number in numbers { if try await victim.relay(of: number, as: caller) == "evil" { found += 1 } }
          for number in former { if try await victim.relay(of: number, as: caller) != nil { return false } }
          return found >= count
        }
        #expect(found == count)
        former = numbers
      }
      for (name, claims) in [("evil", 20), ("gamma", 1)] {
        let name = try #require(RelayName(name))
        #expect(try await victim.withStorage { try await $0.contactCounts(of: name).claims } == claims)
      }
      gamma.list(user)
      try await eventually("the user is gamma's again") { try await victim.relay(of: user, as: caller) == "gamma" }
      for peer in [gamma, evil] { try await peer.peer.close() }
    }
  }
}
