import RelayCore
import Storage
import TestSupport
import TestTags
import Testing

/// The promises of presence, for one process by itself as for several over Redis.
@Suite(.tags(.stores)) struct PresenceContract {
  @Test(arguments: CoordinationBackend.allCases)
  func `a listener hears the present state first`(_ backend: CoordinationBackend) async throws {
    try await backend.with { coordination in
      for _ in 0..<2 {
        let heard = HeardPresence()
        coordination[0].hear(heard.handler)
        try await eventually("the state is said") { heard.events.contains(.connected) }
        #expect(heard.events == [.connected])
      }
    }
  }

  @Test(arguments: CoordinationBackend.allCases)
  func `a message for an address reaches the one that waits there, whole and once`(_ backend: CoordinationBackend)
    async throws
  {
    try await backend.with(2) { coordination in
      let heard = HeardPresence()
      coordination[0].hear(heard.handler)
      let (address, other) = try (Sample.waiting(1), Sample.waiting(2))
      await coordination[0].enter(address)
      await coordination[0].enter(other)
      let bodies = [Array(0...255), [], [UInt8](repeating: 0x20, count: 16 << 10)] as [[UInt8]]
      for body in bodies {
        // From its own process, and from another one.
        for one in coordination { #expect(await one.handOver(body, to: address)) }
      }
      let expected = bodies.flatMap { [PresenceEvent.handedOver($0, to: address), .handedOver($0, to: address)] }
      // The way over Redis takes longer: between the two there is no order.
      try await eventually("all arrives") { heard.words.count == 6 }
      for event in expected { #expect(heard.words.count { $0 == event } == 2) }
    }
  }

  @Test(arguments: CoordinationBackend.allCases)
  func `nobody waits at an address that was left or never entered`(_ backend: CoordinationBackend) async throws {
    try await backend.with(2) { coordination in
      let (address, other) = try (Sample.waiting(1), Sample.waiting(2))
      await coordination[0].enter(address)
      for one in coordination { #expect(await !one.handOver([1], to: other)) }
      await coordination[0].leave(other)
      for one in coordination { #expect(await one.handOver([1], to: address)) }
      await coordination[0].leave(address)
      for one in coordination { #expect(await !one.handOver([1], to: address)) }
    }
  }

  @Test(arguments: CoordinationBackend.allCases)
  func `a connection is noted, whatever was noted for its device`(_ backend: CoordinationBackend) async throws {
    try await backend.with(2) { coordination in
      for (index, id) in ([7, 7, 8, 6, 8] as [UInt64]).enumerated() {
        let connection = try Sample.connection(1, id: id, age: .seconds(10 - index))
        #expect(await coordination[index % 2].enter(connection))
        #expect(await coordination[index % 2].renew([connection]).regained.isEmpty)
      }
    }
  }

  @Test(arguments: CoordinationBackend.allCases)
  func `devices that no other process holds are absent`(_ backend: CoordinationBackend) async throws {
    try await backend.with { coordination in
      #expect(await coordination[0].wake([]) == WakeUpOutcome())
      let devices = try (1...3).map { try Sample.address($0) }
      let absent = await coordination[0].wake(devices).absent
      #expect(Set(absent) == Set(devices))
      #expect(await coordination[0].renew([]).regained.isEmpty)
    }
  }

  @Test func `an address is forgotten by its own process when it was not noted for a while`() async throws {
    let clock = ManualClock(Sample.noon)
    try await CoordinationBackend.local.with(clock: clock) { coordination in
      let addresses = try (1...3).map { try Sample.waiting($0) }
      for address in addresses { await coordination[0].enter(address) }
      clock.advance(.seconds(40))
      await coordination[0].enter(addresses[1])
      #expect(await coordination[0].handOver([1], to: addresses[0]))
      clock.advance(.seconds(21))
      #expect(await !coordination[0].handOver([1], to: addresses[0]))
      #expect(await coordination[0].handOver([1], to: addresses[1]))
    }
  }
}

/// The events that a process heard.
final class HeardPresence: Sendable {
  private let collected = Collected<PresenceEvent>()
  var events: [PresenceEvent] { collected.values }
  /// Without the states of the connection.
  var words: [PresenceEvent] { events.filter { $0 != .connected && $0 != .disconnected } }
  /// The states of the connection alone: words may come behind them at any time.
  var states: [PresenceEvent] { events.filter { $0 == .connected || $0 == .disconnected } }
  /// All devices that were woken, in order.
  var woken: [DeviceAddress] {
    events.flatMap { event in if case .wakeUp(let devices) = event { devices } else { [] as [DeviceAddress] } }
  }
  var handler: @Sendable (PresenceEvent) -> Void { collected.add }
}

extension Sample {
  /// - Parameter age: how long it has been open.
  static func connection(
    _ index: Int, device: Int64 = 1, id: UInt64, age: Duration = .zero
  ) throws -> LiveConnection {
    try LiveConnection(device: address(index, device: device), id: id, opened: .now - age)
  }

  static func waiting(_ index: Int) throws -> ProvisioningAddress {
    try found(ProvisioningAddress(bytes: [UInt8](repeating: UInt8(index), count: 16)))
  }
}
