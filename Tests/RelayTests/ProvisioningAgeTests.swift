import Logging
import RelayCore
import RelayHTTP
import Storage
import TestSupport
import TestTags
import Testing

@testable import Relay

/// How long a device that is to be linked may wait.
@Suite(.tags(.stores)) struct ProvisioningAgeTests {
  @Test func `who has waited for too long gives up the place, and nobody else does`() async throws {
    let presence = LocalCoordination(buckets: [:], clock: WallClock { Timestamp(millis: 1_700_000_000_000) })
    let registry = ProvisioningRegistry(
      presence: presence, metrics: LiveMetrics(), logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
    try await TransportSite.with(admit: { registry.admit($0.origin) }) { site in
      let socket = try await site.open()
      _ = try await socket.frame()
      await registry.renew(at: .now + .seconds(890))
      #expect(registry.count == 1)
      await registry.renew(at: .now + .seconds(901))
      #expect(try await socket.closeCode() == 1012)
      try await eventually("it is gone") { registry.count == 0 }
      await socket.close()
    }
  }
}
