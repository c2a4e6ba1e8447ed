import Foundation
import Logging
import RelayCore
import RelayWork
import Storage
import Synchronization
import TestSupport
import TestTags
import Testing

@testable import Waking

/// Devices that are to be woken, in a process that pushes nothing itself.
@Suite(.tags(.stores)) struct WakeRequestsTests {
  @Test func `a process that pushes nothing tells those that do, once it has written down who is to be woken`()
    async throws
  {
    try await Self.with { store, signals, device in
      let heard = Mutex<[SignalEvent]>([])
      signals.listen { event in heard.withLock { $0.append(event) } }
      let served = ServedProviders(own: [])
      let requests = Self.requests(served, store, signals)
      // No process pushes: nobody is written down, and nobody told.
      requests.absent([device], isCertain: true)
      _ = try await store.announceWakeProviders([.fcm])
      try await served.announce(to: store)
      #expect(served.needsOthers)
      requests.absent([device], isCertain: true)
      try await eventually("they are told") { heard.withLock { $0.contains(.signal(.wakesAsked)) } }
      #expect(try await store.waitingWake(of: device) != nil)
    }
  }

  @Test func `a process that pushes through all providers tells no other`() async throws {
    try await Self.with { store, signals, device in
      let heard = Mutex<[SignalEvent]>([])
      signals.listen { event in heard.withLock { $0.append(event) } }
      let served = ServedProviders(own: [.fcm])
      try await served.announce(to: store)
      #expect(!served.needsOthers)
      let requests = Self.requests(served, store, signals)
      requests.absent([device], isCertain: true)
      try await eventually("it is written down") { try await store.waitingWake(of: device) != nil }
      // A signal would follow the writing: the end of `run` waits for both.
      let running = Task { try await requests.run() }
      running.cancel()
      try await running.value
      #expect(!heard.withLock { $0.contains(.signal(.wakesAsked)) })
    }
  }

  private static func requests(
    _ served: ServedProviders, _ store: SQLiteStorage, _ signals: LocalCoordination
  ) -> WakeRequests {
    WakeRequests(
      store: store, signals: signals, settings: WakingSettings(through: served, lifetime: .seconds(3600)),
      bell: .init(), metrics: WakeMetrics(providers: []),
      logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
  }

  private static let clock = WallClock { Timestamp(millis: Int64(Date.now.timeIntervalSince1970 * 1000)) }

  /// Runs `body` with a store and a device that has a GCM id.
  private static func with(
    _ body: (SQLiteStorage, LocalCoordination, DeviceAddress) async throws -> Void
  ) async throws {
    let folder = FileManager.default.temporaryDirectory.appending(path: "relay-wakes-\(UUID().uuidString)").path
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    // A leftover in the temporary folder must not hide why the test failed.
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let store = try SQLiteStorage(path: folder + "/relay.sqlite", clock: clock)
    do {
      try await store.migrate { _ in }
      try await body(store, LocalCoordination(clock: clock), try await register(store))
    } catch {
      await store.close()
      throw error
    }
    await store.close()
  }

  private static func register(_ store: SQLiteStorage) async throws -> DeviceAddress {
    let number = try #require(AccountNumber(e164: "+4915110000001"))
    let now = clock.now()
    let device = Device(
      id: .master,
      password: PasswordHash(salt: [UInt8](repeating: 1, count: 16), hash: [UInt8](repeating: 2, count: 32)),
      signalingKey: Secret("key"), registrationID: 7, fetchesMessages: true, lastSeen: now.startOfDay, created: now)
    let registration = Registration(
      number: number, token: ContactToken(high: 1, low: 1), device: device, supportsSMS: false, voice: false,
      respectsClaims: false)
    #expect(try await store.register(registration, proof: .trusted, now: now) == .registered)
    let address = DeviceAddress(number, .master)
    let id = DeviceChange.register(.fcm(Secret("token")), at: now)
    #expect(try await store.updateDevice(address, id))
    return address
  }
}
