import ChildProcesses
import Foundation
import TestSupport
import TestTags
import Testing

/// The way from one encryption key to the next (docs/configuration.md, "The encryption key").
@Suite(.tags(.processes)) struct EncryptionKeyTests {
  private static func key(_ byte: UInt8) -> String { Data(repeating: byte, count: 32).base64EncodedString() }

  private static func keys(_ current: UInt8, former: UInt8? = nil) -> [String: String] {
    var keys = ["RELAY_STORAGE_ENCRYPTION_KEY": key(current)]
    if let former { keys["RELAY_STORAGE_ENCRYPTION_KEY_FORMER"] = key(former) }
    return keys
  }

  private static let completed = "the former key can be removed"

  /// Serves under `keys`, calls `body`, and stops.
  private static func serve(
    _ site: RelayOperator, _ keys: [String: String], _ body: (RelayProcess) async throws -> Void
  ) async throws {
    let relay = try await site.serve(keys)
    try await body(relay)
    #expect(await relay.terminate() == .code(0), "\(relay.log().suffix(1000))")
  }

  private static func expectRefusal(_ site: RelayOperator, _ keys: [String: String], _ reason: String) async throws {
    let relay = try await site.startServing(keys)
    #expect(await relay.exit() == .code(1))
    #expect(relay.log().contains(reason), "\(relay.log())")
  }

  @Test func `the key is changed with the former beside it, and then stands alone`() async throws {
    try await RelayOperator.with { site in
      var device: TestDevice?
      try await Self.serve(site, Self.keys(1)) { relay in
        device = try await relay.register()
        #expect(!relay.log().contains(Self.completed))
      }
      let registered = try #require(device)
      func expectServed(_ relay: RelayProcess) async throws {
        #expect(try await relay.send("GET", "/v1/devices", as: registered).status == 200)
      }
      try await Self.expectRefusal(site, Self.keys(2), "is not the key that this store's secrets are sealed under")
      for resealed in [1, 0] {
        try await Self.serve(site, Self.keys(2, former: 1)) { relay in
          try await eventually("the former key is not needed any more") { relay.log().contains(Self.completed) }
          #expect(relay.log().contains("resealed=\(resealed)"), "\(relay.log())")
          try await expectServed(relay)
        }
      }
      try await Self.serve(site, Self.keys(2)) { relay in try await expectServed(relay) }
      try await Self.expectRefusal(site, Self.keys(1), "is not the key that this store's secrets are sealed under")
      // And the next one likewise.
      try await Self.serve(site, Self.keys(3, former: 2)) { relay in
        try await eventually("the former key is not needed any more") { relay.log().contains(Self.completed) }
      }
      try await Self.serve(site, Self.keys(3)) { relay in try await expectServed(relay) }
    }
  }

  @Test func `a sealed store is not served with another key or with none`() async throws {
    try await RelayOperator.with { site in
      try await Self.serve(site, Self.keys(1)) { relay in _ = try await relay.register() }
      try await Self.expectRefusal(site, Self.keys(3), "is not the key that this store's secrets are sealed under")
      try await Self.expectRefusal(site, Self.keys(3, former: 2), "keep it as storage.encryption-key-former")
      try await Self.expectRefusal(site, [:], "none is configured. Set storage.encryption-key")
      try await Self.serve(site, Self.keys(1)) { _ in }
    }
  }

  @Test func `a key can be given later`() async throws {
    try await RelayOperator.with { site in
      try await Self.serve(site, [:]) { relay in
        _ = try await relay.register()
        #expect(relay.log().contains("signaling keys are stored as they are"))
      }
      try await Self.serve(site, Self.keys(1)) { _ in }
      try await Self.expectRefusal(site, [:], "none is configured. Set storage.encryption-key")
    }
  }
}
