// A change of devices made through one process, as the others see it.

import Foundation
import TestSupport
import TestTags
import Testing

@Suite(.tags(.processes)) struct DeviceRemovalTests {
  /// The promise is a second; the bound leaves room for a machine that runs everything at once.
  private static let limit = Duration.seconds(5)

  @Test func `a removed device is refused by every process, cached credentials or not`() async throws {
    try await Cluster.with { cluster in
      try await cluster.serve(3) { relays in
        let owner = try await relays[0].register()
        for round in 1...5 {
          let linked = try await relays[round % 3].link(to: owner)
          for relay in relays {
            // Processes that remember the account hear of the device by a signal, within the same second.
            try await eventually("the linked device is known", within: Self.limit) {
              try await relay.send("GET", "/v1/keys", as: linked).status == 200
            }
          }
          let removal = try await relays[0].send("DELETE", "/v1/devices/\(linked.device)", as: owner)
          #expect(removal.status == 200, "\(removal.text)")
          for relay in relays {
            try await eventually("the removed device is refused", within: Self.limit) {
              try await relay.send("GET", "/v1/keys", as: linked).status == 401
            }
            #expect(try await relay.send("GET", "/v1/keys", as: owner).status == 200)
          }
        }
      }
    }
  }

  @Test func `a linked device is known to every process, and gone when its account registers anew`() async throws {
    try await Cluster.with { cluster in
      try await cluster.serve(2) { relays in
        let owner = try await relays[0].register()
        // Cached without the device.
        #expect(try await relays[1].send("GET", "/v1/devices", as: owner).list("devices").count == 1)
        let linked = try await relays[0].link(to: owner)
        try await eventually("the other process knows the linked device", within: Self.limit) {
          try await relays[1].send("GET", "/v1/keys", as: linked).status == 200
        }
        _ = try await relays[0].register(owner.number)
        try await eventually("its account's new installation ends it", within: Self.limit) {
          try await relays[1].send("GET", "/v1/keys", as: linked).status == 401
        }
      }
    }
  }
}

extension RelayProcess {
  /// Links a device as a client does: a code from device 1, redeemed with credentials of its own.
  fileprivate func link(to owner: TestDevice) async throws -> TestDevice {
    let code = try await send("GET", "/v1/devices/provisioning/code", as: owner).object["verificationCode"] as? String
    let password = "linked-\(UUID().uuidString)"
    let answer = try await send(
      "PUT", "/v1/devices/\(try #require(code))",
      json: #"{"signalingKey":"\#(Data(count: 52).base64EncodedString())","fetchesMessages":true,"registrationId":7}"#,
      as: TestDevice(number: owner.number, password: password))
    let id = try #require(answer.object["deviceId"] as? Int, "\(answer.status) \(answer.text)")
    return TestDevice(number: owner.number, password: password, device: id, registrationID: 7)
  }
}
