import RelayClient
import RelayCore
import SwiftProtobuf
import WireMessages

/// How a device that is about to be linked is told what it needs (reference 1.14).
enum ProvisioningRules {
  static let all: [Rule] = channel + handingOver

  private static let channel: [Rule] = [
    Rule(
      "1.14", "a provisioning WebSocket needs no credentials, and is told its address: 22 characters, each time others",
      .g4
    ) { session in
      var addresses: Set<String> = []
      for path in [path, "/v1/websocket/provisioning", path] {
        let (_, address) = try await open(session, path)
        try expect(
          address.utf8.count == 22
            && address.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || "-_".contains($0)) }
            && Base64.decode(address)?.count == 16,
          "16 bytes in URL-safe Base64 without padding", "\(address.utf8.count) characters")
        addresses.insert(address)
      }
      try expectEqual(addresses.count, 3, "different addresses")
    },
    Rule("1.14", "an answer to the address does not close the channel, nor does a keep-alive, which is answered", .g4) {
      session in
      let device = try await session.register()
      let (probe, address) = try await open(session)
      try await probe.answer(0)
      try await probe.ask("GET", "/v1/keepalive/provisioning", id: 9)
      try expectEqual(try await probe.expectAnswer(9).status, 200, "status of a keep-alive")
      try await handOver([1, 2, 3], to: address, session, as: device).expectDone()
      try expectEqual(try await message(probe).body, [1, 2, 3], "message")
    },
  ]

  private static let handingOver: [Rule] = [
    Rule("1.14", "what is handed over arrives as it is, and an answer to it closes the channel with 1001", .g4) {
      session in
      let device = try await session.register()
      let bytes = (0..<500).map { UInt8(truncatingIfNeeded: $0) }
      for status in [200, 500] {
        let (probe, address) = try await open(session)
        try await handOver(bytes, to: address, session, as: device).expectDone()
        let (id, body) = try await message(probe)
        try expect(body == bytes, "the bytes that were handed over", "\(body.count) others")
        try await probe.answer(id, status: status)
        try await probe.expectClosing([1001], because: "the message was answered")
      }
    },
    Rule("1.14", "the body's Base64 is read padded and unpadded", .g4) { session in
      let device = try await session.register()
      for text in ["Zm9vYg==", "Zm9vYg"] {
        let (probe, address) = try await open(session)
        try await session.put("/v1/provisioning/\(address)", ["body": .string(text)], as: device).expectDone()
        try expectEqual(try await message(probe).body, Array("foob".utf8), "message")
      }
    },
    Rule("1.14", "an address where nobody listens, or nobody listens any more, is not found", .g4) { session in
      let device = try await session.register()
      try await handOver([1], to: "HPHy8_T19vf4-rg7_P3-_w", session, as: device).expect(404)
      let (probe, address) = try await open(session)
      await probe.close()
      try await session.until("404 for the address of a channel that was closed") {
        try await handOver([1], to: address, session, as: device).status == 404
      }
    },
    Rule("1.14", "an ill-formed address is refused with 400", .g4) { session in
      let device = try await session.register()
      for address in ["x", "HPHy8_T19vf4-rg7_P3-_w1", "HPHy8_T19vf4.rg7_P3-_w"] {
        try await handOver([1], to: address, session, as: device).expect(400)
      }
    },
    Rule("1.14", "handing over needs credentials, and a body that is Base64 and not empty", .g4) { session in
      let device = try await session.register()
      let (probe, address) = try await open(session)
      let path = "/v1/provisioning/\(address)"
      try await session.put(path, ["body": "AAAA"]).expect(401)
      for body: JSON in [[:], ["body": nil], ["body": ""], ["body": 7]] {
        try await session.put(path, body, as: device).expect(415, 422)
      }
      // 503 on servers of its time.
      try await session.put(path, ["body": "!"], as: device).expect(415, 422, 503)
      try await handOver([7], to: address, session, as: device).expectDone()
      try expectEqual(try await message(probe).body, [7], "message")
    },
  ]

  private static let path = "/v1/websocket/provisioning/"

  /// A channel and its address.
  private static func open(_ session: Session, _ path: String = path) async throws -> (Probe, String) {
    let probe = try await session.openSocket(path)
    let first = try await probe.next("the address")
    guard case .request(.some, "PUT", "/v1/address", let body) = LiveDialect.protobuf.read(first) else {
      throw RuleFailure(expected: "PUT /v1/address with an id", got: first.summary)
    }
    do {
      return (probe, try Textsecure_ProvisioningUuid(serializedBytes: body).uuid)
    } catch {
      throw RuleFailure(expected: "a ProvisioningUuid", got: "\(body.count) other bytes")
    }
  }

  private static func handOver(_ bytes: [UInt8], to address: String, _ session: Session, as device: Device)
    async throws -> Answer
  {
    try await session.put("/v1/provisioning/\(address)", ["body": .string(padded(bytes))], as: device)
  }

  private static func message(_ probe: Probe) async throws -> (id: UInt64, body: [UInt8]) {
    let message = try await probe.next("the message")
    guard case .request(let id?, "PUT", "/v1/message", let body) = LiveDialect.protobuf.read(message) else {
      throw RuleFailure(expected: "PUT /v1/message with an id", got: message.summary)
    }
    return (id, body)
  }
}
