// A peer tells our senders that messages have arrived which nobody ever wrote.

import ChildProcesses
import NIOCore
import NIOHTTP1
import RelayCore
import SwiftProtobuf
import TestSupport
import TestTags
import Testing
import WireMessages

/// For what receipts of a peer are taken (docs/federation.md, "Receipts").
@Suite(.tags(.processes)) struct ReceiptTests {
  private static let theirs = "+16665550001"

  private static func receipt(
    _ time: Int64, of recipient: String = Self.theirs, for sender: TestDevice
  ) -> String { "/v1/receipt/\(recipient)/1/\(sender.number)/\(time)" }

  private static func send(_ time: Int64, as sender: TestDevice, through relay: RelayProcess) async throws {
    let json = #"{"messages":[\#(message())],"relay":"evil","timestamp":\#(time)}"#
    try await eventually("the message is handed over") {
      try await relay.send("PUT", "/v1/messages/\(theirs)", json: json, as: sender).status == 200
    }
  }

  /// The times of the receipts in the mailbox.
  private static func receipts(of device: TestDevice, at relay: RelayProcess) async throws -> [Int] {
    try await relay.mailbox(of: device).filter { $0["type"] as? Int == 5 }.compactMap { $0["timestamp"] as? Int }
  }

  @Test(arguments: StoreKind.allCases) func `a receipt is accepted only for messages that were handed over`(
    kind: StoreKind
  ) async throws {
    try await Victim.with(kind) { victim in
      let (relay, sender, other) = (victim.relay, try await victim.relay.register(), try await victim.relay.register())
      let evil = try await victim.startPeer("evil")
      let second = try await victim.startPeer("second")
      try await victim.withClient(of: evil) { client in
        #expect(try await client.send(.PUT, Self.receipt(5, for: sender)).status == 404, "before it is handed over")
        try await Self.send(5, as: sender, through: relay)
        let forged = [
          Self.receipt(6, for: sender), Self.receipt(5, for: other), Self.receipt(5, of: "+16665550002", for: sender),
        ]
        for path in forged {
          let answer = try await client.send(.PUT, path)
          #expect(answer.status == 404 && answer.text.hasPrefix("not-found"), "\(answer.text)")
        }
        // Receipts do not tell who is registered.
        let nobody = TestDevice(number: TestDevice.freshNumber(), password: "")
        let unknown = try await client.send(.PUT, Self.receipt(5, for: nobody))
        let known = try await client.send(.PUT, Self.receipt(5, for: other))
        #expect(unknown.status == known.status && unknown.text == known.text)
        #expect(try await client.send(.PUT, Self.receipt(5, for: sender)).status == 200)
        #expect(try await client.send(.PUT, Self.receipt(5, for: sender)).status == 200, "repeated")
      }
      let answer = try await victim.withClient(of: second) { try await $0.send(.PUT, Self.receipt(5, for: sender)) }
      #expect(answer.status == 404, "it was handed to another peer")
      #expect(try await Self.receipts(of: sender, at: relay) == [5])
      #expect(try await Self.receipts(of: other, at: relay).isEmpty)
      let metrics = try await relay.ask("/metrics").text
      #expect(metrics.contains(#"relay_peer_receipts_refused_total{peer="evil"} 6"#))
      for peer in [evil, second] { try await peer.close() }
    }
  }

  @Test(arguments: StoreKind.allCases) func `a batch brings no more receipts than requests`(kind: StoreKind)
    async throws
  {
    try await Victim.with(kind) { victim in
      let sender = try await victim.relay.register()
      let evil = try await victim.startPeer("evil")
      try await Self.send(5, as: sender, through: victim.relay)
      var batch = Relay_Batch()
      for time in [4, 5, 6] as [Int64] {
        var handOver = Relay_HandOver()
        (handOver.source, handOver.sourceDevice) = (16_665_550_001, 1)
        handOver.destination = UInt64(sender.number.dropFirst()) ?? 0
        (handOver.timestamp, handOver.isReceipt) = (time, true)
        batch.handOvers.append(handOver)
      }
      let bytes: [UInt8] = try batch.serializedBytes()
      let answer = try await victim.withClient(of: evil) {
        try await $0.put("/v1/federation/batch", bytes: bytes, as: "application/x-protobuf")
      }
      let answers = try Relay_BatchAnswer(serializedBytes: Array(answer.body.readableBytesView))
      #expect(answers.answers.map(\.status) == [404, 200, 404])
      #expect(try await Self.receipts(of: sender, at: victim.relay) == [5])
      try await evil.close()
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `a receipt arrives even if the process that handed the message over was killed`(kind: StoreKind) async throws {
    try await Victim.with(kind) { victim in
      let sender = try await victim.relay.register()
      let evil = try await victim.startPeer("evil")
      try await Self.send(5, as: sender, through: victim.relay)
      await victim.relay.kill9()
      let next = try await victim.site.serve(["RELAY_FEDERATION_PORT": "\(victim.site.federationPort)"])
      try await victim.withClient(of: evil) { client in
        let forged = try await client.send(.PUT, Self.receipt(6, for: sender)).status
        let genuine = try await client.send(.PUT, Self.receipt(5, for: sender)).status
        #expect(forged == 404 && genuine == 200)
      }
      #expect(try await Self.receipts(of: sender, at: next) == [5])
      #expect(await next.terminate() == .code(0))
      try await evil.close()
    }
  }

  @Test func `a receipt arrives at whichever process it is told to`() async throws {
    try await Victim.with(.servers) { victim in
      let sender = try await victim.relay.register()
      let evil = try await victim.startPeer("evil")
      let second = try await victim.site.serve(["RELAY_FEDERATION_PORT": "\(Loopback.freePorts(1)[0])"])
      try await Self.send(5, as: sender, through: second)
      try await victim.withClient(of: evil) { client in
        let status = try await client.send(.PUT, Self.receipt(5, for: sender)).status
        #expect(status == 200)
      }
      #expect(try await Self.receipts(of: sender, at: second) == [5])
      #expect(await second.terminate() == .code(0))
      try await evil.close()
    }
  }

  @Test(arguments: StoreKind.allCases) func `a peer's receipts are charged to that peer alone`(kind: StoreKind)
    async throws
  {
    let few = [
      "RELAY_LIMITS_PEER_RECEIPTS_SIZE": "3", "RELAY_LIMITS_PEER_RECEIPTS_PER_MINUTE": "0.1",
    ]
    try await Victim.with(kind, settings: Victim.unlimited.merging(few) { $1 }) { victim in
      let sender = try await victim.relay.register()
      let evil = try await victim.startPeer("evil")
      let honest = try await victim.startPeer("honest")
      try await victim.withClient(of: evil) { client in
        // The limit holds for any accounts that it invents.
        for index in 1...3 {
          let path = Self.receipt(5, of: "+1666555100\(index)", for: sender)
          #expect(try await client.send(.PUT, path).status == 404)
        }
        let refused = try await client.send(.PUT, Self.receipt(5, of: "+16665551009", for: sender))
        #expect(refused.status == 413 && refused.text.hasPrefix("budget-exceeded"))
      }
      #expect(
        try await victim.write(to: sender, by: evil, sender: 1).status == 200, "messages have a budget of their own")
      let answer = try await victim.withClient(of: honest) { try await $0.send(.PUT, Self.receipt(5, for: sender)) }
      #expect(answer.status == 404)
      for peer in [evil, honest] { try await peer.close() }
    }
  }
}
