import RelayCore
import RelayWork
import Synchronization
import TestSupport
import TestTags
import Testing

@testable import Storage

/// Names of Redis servers are looked up beside the thread that all connections share.
@Suite(.tags(.stores)) struct RedisNameTests {
  private final class Seen: Sendable {
    let events = Mutex<[String]>([])

    func note(_ event: RedisConnection.Event) {
      switch event {
      case .ready: events.withLock { $0.append("ready") }
      case .away(let fault): events.withLock { $0.append("away: \(fault.reason)") }
      default: break
      }
    }
    var all: [String] { events.withLock { $0 } }
  }

  private static func connection(
    to host: String, _ port: Int, on reactor: Reactor, _ resolver: HostResolver
  ) -> RedisConnection {
    let address = RedisEndpoint.Address.tcp(host: host, port: port)
    let target = RedisEndpoint(address: address).target(at: address)
    var limits = RedisConnection.Limits()
    limits.connect = .seconds(60)
    return RedisConnection(
      by: { .to(target) }, role: .commands, probeKey: "probe", limits: limits, on: reactor, resolver: resolver)
  }

  @Test func `a name server that does not answer holds up its own connection alone`() async throws {
    try await RedisServer.with { server in
      let reactor = try Reactor(name: "test")
      let (gate, seen) = (Gate(), Seen())
      let resolver = HostResolver { _, _ in
        await gate.wait()
        return ["127.0.0.1"]
      }
      let named = Self.connection(to: "redis.example", server.port, on: reactor, resolver)
      let plain = Self.connection(to: "127.0.0.1", server.port, on: reactor, resolver)
      named.start { seen.note($0) }
      plain.start { _ in }
      try await eventually("the other one serves") { plain.isReady }
      for _ in 0..<10 { #expect(await plain.call(RedisCommand("PING")) == .status("PONG")) }
      #expect(!named.isReady && seen.all.isEmpty)
      gate.open()
      try await eventually("the named one serves") { named.isReady }
      #expect(seen.all == ["ready"])
      named.close()
      plain.close()
      await reactor.stop()
    }
  }

  @Test func `every address of a name is tried, and one without any is said to have none`() async throws {
    try await RedisServer.with { server in
      let reactor = try Reactor(name: "test")
      let (seen, nameless) = (Seen(), Seen())
      // Nobody listens at the first two.
      let several = HostResolver { _, _ in ["127.0.0.2", "::1", "127.0.0.1"] }
      let named = Self.connection(to: "redis.example", server.port, on: reactor, several)
      named.start { seen.note($0) }
      try await eventually("it serves") { named.isReady }
      #expect(seen.all == ["ready"])
      let none = Self.connection(to: "gone.example", server.port, on: reactor, HostResolver { _, _ in [] })
      none.start { nameless.note($0) }
      let words = "away: cannot connect: gone.example has no address, or none in time"
      try await eventually("it is said") { nameless.all.contains(words) }
      named.close()
      none.close()
      await reactor.stop()
    }
  }
}
