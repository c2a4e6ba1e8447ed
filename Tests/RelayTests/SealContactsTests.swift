import ChildProcesses
import Foundation
import RelayClient
import TestSupport
import TestTags
import Testing

/// How an operator seals the contact tokens of a store that is in use (docs/operating.md).
@Suite(.tags(.processes)) struct SealContactsTests {
  private static func key(_ byte: UInt8) -> [String: String] {
    ["RELAY_STORAGE_ENCRYPTION_KEY": Data(repeating: byte, count: 32).base64EncodedString()]
  }

  private struct Result: Decodable {
    let wasSealed: Bool
    let rows: Int
  }

  private struct Diagnosis: Decodable {
    let group: String
    let check: String
    let outcome: String
  }

  private static func found(_ device: TestDevice, by relay: RelayProcess, as caller: TestDevice) async throws -> Bool {
    let token = try TestTokens.urlSafe(device.number)
    let answer = try await relay.send("GET", "/v1/directory/\(token)", as: caller)
    return answer.status == 200
  }

  private static func contacts(_ site: RelayOperator, _ key: [String: String]) async throws -> String? {
    let result = try await site.run(["doctor", "--json"], overrides: key)
    let found = try JSONDecoder().decode([Diagnosis].self, from: Data(result.output.utf8))
    return found.first { $0.group == "storage" && $0.check == "contacts" }?.outcome
  }

  @Test func `a relay that was stopped, sealed and started again finds whom it found before`() async throws {
    try await RelayOperator.with { site in
      let first = try await site.serve()
      let (one, other) = (try await first.register(), try await first.register())
      let before = try await Self.found(one, by: first, as: other)
      #expect(before)
      // Not beside a relay that serves, and not without a key.
      let beside = try await site.run(["storage", "seal-contacts"], overrides: Self.key(1))
      #expect(beside.exit == .code(1) && beside.errors.contains("already serves"), "\(beside.errors)")
      #expect(await first.terminate() == .code(0))
      let keyless = try await site.run(["storage", "seal-contacts"])
      #expect(keyless.exit == .code(1) && keyless.errors.contains("storage.encryption-key"), "\(keyless.errors)")

      let plain = try await Self.contacts(site, Self.key(1))
      #expect(plain == "warn")
      let sealed = try await site.run(["storage", "seal-contacts", "--json"], overrides: Self.key(1))
      #expect(sealed.exit == .code(0), "\(sealed.errors)")
      let result = try JSONDecoder().decode(Result.self, from: Data(sealed.output.utf8))
      #expect(!result.wasSealed && result.rows >= 2)
      let again = try await site.relay("storage", "seal-contacts", overrides: Self.key(1))
      #expect(again.contains("Nothing to do"))
      let after = try await Self.contacts(site, Self.key(1))
      #expect(after == "ok")

      let second = try await site.serve(Self.key(1))
      let stillThere = try await Self.found(one, by: second, as: other)
      #expect(stillThere)
      // The file of before is of no use, and the next one is encrypted.
      #expect(second.log().contains("it is not encrypted, and the store is sealed"), "\(second.log())")
      #expect(await second.terminate() == .code(0))
      let third = try await site.serve(Self.key(1))
      #expect(third.log().contains("from=file"), "\(third.log())")
      let fromFile = try await Self.found(one, by: third, as: other)
      #expect(fromFile)
      #expect(await third.terminate() == .code(0))
    }
  }

  @Test func `a store that held nobody before the key was set is sealed by its next start`() async throws {
    try await RelayOperator.with { site in
      #expect(await (try site.serve()).terminate() == .code(0))
      let relay = try await site.serve(Self.key(1))
      #expect(!relay.log().contains("seal-contacts"), "\(relay.log())")
      let (one, other) = (try await relay.register(), try await relay.register())
      let isFound = try await Self.found(one, by: relay, as: other)
      #expect(isFound)
      #expect(await relay.terminate() == .code(0))
      #expect(try await Self.contacts(site, Self.key(1)) == "ok")
    }
  }

  @Test func `a sealed store is not served without the key of its tokens`() async throws {
    try await RelayOperator.with { site in
      // Sealed from the beginning, and never served: the sample of other secrets is not there yet.
      try await site.relay("migrate", "run", overrides: Self.key(1))
      let other = try await site.startServing(Self.key(2))
      #expect(await other.exit(within: .seconds(60)) == .code(1))
      #expect(other.log().contains("storage.encryption-key does not open their key"), "\(other.log())")
      let locked = try await Self.contacts(site, Self.key(2))
      #expect(locked == "fail")
    }
  }
}
