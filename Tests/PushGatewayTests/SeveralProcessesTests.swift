import Foundation
import Logging
import RelayCore
import Storage
import TestSupport
import TestTags
import Testing

/// Gateways of several processes behind a load balancer, over one Redis (reference 12).
@Suite(.tags(.stores)) struct SeveralProcessesTests {
  private static let (apns, fcm) = ("com.example.apns", "com.example.fcm")
  private static let token = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="

  /// Runs `body` with two processes' gateways, each with lanes, a memory and a connection of its own.
  private static func with(
    _ body: (PushSite, RedisServer, GatewayClient, GatewayClient) async throws -> Void
  ) async throws {
    try await PushSite.with { site in
      let server = try await RedisServer()
      let endpoint = RedisEndpoint(address: .tcp(host: "127.0.0.1", port: server.port))
      let one = try RedisCoordination(endpoint, clock: PushSite.clock, logger: .silent)
      let other = try RedisCoordination(endpoint, clock: PushSite.clock, logger: .silent)
      let outcome: Result<Void, any Error>
      do {
        for coordination in [one, other] {
          try await eventually("Redis is reached") { await coordination.degradation() == nil }
        }
        try await site.gateway(board: one.pushBoard) { first in
          try await site.gateway(board: other.pushBoard) { second in try await body(site, server, first, second) }
        }
        outcome = .success(())
      } catch {
        outcome = .failure(error)
      }
      await one.close()
      await other.close()
      try outcome.get()
    }
  }

  @Test func `a request that is repeated at another process pushes only what failed`() async throws {
    try await Self.with { site, _, first, second in
      site.apple.answer(410, reason: "Unregistered")
      site.google.answer(.answer(400, "{}"), to: #""k2""#)
      let devices = [(Self.apns, Self.token), (Self.fcm, "k2"), (Self.fcm, "k3")]
      #expect(try await first.notify(devices).status == 502)
      #expect(site.apple.requests.count == 1 && site.google.requests.count == 2)
      let repeated = try await second.notify(devices)
      #expect(repeated.status == 200 && repeated.rejected == [Self.token])
      #expect(site.apple.requests.count == 1 && site.google.requests.count == 3)
      // And back.
      #expect(try await first.notify(devices).rejected == [Self.token])
      #expect(site.apple.requests.count == 1 && site.google.requests.count == 3)
    }
  }

  @Test func `a push that another process has begun is waited for`() async throws {
    try await Self.with { site, _, first, second in
      site.google.hold()
      async let one = first.notify([(Self.fcm, "k")])
      try await eventually("Google is asked") { site.google.requests.count == 1 }
      async let other = second.notify([(Self.fcm, "k"), (Self.fcm, "own")])
      // Its own is not held up.
      try await eventually("Google is asked for the other") { site.google.requests.count == 2 }
      site.google.release()
      #expect(try await (one.status, other.status) == (200, 200))
      #expect(site.google.requests.count == 2)
    }
  }

  @Test func `without Redis each process goes by what it has pushed itself`() async throws {
    try await Self.with { site, server, first, second in
      server.stop()
      for gateway in [first, first, second, second] {
        let status = try await gateway.notify([(Self.fcm, "k")]).status
        #expect(status == 200)
      }
      #expect(site.google.requests.count == 2)
    }
  }
}
