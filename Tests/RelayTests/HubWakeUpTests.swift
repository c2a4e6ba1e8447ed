import Foundation
import Logging
import RelayCore
import Storage
import Synchronization
import TestSupport
import TestTags
import Testing

@testable import Relay

/// A hub's wake-ups of devices elsewhere, while the other processes cannot be reached.
@Suite(.tags(.stores)) struct HubWakeUpTests {
  @Test func `a device that could not be woken is woken once that is possible, and no more`() async throws {
    try await Self.with { site in
      site.presence.setAway(true)
      site.hub.stored([AppendedEnvelope(site.envelope, at: nil)])
      try await eventually("it was tried") { site.presence.asked.count == 1 }
      // It is kept once the attempt has ended.
      try await eventually("it is tried again") {
        await site.hub.tellAgain()
        return site.presence.asked.count > 1
      }
      site.presence.setAway(false)
      let tries = site.presence.asked.count
      await site.hub.tellAgain()
      #expect(site.presence.asked.dropFirst(tries) == [[site.envelope.destination]])
      await site.hub.tellAgain()
      #expect(site.presence.asked.count == tries + 1)
    }
  }

  @Test func `one device that cannot be woken does not keep others from being woken`() async throws {
    try await Self.with { site in
      site.presence.setAway(true)
      let devices = try (1...1200).map { number in
        DeviceAddress(try #require(AccountNumber(e164: "+1415555\(1000 + number)")), .master)
      }
      site.hub.stored(devices.map { AppendedEnvelope(Self.envelope(to: $0, from: devices[0]), at: nil) })
      try await eventually("all were tried") { Set(site.presence.asked.joined()).count == devices.count }
      site.presence.setAway(false)
      site.presence.setUnreached(devices[7])
      try await eventually("all others are woken") {
        await site.hub.tellAgain()
        return site.presence.asked.last == [devices[7]]
      }
      #expect(site.presence.woken == Set(devices).subtracting([devices[7]]))
    }
  }

  @Test func `the store is told that the process begins, and once of what could not be woken`() async throws {
    try await Self.with { site in
      let first = try await site.store.missedWakeUps()
      for _ in 0..<3 { await site.hub.compareMissed() }
      #expect(try await site.store.missedWakeUps() == first + 1)
      site.hub.stored([AppendedEnvelope(site.envelope, at: nil)])
      try await eventually("it was woken") { site.presence.asked.count == 1 }
      await site.hub.compareMissed()
      #expect(try await site.store.missedWakeUps() == first + 1)

      site.presence.setAway(true)
      site.hub.stored([AppendedEnvelope(site.envelope, at: nil)])
      try await eventually("the store is told") {
        await site.hub.compareMissed()
        return try await site.store.missedWakeUps() > first + 1
      }
      for _ in 0..<3 {
        await site.hub.tellAgain()
        await site.hub.compareMissed()
      }
      #expect(try await site.store.missedWakeUps() == first + 2)
    }
  }

  @Test func `the store is told once of a process that died`() async throws {
    try await Self.with { site in
      await site.hub.compareMissed()
      let first = try await site.store.missedWakeUps()
      site.presence.die()
      for _ in 0..<3 { await site.hub.compareMissed() }
      #expect(try await site.store.missedWakeUps() == first + 1)
    }
  }

  private struct Site {
    let hub: Hub
    let presence: SwitchedPresence
    let store: SQLiteStorage
    /// For a device that is connected elsewhere.
    let envelope: Envelope
  }

  private static func with(_ body: (Site) async throws -> Void) async throws {
    let path = NSTemporaryDirectory() + "relay-wake-ups-" + UUID().uuidString
    defer { try? FileManager.default.removeItem(atPath: path) }  // A leftover in the temporary folder hurts nobody.
    try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
    let clock = WallClock { Timestamp(millis: 1_700_000_000_000) }
    let store = try SQLiteStorage(path: path + "/relay.sqlite", clock: clock)
    try await store.migrate { _ in }
    let (logger, bus, presence) = (Logger(label: "test"), LocalCoordination(clock: clock), SwitchedPresence())
    let accounts = AccountCache(store: store, bus: bus)
    let hub = Hub(
      presence: presence, signals: bus, missed: store, accounts: accounts,
      lastSeen: LastSeen(store: store, accounts: accounts, clock: clock, logger: logger),
      pollInterval: .seconds(25), steadyPollInterval: .seconds(600), logger: logger)
    let devices = try ["+14155550101", "+14155550102"].map {
      DeviceAddress(try #require(AccountNumber(e164: $0)), .master)
    }
    let envelope = Self.envelope(to: devices[0], from: devices[1])
    try await body(Site(hub: hub, presence: presence, store: store, envelope: envelope))
    await store.close()
  }

  private static func envelope(to device: DeviceAddress, from source: DeviceAddress) -> Envelope {
    Envelope(
      destination: device, type: .ciphertext, source: source, relay: nil, timestamp: Timestamp(millis: 1), message: [1],
      content: nil, fingerprint: Fingerprint(high: 1, low: 2))
  }
}

/// Knows no connection, and may be away.
private final class SwitchedPresence: Presence {
  private struct State {
    var isAway = false
    var asked: [[DeviceAddress]] = []
    var woken: Set<DeviceAddress> = []
    var dead = 0
    /// A device whose process alone is away.
    var unreached: DeviceAddress?
  }

  private let state = Mutex(State())

  func setUnreached(_ device: DeviceAddress?) { state.withLock { $0.unreached = device } }
  func setAway(_ isAway: Bool) { state.withLock { $0.isAway = isAway } }
  /// Another process does.
  func die() { state.withLock { $0.dead += 1 } }
  /// The devices of each call of `wake`.
  var asked: [[DeviceAddress]] { state.withLock { $0.asked } }

  var woken: Set<DeviceAddress> { state.withLock { $0.woken } }

  func wake(_ devices: [DeviceAddress]) async -> WakeUpOutcome {
    state.withLock { state in
      state.asked.append(devices)
      let unknown = devices.filter { state.isAway || $0 == state.unreached }
      state.woken.formUnion(Set(devices).subtracting(unknown))
      return WakeUpOutcome(unknown: unknown)
    }
  }

  func rollCall(silence: Duration) async -> Int {
    state.withLock { state in
      defer { state.dead = 0 }
      return state.dead
    }
  }

  func enter(_ connection: LiveConnection) async -> Bool { true }
  func leave(_ connection: LiveConnection) async {}
  func forget(_ devices: [DeviceAddress]) async -> Bool { true }
  func renew(_ connections: [LiveConnection]) async -> PresenceRenewal { PresenceRenewal() }
  func enter(_ address: ProvisioningAddress) async {}
  func leave(_ address: ProvisioningAddress) async {}
  func handOver(_ bytes: [UInt8], to address: ProvisioningAddress) async -> Bool { false }
  func hear(_ handler: @escaping @Sendable (PresenceEvent) -> Void) {}
}
