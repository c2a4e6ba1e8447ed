import ChildProcesses
import Foundation
import RelayClient
import RelayCore
import TestSupport
import TestTags
import Testing

/// `relay push test` where no push is needed.
@Suite(.tags(.processes)) struct WakeConnectedTests {
  private struct Report: Decodable {
    let outcome: String
    let fault: String?
  }

  private static func test(_ device: WokenDevice, _ site: RelayOperator, _ more: String...) async throws -> Report {
    let result = try await site.run(["push", "test", device.name, "--json"] + more, within: .seconds(240))
    #expect(result.exit == .code(result.output.contains("\"woken\"") ? 0 : 1), "\(result.errors)")
    return try JSONDecoder().decode(Report.self, from: Data(result.output.utf8))
  }

  @Test func `a device that is connected is pushed to by force alone`() async throws {
    try await WakingSite.with { waking in
      try await RelayOperator.with(settings: waking.settings([.google])) { site in
        let relay = try await site.serve()
        let device = try await WokenDevice(at: relay)
        try await device.register(gcm: "token", at: relay)
        let live = try await device.client.connect(signalingKey: device.key)
        try await eventually("it is connected") {
          try await relay.metric("relay_connections{kind=\"device\"}") == 1
        }
        let first = try await Self.test(device, site)
        #expect(first.outcome == "failed" && first.fault == "device-connected")
        #expect(waking.fcm.requests.isEmpty)
        #expect(try await Self.test(device, site, "--force").outcome == "woken")
        #expect(waking.pushes(toGoogle: "token").count == 1)
        // Once is not for ever.
        #expect(try await Self.test(device, site).fault == "device-connected")
        await live.close()
        try await eventually("nobody is connected") {
          try await relay.metric("relay_connections{kind=\"device\"}") == 0
        }
        #expect(try await Self.test(device, site).outcome == "woken")
        #expect(waking.pushes(toGoogle: "token").count == 2)
        #expect(await relay.terminate() == .code(0))
      }
    }
  }
}
