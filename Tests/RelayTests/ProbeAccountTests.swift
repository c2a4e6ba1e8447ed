import Foundation
import Relay
import RelayCore
import Storage
import TestTags
import Testing

/// The account for tests of peerings, whose mailbox any peer may fill with what it likes.
@Suite(.tags(.stores)) struct ProbeAccountTests {
  @Test func `messages of any time are taken out`() async throws {
    try await withProbeAccount { probe, store, clock in
      let (alpha, beta) = (try #require(RelayName("alpha")), try #require(RelayName("beta")))
      let number = try await probe.prepare()
      let now = clock.now().millis
      let times = [Int64.min, .min + 1, -1, 0, now - 60_001, now, now + 60_001, .max - 1, .max]
      for (index, time) in times.enumerated() {
        try await store.append([try envelope(to: number, from: beta, at: time, index: index)])
      }
      // A message that may be a part of a test of another peer stays.
      #expect(try await probe.collect(from: alpha) == [])
      let left = try await store.pending(in: DeviceAddress(number, .master), after: 0, limit: 100)
      #expect(left.map(\.envelope.timestamp.millis) == [now])
      try await store.append([try envelope(to: number, from: alpha, at: .min, index: 100)])
      #expect(try await probe.collect(from: alpha) == [Timestamp(millis: .min)])
      #expect(try await probe.collect(from: beta) == [Timestamp(millis: now)])
    }
  }

  private func envelope(
    to number: AccountNumber, from relay: RelayName, at time: Int64, index: Int
  ) throws -> Envelope {
    let source = try #require(AccountNumber(e164: "+14155550177"))
    let bytes = Array(repeating: UInt8(index), count: 16)
    return Envelope(
      destination: DeviceAddress(number, .master), type: .ciphertext, source: DeviceAddress(source, .master),
      relay: relay, timestamp: Timestamp(millis: time), message: [1], content: nil,
      fingerprint: try #require(Fingerprint(bytes: bytes)))
  }

  private func withProbeAccount(
    _ body: (ProbeAccount, SQLiteStorage, WallClock) async throws -> Void
  ) async throws {
    let path = NSTemporaryDirectory() + "relay-probe-" + UUID().uuidString
    defer { try? FileManager.default.removeItem(atPath: path) }  // A leftover in the temporary folder hurts nobody.
    try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
    let now = Timestamp(millis: Int64(Date().timeIntervalSince1970 * 1000))
    let clock = WallClock { now }
    let store = try SQLiteStorage(path: path + "/relay.sqlite", clock: clock)
    try await store.migrate { _ in }
    let coordination = LocalCoordination(buckets: [:], clock: clock)
    let probe = ProbeAccount(
      name: try #require(RelayName("gamma")), store: store, accounts: AccountCache(store: store, bus: coordination),
      clock: clock)
    try await body(probe, store, clock)
    await store.close()
  }
}
