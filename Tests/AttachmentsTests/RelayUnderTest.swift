import ChildProcesses
import Foundation
import TestSupport
import Testing

/// Limits that no test of something else runs into.
let unlimited = [
  "RELAY_LIMITS_SMS_DESTINATION_SIZE": "1000", "RELAY_LIMITS_VERIFY_NUMBER_SIZE": "1000",
  "RELAY_LIMITS_ATTACHMENTS_SIZE": "100000",
]

/// Runs `body` with a relay on embedded stores, which must end well.
func withRelay(
  _ settings: [String: String] = [:], isolation: isolated (any Actor)? = #isolation,
  _ body: (RelayOperator, RelayProcess) async throws -> Void
) async throws {
  try await RelayOperator.with(settings: unlimited.merging(settings) { $1 }) { site in
    let relay = try await site.serve()
    do {
      try await body(site, relay)
    } catch {
      await relay.kill9()
      throw error
    }
    #expect(await relay.terminate() == .code(0), "\(relay.log().suffix(2000))")
  }
}

extension RelayProcess {
  /// A new attachment and where its blob goes.
  func allocate(as device: TestDevice) async throws -> (id: String, location: String) {
    let answer = try await send("GET", "/v1/attachments/", as: device)
    guard answer.status == 200, let id = answer.object["idString"] as? String,
      let location = answer.object["location"] as? String
    else { throw TestFailure("no attachment: \(answer.status) \(answer.text)") }
    return (id, location)
  }

  /// The URL at which the blob of an attachment is.
  func locate(_ id: String, at peer: String? = nil, as device: TestDevice) async throws -> String {
    let answer = try await send("GET", "/v1/attachments/\(id)" + (peer.map { "?relay=\($0)" } ?? ""), as: device)
    guard answer.status == 200, let location = answer.object["location"] as? String else {
      throw TestFailure("no location: \(answer.status) \(answer.text)")
    }
    return location
  }
}
