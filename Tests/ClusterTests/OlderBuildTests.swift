import ChildProcesses
import Foundation
import TestSupport
import TestTags
import Testing

/// An older build and this one on one store, side by side, and back again. `RELAY_OLD_BINARY` names the older one.
@Suite(
  .tags(.processes),
  .enabled(
    if: ProcessInfo.processInfo.environment["RELAY_OLD_BINARY"] != nil, "RELAY_OLD_BINARY names no older build"))
struct OlderBuildTests {
  private static let older = ProcessInfo.processInfo.environment["RELAY_OLD_BINARY"] ?? ""

  private static func send(_ relay: RelayProcess, to recipient: TestDevice, as sender: TestDevice, _ time: Int)
    async throws
  {
    let body = #"{"timestamp":\#(time),"messages":[\#(message(registrationID: recipient.registrationID))]}"#
    let answer = try await relay.send("PUT", "/v1/messages/\(recipient.number)", json: body, as: sender)
    guard answer.status == 200 else { throw TestFailure("\(answer.status) \(answer.text)") }
  }

  /// The times of the messages that wait, which are acknowledged with the receipts among them.
  private static func take(_ relay: RelayProcess, _ device: TestDevice) async throws -> [Int] {
    let waiting = try await relay.send("GET", "/v1/messages/", as: device).list("messages")
    var times: [Int] = []
    for message in waiting {
      guard let time = message["timestamp"] as? Int, let source = message["source"] as? String else { continue }
      #expect((200...204).contains(try await relay.send("DELETE", "/v1/messages/\(source)/\(time)", as: device).status))
      if message["type"] as? Int != 5 { times.append(time) }
    }
    return times
  }

  @Test func `both serve one store, messages and keys cross between them, and the older one goes on alone`()
    async throws
  {
    let postgres = try await Loopback.blocking { try PostgresServer.shared() }
    let database = try await Loopback.blocking { try postgres.createDatabase() }
    try await RedisServer.with { redis in
      try await RelayOperator.with(
        stores: .servers(storage: database, coordination: redis.url), settings: Cluster.unlimited
      ) { site in
        // The schema is the older build's until the newer one starts.
        let old = try await site.serve(["RELAY_STORAGE_MIGRATE": "true"], binary: Self.older)
        let (ann, bob) = (try await old.register(), try await old.register())
        try await old.upload(Array(1...10), as: bob)
        try await Self.send(old, to: bob, as: ann, 1)

        let new = try await site.serve(["RELAY_STORAGE_MIGRATE": "true"])
        #expect(try await site.run(["migrate", "status"]).exit == .code(0))
        try await Self.send(new, to: bob, as: ann, 2)
        try await Self.send(old, to: bob, as: ann, 3)
        #expect(try await Self.take(old, bob) == [1, 2, 3])
        let carl = try await new.register()
        try await Self.send(old, to: carl, as: ann, 4)
        try await Self.send(new, to: ann, as: carl, 5)
        #expect(try await Self.take(new, carl) == [4])
        #expect(try await Self.take(old, ann) == [5])
        var keys: [Int] = []
        for relay in [old, new, old, new] {
          let answer = try await relay.send("GET", "/v1/keys/\(bob.number)/1", as: ann)
          keys += answer.list("keys").compactMap { $0["keyId"] as? Int }
        }
        #expect(keys == [1, 2, 3, 4], "each key is handed out once")

        // Back: the newer one stops, and the older one starts anew on what it left.
        #expect(await new.terminate() == .code(0))
        #expect(await old.terminate() == .code(0))
        let back = try await site.serve(["RELAY_STORAGE_MIGRATE": "true"], binary: Self.older)
        try await Self.send(back, to: carl, as: bob, 6)
        #expect(try await Self.take(back, carl) == [6])
        #expect(await back.terminate() == .code(0))
      }
    }
  }
}
