import RelayCore
import Storage
import TestSupport
import Testing

@testable import Federation

/// Work that one process at a time does.
@Suite struct WorkLeaseTests {
  @Test func itIsRenewedWhileTheWorkTakesLong() async throws {
    try await withRelay("beta") { beta in
      let duration = MachineSpeed.allow(.seconds(3))
      let lease = WorkLease(store: beta.storage, holder: 1, duration: duration)
      let other = WorkLease(store: beta.storage, holder: 2, duration: duration)
      let began = ContinuousClock.now
      #expect(try await lease.acquire("work"))
      async let work = lease.hold("work") { await Self.sleep(duration * 1.8) }
      while ContinuousClock.now < began + duration * 1.5 {
        #expect(try await other.hold("work") { true } == nil)
        try await Task.sleep(for: .milliseconds(50))
      }
      #expect(try await work == true)
      // It was given up.
      #expect(try await other.hold("work") { true } == true)
    }
  }

  @Test func workIsCancelledThatHasLostItsLease() async throws {
    try await withRelay("beta") { beta in
      let lease = WorkLease(store: beta.storage, holder: 1, duration: .milliseconds(500))
      async let work = lease.keep("work") { await Self.sleep(.seconds(60)) }
      try await eventually("another has it") {
        try await lease.release("work")
        return try await beta.storage.acquireLease("work", holder: 2, for: .seconds(60))
      }
      #expect(try await work == false)
    }
  }

  /// - Returns: whether it came to its end.
  private static func sleep(_ duration: Duration) async -> Bool {
    do {
      try await Task.sleep(for: duration)
      return true
    } catch {
      return false
    }
  }
}
