import ChildProcesses
import Foundation
import Glibc
import RelayClient
import TestSupport
import TestTags
import Testing

/// Times of messages between two operators on PostgreSQL and Redis, with every interval at its default.
@Suite(.tags(.time)) struct FederationTimesTests {
  @Test func `a registration is found at the peer, also by a process that does not follow the feed`() async throws {
    try await PeeredClusters.with { alpha, beta in
      let ann = try await RelayClient(url: alpha.relays[0].url).register(try TestDevice.freshPhoneNumber())
      // The first pass over the listing is over.
      let first = try await beta.register()
      try await eventually("the first is found", within: .seconds(60)) { try await ann.finds(first) }
      var longest = Duration.zero
      for _ in 0..<5 {
        let number = try await beta.register()
        let begin = ContinuousClock.now
        for relay in alpha.relays {
          let there = try RelayClient(url: relay.url, credentials: ann.client.credentials)
          try await eventually("found at each process", within: .seconds(30), every: .milliseconds(20)) {
            try await there.lookUp(token: ContactTokens.token(for: number))?.relay == "beta"
          }
        }
        longest = max(longest, .now - begin)
      }
      // Five seconds are promised, and each process is asked in turn.
      #expect(longest < MachineSpeed.allow(.seconds(20)))
      print("A registration was found at the peer within \(longest)")
    }
  }

  @Test func `a registration is found at a peer that asks once a minute`() async throws {
    try await PeeredClusters.with(["RELAY_FEDERATION_DIRECTORY_INTERVAL": "60"]) { alpha, beta in
      let ann = try await RelayClient(url: alpha.relays[0].url).register(try TestDevice.freshPhoneNumber())
      let there = try RelayClient(url: alpha.relays[1].url, credentials: ann.client.credentials)
      let first = try await beta.register()
      // A new peer is read without a round, if it knows us by then.
      try await eventually("the first is found", within: .seconds(90)) { try await ann.finds(first) }
      let begin = ContinuousClock.now
      var longest = Duration.zero
      for index in 0..<6 {
        // At each of the peer's processes, one of which keeps the question.
        let number = try await beta.register(at: index % 2)
        let begin = ContinuousClock.now
        for relay in [ann.client, there] {
          try await eventually("found at each process", within: .seconds(30), every: .milliseconds(5)) {
            try await relay.lookUp(token: ContactTokens.token(for: number))?.relay == "beta"
          }
        }
        longest = max(longest, .now - begin)
      }
      // Six rounds would take minutes.
      #expect(ContinuousClock.now - begin < MachineSpeed.allow(.seconds(30)))
      print("A registration was told to the peer within \(longest)")
    }
  }

  @Test func `contacts are asked for where no copy is to be kept`() async throws {
    try await PeeredClusters.with { alpha, beta in
      try await alpha.cluster.site.relay("peer", "set", "beta", "--contacts", "query")
      let ann = try await RelayClient(url: alpha.relays[0].url).register(try TestDevice.freshPhoneNumber())
      let number = try await beta.register()
      try await eventually("the policy holds, and the contact is found", within: .seconds(60)) {
        try await ann.finds(number)
      }
      #expect(try await alpha.keptContacts() == 0)
      // The peer's clients are found through the other process as well; those of nobody are not.
      let there = try RelayClient(url: alpha.relays[1].url, credentials: ann.client.credentials)
      try await eventually("found at the other process", within: .seconds(30)) {
        try await there.lookUp(token: ContactTokens.token(for: number))?.relay == "beta"
      }
      let nobody = try TestDevice.freshPhoneNumber()
      #expect(try await there.lookUp(token: ContactTokens.token(for: nobody)) == nil)
    }
  }

  @Test func `messages that two processes hold survive both, and arrive in order once the peer is back`() async throws {
    try await PeeredClusters.with { alpha, beta in
      let bob = try await beta.relays[0].register()
      let alice = try await alpha.relays[0].register()
      try await alpha.cluster.site.relay("peer", "set", "beta", "--hold", "on")
      func send(_ time: Int64, at relay: RelayProcess) async throws -> Int {
        let body =
          #"{"relay":"beta","timestamp":\#(time),"messages":[\#(message(registrationID: bob.registrationID))]}"#
        return try await relay.send("PUT", "/v1/messages/\(bob.number)", json: body, as: alice).status
      }
      // Again and again: each process hears of the policy within a second, and beta stores a repetition once.
      try await eventually("bob's devices are confirmed", within: .seconds(60), every: .milliseconds(500)) {
        for relay in alpha.relays { #expect(try await send(1, at: relay) == 200) }
        return try await alpha.hasConfirmations()
      }
      for relay in beta.relays { await relay.kill9() }
      var accepted: [Int64] = []
      for time: Int64 in 2...41 {
        try await eventually("message \(time) is accepted", within: .seconds(30)) {
          try await send(time, at: alpha.relays[Int(time) % 2]) == 200
        }
        accepted.append(time)
        if time == 20 { await alpha.relays[0].kill9() }
        if time == 20 { alpha.relays[0] = try await alpha.serve(0) }
      }
      try await alpha.drainAcrossKills(to: beta)
      let arrived = try await beta.relays[0].mailbox(of: bob).compactMap { $0["timestamp"] as? Int }.map(Int64.init)
      #expect(arrived == [1] + accepted)
    }
  }

  @Test func `a message on its way to a peer that stopped is held, and arrives once and in order`() async throws {
    try await PeeredClusters.with { alpha, beta in
      let bob = try await beta.relays[0].register()
      let alice = try await alpha.relays[0].register()
      try await alpha.cluster.site.relay("peer", "set", "beta", "--hold", "on")
      func send(_ time: Int64) async throws -> Int {
        let body =
          #"{"relay":"beta","timestamp":\#(time),"messages":[\#(message(registrationID: bob.registrationID))]}"#
        return try await alpha.relays[0].send("PUT", "/v1/messages/\(bob.number)", json: body, as: alice).status
      }
      try await eventually("bob's devices are confirmed", within: .seconds(60), every: .milliseconds(500)) {
        #expect(try await send(1) == 200)
        return try await alpha.hasConfirmations()
      }
      for relay in beta.relays { relay.child.send(SIGSTOP) }
      for time: Int64 in 2...41 {
        try await eventually("message \(time) is accepted", within: .seconds(60)) { try await send(time) == 200 }
        if time == 20 { await alpha.relays[0].kill9() }
        if time == 20 { alpha.relays[0] = try await alpha.serve(0) }
      }
      for relay in beta.relays { relay.child.send(SIGCONT) }
      try await alpha.expectNothingHeld()
      let arrived = try await beta.relays[0].mailbox(of: bob).compactMap { $0["timestamp"] as? Int }
      #expect(arrived == Array(1...41))
    }
  }
}

/// One of two peered operators: two processes on a PostgreSQL database and a Redis of its own.
private final class PeeredCluster {
  let cluster: Cluster
  var relays: [RelayProcess] = []
  private let ports: [Int]
  private let settings: [String: String]

  init(_ cluster: Cluster, _ settings: [String: String]) async throws {
    self.cluster = cluster
    self.settings = settings
    ports = [cluster.site.federationPort] + (try Loopback.freePorts(1))
    try await cluster.site.relay("ca", "init")
    try await cluster.site.relay("ca", "issue")
    for index in 0..<2 { relays.append(try await serve(index)) }
  }

  func serve(_ index: Int) async throws -> RelayProcess {
    try await cluster.site.serve(settings.merging(["RELAY_FEDERATION_PORT": "\(ports[index])"]) { $1 })
  }

  func register(at index: Int = 0) async throws -> PhoneNumber {
    let number = try TestDevice.freshPhoneNumber()
    _ = try await RelayClient(url: relays[index].url).register(number)
    return number
  }

  func hasConfirmations() async throws -> Bool { try await count("confirmed_devices") > 0 }

  func keptContacts() async throws -> Int { try await count("peer_contacts WHERE unlisted IS NULL") }

  private func count(_ table: String) async throws -> Int {
    let (postgres, database) = (cluster.postgres, cluster.database)
    let text = try await Loopback.blocking { try postgres.sql("SELECT count(*) FROM \(table)", in: database) }
    return try #require(Int(text))
  }

  /// Brings `peer` back, and kills and restarts the processes of this operator in turn while they hand over.
  func drainAcrossKills(to peer: PeeredCluster) async throws {
    for index in 0..<2 { peer.relays[index] = try await peer.serve(index) }
    for round in 0..<4 {
      try await Task.sleep(for: .milliseconds(700))
      await relays[round % 2].kill9()
      relays[round % 2] = try await serve(round % 2)
    }
    try await expectNothingHeld()
  }

  func expectNothingHeld() async throws {
    try await eventually("nothing is held", within: .seconds(60), every: .milliseconds(200)) {
      try await self.cluster.site.relay("queue", "list").contains("Nothing waits")
    }
  }
}

private enum PeeredClusters {
  static func with(
    _ settings: [String: String] = [:],
    _ body: @Sendable (_ alpha: PeeredCluster, _ beta: PeeredCluster) async throws -> Void
  ) async throws {
    try await Cluster.with("alpha") { first in
      try await Cluster.with("beta") { second in
        let (alpha, beta) = (try await PeeredCluster(first, settings), try await PeeredCluster(second, settings))
        do {
          let invited = try await first.site.relay("peer", "invite").split(separator: "\n")
          try await second.site.relay("peer", "accept", String(try #require(invited.last)))
          try await body(alpha, beta)
        } catch {
          for relay in alpha.relays + beta.relays { await relay.kill9() }
          throw error
        }
        for relay in alpha.relays + beta.relays where relay.child.exit == nil { await relay.terminate() }
      }
    }
  }
}

extension TestDevice {
  static func freshPhoneNumber() throws -> PhoneNumber { try #require(PhoneNumber(freshNumber())) }
}

extension RegisteredDevice {
  fileprivate func finds(_ number: PhoneNumber) async throws -> Bool {
    try await client.lookUp(token: ContactTokens.token(for: number))?.relay == "beta"
  }
}
