import RelayCore
import Storage
import TestSupport
import TestTags
import Testing

@Suite(.tags(.stores)) struct SignalContract {
  @Test(arguments: CoordinationBackend.allCases)
  func `signals reach every listener of every process once, in order`(_ backend: CoordinationBackend) async throws {
    try await backend.with(2) { coordination in
      let (first, second, third) = (Heard(), Heard(), Heard())
      coordination[0].listen(first.handler)
      coordination[0].listen(second.handler)
      coordination[1].listen(third.handler)
      let signals: [Signal] = [
        .accountChanged(try Sample.number(1)), .peersChanged, .contactsChanged, .wakesAsked,
        .accountChanged(try Sample.number(2)),
      ]
      for signal in signals { await coordination[0].publish(signal) }
      for heard in [first, second, third] {
        try await eventually("all signals arrive") { heard.events.count == signals.count + 1 }
        #expect(heard.events == [.connected] + signals.map { .signal($0) })
      }
    }
  }

  @Test(arguments: CoordinationBackend.allCases)
  func `the listeners of the publishing process know on return`(_ backend: CoordinationBackend) async throws {
    try await backend.with { coordination in
      let heard = Heard()
      coordination[0].listen(heard.handler)
      await coordination[0].publish(.peersChanged)
      #expect(heard.events == [.connected, .signal(.peersChanged)])
    }
  }

  @Test func `operators with prefixes of their own share a Redis and nothing else`() async throws {
    try await RedisServer.with { server in
      let endpoint = RedisEndpoint(address: .tcp(host: "127.0.0.1", port: server.port))
      let clock = ManualClock(Sample.noon)
      let operators = try ["alpha:", "beta:"].map {
        try RedisCoordination(
          endpoint, buckets: [.messages: Bucket(size: 1, perMinute: 1)], prefix: $0, clock: clock.wall,
          time: clock.wall, logger: .quiet)
      }
      let heard = Heard()
      operators[1].listen(heard.handler)
      for one in operators { try await eventually("Redis is reached") { await one.degradation() == nil } }
      let key = LimitKey(try Sample.number(1))
      for one in operators { #expect(await one.take(1, from: .messages, key: key) == .allowed) }
      await operators[0].publish(.accountChanged(try Sample.number(1)))
      await operators[1].publish(.peersChanged)
      try await eventually("its own signal arrives") { heard.events.contains(.signal(.peersChanged)) }
      #expect(!heard.events.contains(.signal(.accountChanged(try Sample.number(1)))))
      for one in operators { await one.close() }
    }
  }
}
