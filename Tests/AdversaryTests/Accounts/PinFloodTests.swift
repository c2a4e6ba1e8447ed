// Work that nobody without a code may cause.

import Foundation
import RelayCore
import TestSupport
import TestTags
import Testing

@Suite(.tags(.time)) struct PinFloodTests {
  @Test(arguments: StoreKind.allCases) func `a flood without codes does not delay a registration with a pin`(
    kind: StoreKind
  )
    async throws
  {
    try await Victim.with(kind, settings: Victim.guarded()) { victim in
      let relay = victim.relay
      let owner = Caller(address: "203.0.113.9")
      try await withThrowingTaskGroup(of: Void.self) { group in
        for worker in 0..<24 {
          group.addTask {
            var index = worker
            while !Task.isCancelled {
              let device = TestDevice(number: "+1777\(1_000_000 + index)", password: "flood")
              let answer = try await Caller.stranger(index % 4000).confirm(
                "111111", as: device, pin: "hunter22", at: relay)
              #expect(answer.status == 403, "\(answer.text)")
              index += 24
            }
          }
        }
        let number = TestDevice.freshNumber()
        for _ in 0..<6 { _ = try await owner.register(number, pin: "hunter22", at: relay) }
        group.cancelAll()
        // A request that is cut short when the test has what it wants.
        while await group.nextResult() != nil {}
      }
    }
  }
}
