// A peer names an epoch that our store never had, when we ask how far it had come.

import ChildProcesses
import Foundation
import NIOHTTP1
import RelayCore
import TestSupport
import TestTags
import Testing

/// The peers whose word sets one-time prekeys aside (docs/decisions/2026-11-21-restored-stores.md).
@Suite(.tags(.processes)) struct EpochTests {
  private static let lastResort = 16_777_215

  /// An account with keys, and who draws them.
  private struct Pair {
    let owner: TestDevice
    let caller: TestDevice

    init(at relay: RelayProcess) async throws {
      (owner, caller) = (try await relay.register(), try await relay.register())
      try await relay.upload(Array(1...9), as: owner)
    }

    func draw(at relay: RelayProcess) async throws -> Int? {
      let answer = try await relay.send("GET", "/v1/keys/\(owner.number)/1", as: caller)
      return answer.list("keys").first?["keyId"] as? Int
    }
  }

  /// Has `peer` claim that it was told an epoch which is `seconds` ahead of the present.
  private static func lie(_ peer: ScriptedPeer, by seconds: Double) {
    let epoch = Int64((Date().timeIntervalSince1970 + seconds) * 1000)
    peer.answer { request in
      request.path == "/v1/federation/epoch"
        ? ScriptedPeer.Answer(status: 200, body: #"{"epoch":\#(epoch)}"#) : ScriptedPeer.Answer(status: 404)
    }
  }

  /// Ends the process, and starts the next one.
  private static func restart(
    _ victim: Victim, _ relay: RelayProcess? = nil, forgettingRedis isForgotten: Bool
  ) async throws -> RelayProcess {
    #expect(await (relay ?? victim.relay).terminate() == .code(0))
    if isForgotten { try victim.flushRedis() }
    return try await victim.site.serve(["RELAY_FEDERATION_PORT": "\(victim.site.federationPort)"])
  }

  @Test(arguments: StoreKind.allCases) func `the epoch of a single peer empties nobody's keys`(kind: StoreKind)
    async throws
  {
    try await Victim.with(kind) { victim in
      let pair = try await Pair(at: victim.relay)
      let evil = try await victim.startPeer("evil")
      Self.lie(evil, by: 3600)
      let relay = try await Self.restart(victim, forgettingRedis: true)
      #expect(evil.requests.contains { $0.path == "/v1/federation/epoch" && $0.body == #"{"epoch":0}"# })
      #expect(try await pair.draw(at: relay) == 1)
      #expect(relay.log().contains("one peer alone claims") && relay.log().contains("relay storage restored"))
      #expect(!relay.log().contains("set aside"))
      let findings = try await victim.findings("restore claimed")
      #expect(findings.map(\.outcome) == ["warn"])
      let text = findings.map(\.text).joined()
      #expect(text.contains("evil alone") && text.contains("relay storage restored"))
      #expect(await relay.terminate() == .code(0))
      try await evil.close()
    }
  }

  @Test(arguments: StoreKind.allCases) func `two peers that agree are believed`(kind: StoreKind) async throws {
    try await Victim.with(kind) { victim in
      let pair = try await Pair(at: victim.relay)
      let peers = [try await victim.startPeer("one"), try await victim.startPeer("two")]
      Self.lie(peers[0], by: 3600)
      Self.lie(peers[1], by: 1800)
      let relay = try await Self.restart(victim, forgettingRedis: true)
      #expect(try await pair.draw(at: relay) == Self.lastResort)
      let log = relay.log()
      #expect(log.contains("the store was put back to an older state") && log.contains("the peers one, two"))
      let findings = try await victim.findings("restores")
      #expect(findings.map(\.outcome) == ["warn"])
      #expect(findings.map(\.text).joined().contains("the peers one, two"))
      #expect(await relay.terminate() == .code(0))
      for peer in peers { try await peer.close() }
    }
  }

  /// One peer lies, and another is away: nobody can tell, and nothing is handed out twice. The operator's word ends it.
  @Test(arguments: StoreKind.allCases) func `the operator's word ends the waiting for a silent peer`(kind: StoreKind)
    async throws
  {
    try await Victim.with(kind) { victim in
      let pair = try await Pair(at: victim.relay)
      let (evil, silent) = (try await victim.startPeer("evil"), try await victim.startPeer("silent"))
      Self.lie(evil, by: 3600)
      try await silent.close()
      var relay = try await Self.restart(victim, forgettingRedis: true)
      #expect(try await pair.draw(at: relay) == Self.lastResort)
      #expect(relay.log().contains("one-time prekeys are held back") && relay.log().contains("evil"))
      let findings = try await victim.findings("prekeys held back")
      #expect(findings.map(\.outcome) == ["warn"])
      #expect(findings.map(\.text).joined().contains("relay storage restored"))
      #expect(try await victim.findings("restore claimed").map(\.text).joined().contains("evil"))

      try await victim.site.relay("storage", "restored")
      try await relay.upload(Array(31...39), as: pair.owner)
      try await eventually("keys are handed out again") { try await pair.draw(at: relay) != Self.lastResort }
      #expect(try await victim.findings("prekeys held back").isEmpty)
      // The lie holds the next process back no more than this one.
      relay = try await Self.restart(victim, relay, forgettingRedis: true)
      #expect(try await pair.draw(at: relay) != Self.lastResort)
      #expect(await relay.terminate() == .code(0))
      try await evil.close()
    }
  }

  @Test func `if Redis remembers the epoch, peers are not asked`() async throws {
    try await Victim.with(.servers) { victim in
      let pair = try await Pair(at: victim.relay)
      try await eventually("Redis remembers an epoch") {
        try await victim.relay.ask("/metrics").text.contains("relay_store_witnesses 1")
      }
      let peers = [try await victim.startPeer("one"), try await victim.startPeer("two")]
      for peer in peers { Self.lie(peer, by: 3600) }
      let relay = try await Self.restart(victim, forgettingRedis: false)
      #expect(try await pair.draw(at: relay) == 1)
      #expect(!relay.log().contains("put back") && !relay.log().contains("claims"))
      for peer in peers { #expect(!peer.requests.contains { $0.body == #"{"epoch":0}"# }) }
      #expect(await relay.terminate() == .code(0))
      for peer in peers { try await peer.close() }
    }
  }

  @Test(arguments: StoreKind.allCases) func `the operator's word sets keys aside`(kind: StoreKind) async throws {
    try await Victim.with(kind) { victim in
      let pair = try await Pair(at: victim.relay)
      #expect(try await pair.draw(at: victim.relay) == 1)
      try await victim.site.relay("storage", "restored")
      #expect(try await pair.draw(at: victim.relay) == Self.lastResort)
      let findings = try await victim.findings("restores")
      #expect(findings.map(\.outcome) == ["warn"])
      #expect(findings.map(\.text).joined().contains("the operator"))
      try await victim.relay.upload([21], as: pair.owner)
      #expect(try await pair.draw(at: victim.relay) == 21)
    }
  }
}

extension Victim {
  /// As a Redis that was lost, where there is one.
  fileprivate func flushRedis() throws {
    guard let coordination = site.environment()["RELAY_COORDINATION_URL"] else { return }
    guard let port = URL(string: coordination)?.port else { throw TestFailure("no port: \(coordination)") }
    let descriptor = try Loopback.connect(to: port, patience: 5)
    defer { close(descriptor) }
    let command = Array("FLUSHALL\r\n".utf8)
    var answer = [UInt8](repeating: 0, count: 16)
    guard send(descriptor, command, command.count, Int32(MSG_NOSIGNAL)) == command.count,
      recv(descriptor, &answer, answer.count, 0) > 0, answer.starts(with: Array("+OK".utf8))
    else { throw TestFailure("Redis was not flushed") }
  }
}
