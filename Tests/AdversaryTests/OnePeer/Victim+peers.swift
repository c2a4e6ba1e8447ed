import Foundation
import NIOHTTP1
import RelayCore
import TestSupport

extension Victim {
  /// A peer that the operator trusts and listens to already. It answers messages with 200, and knows nothing else.
  func startPeer(_ name: String) async throws -> ScriptedPeer {
    let peer = try await ScriptedPeer.start(name)
    peer.answer { request in
      ScriptedPeer.Answer(status: request.path.hasPrefix("/v1/federation/messages") ? 200 : 404)
    }
    try await trust(peer, as: name)
    try await eventually("\(name) is known") {
      // Until the relay has read its peers anew, the handshake fails.
      let answer = try? await withClient(of: peer) { try await $0.get("/v1/federation/peering") }
      return answer?.status == 200
    }
    return peer
  }

  /// One message of `peer` for `device`, from a sender that it invents.
  func write(to device: TestDevice, by peer: ScriptedPeer, sender: Int) async throws -> RawResponse {
    try await withClient(of: peer) { try await Self.write(to: device, over: $0, sender: sender) }
  }

  /// Messages for `device` until one is refused, each from a sender of its own.
  /// - Returns: how many were taken.
  func flood(_ device: TestDevice, by peer: ScriptedPeer, from first: Int) async throws -> Int {
    try await withClient(of: peer) { client in
      var taken = 0
      while taken < 50 {
        let answer = try await Self.write(to: device, over: client, sender: first + taken)
        guard answer.status == 200 else { break }
        taken += 1
      }
      return taken
    }
  }

  private static func write(to device: TestDevice, over client: RawClient, sender: Int) async throws -> RawResponse {
    let source = "+1666\(5_550_000 + sender)"
    return try await client.send(
      .PUT, "/v1/federation/messages/\(source)/1/\(device.number)",
      body: bundle(message(), timestamp: Int64(sender)))
  }

  struct Found {
    let outcome: String
    /// With the remedy.
    let text: String
  }

  /// The findings of `relay doctor` under `check`.
  func findings(_ check: String) async throws -> [Found] {
    let result = try await site.run(["doctor", "--json"])
    guard let list = try JSONSerialization.jsonObject(with: Data(result.output.utf8)) as? [[String: Any]] else {
      throw TestFailure("no findings: \(result.output)")
    }
    return list.filter { $0["check"] as? String == check }.map { finding in
      let texts = [finding["text"] as? String, finding["remedy"] as? String].compactMap(\.self)
      return Found(outcome: finding["outcome"] as? String ?? "", text: texts.joined(separator: " "))
    }
  }
}
