// Number tokens: whoever has one takes the account (reference 2.6).

import ChildProcesses
import Crypto
import Foundation
import RelayCore
import TestSupport
import TestTags
import Testing

@Suite(.tags(.processes)) struct NumberTokenAttackTests {
  private static let key = String(repeating: "0f", count: 32)
  private static let settings = Victim.unlimited.merging(["RELAY_VERIFICATION_TOKEN_KEY": key]) { $1 }

  private func draw(_ device: TestDevice, at relay: RelayProcess) async throws -> String {
    let answer = try await relay.send("GET", "/v1/accounts/token", as: device)
    guard let token = answer.object["token"] as? String else { throw TestFailure("\(answer.status) \(answer.text)") }
    return token
  }

  /// - Returns: the status, and the code of a refusal.
  private func use(_ token: String, _ device: TestDevice, at relay: RelayProcess) async throws -> String {
    let answer = try await relay.send("PUT", "/v1/accounts/token/\(token)", json: Caller.attributes(), as: device)
    return "\(answer.status) \(answer.text.prefix { $0 != ":" })"
  }

  private func next(_ device: TestDevice) -> TestDevice {
    TestDevice(number: device.number, password: UUID().uuidString)
  }

  @Test(arguments: StoreKind.allCases) func `a linked device draws no number token`(kind: StoreKind) async throws {
    try await Victim.with(kind, settings: Self.settings) { victim in
      let relay = victim.relay
      let master = try await relay.register()
      let offered = try await relay.send("GET", "/v1/devices/provisioning/code", as: master)
      let code = try #require(offered.object["verificationCode"] as? String)
      let joining = TestDevice(number: master.number, password: "linked")
      let answer = try await relay.send("PUT", "/v1/devices/\(code)", json: Caller.attributes(), as: joining)
      let linked = TestDevice(
        number: master.number, password: "linked", device: try #require(answer.object["deviceId"] as? Int))
      let refused = try await relay.send("GET", "/v1/accounts/token/", as: linked)
      #expect(refused.status == 403 && refused.text.hasPrefix("device-refused: "), "\(refused.text)")
      #expect(!refused.text.contains(master.number))

      #expect(try await relay.send("DELETE", "/v1/devices/\(linked.device)", as: master).status == 200)
      #expect(try await relay.send("GET", "/v1/accounts/token", as: linked).status == 401)
      #expect(try await relay.send("GET", "/v1/keys", as: master).status == 200)
    }
  }

  @Test(arguments: StoreKind.allCases) func `a number token serves once`(kind: StoreKind) async throws {
    try await Victim.with(kind, settings: Self.settings) { victim in
      let relay = victim.relay
      let former = try await relay.register()
      let token = try await draw(former, at: relay)
      // One of many at once, too.
      let outcomes = try await withThrowingTaskGroup(of: String.self) { group in
        for _ in 0..<16 { group.addTask { try await use(token, next(former), at: relay) } }
        return try await group.reduce(into: [String]()) { $0.append($1) }
      }
      #expect(outcomes.count { $0.hasPrefix("200") } == 1, "\(outcomes)")
      #expect(outcomes.count { $0 == "403 token-refused" } == 15, "\(outcomes)")
      try await victim.withOthers(kind) { others in
        for other in others {
          let outcome = try await use(token, next(former), at: other)
          #expect(outcome == "403 token-refused")
        }
      }
      // Nor does the process that begins anew take it.
      #expect(await relay.terminate() == .code(0))
      let later = try await victim.site.serve(["RELAY_FEDERATION_PORT": "\(victim.site.federationPort)"])
      #expect(try await use(token, next(former), at: later) == "403 token-refused")
      await later.terminate()
    }
  }

  @Test(arguments: StoreKind.allCases) func `a new installation ends the tokens of the former one`(kind: StoreKind)
    async throws
  {
    try await Victim.with(kind, settings: Self.settings) { victim in
      let relay = victim.relay
      let former = try await relay.register()
      let old = try await draw(former, at: relay)
      let owner = try await relay.register(former.number)
      #expect(try await use(old, next(former), at: relay) == "403 token-refused")
      #expect(try await relay.send("GET", "/v1/accounts/token", as: former).status == 401)
      // The installation's own serves, within the same second too, and none of it afterwards.
      let first = try await draw(owner, at: relay)
      let present = next(owner)
      #expect(try await use(first, present, at: relay).hasPrefix("200"))
      let second = try await draw(present, at: relay)
      #expect(second != first)
      #expect(try await use(first, next(owner), at: relay) == "403 token-refused")
      #expect(try await use(second, next(owner), at: relay).hasPrefix("200"))
    }
  }

  @Test(arguments: StoreKind.allCases) func `a number token ends after ten minutes`(kind: StoreKind) async throws {
    try await Victim.with(kind, settings: Self.settings) { victim in
      // As a sister service draws them, whoever has verified the number.
      let device = TestDevice(number: TestDevice.freshNumber(), password: "sister")
      let now = Int64(Date().timeIntervalSince1970)
      var outcomes: [String] = []
      for seconds in [now - 605, now + 90, now - 30, now - 30] {
        outcomes.append(try await use(Self.token(device.number, seconds), device, at: victim.relay))
      }
      #expect(outcomes == ["403 token-refused", "403 token-refused", "200 ", "403 token-refused"])
    }
  }

  private static func token(_ number: String, _ seconds: Int64) -> String {
    let key = SymmetricKey(data: [UInt8](repeating: 0x0F, count: 32))
    let code = HMAC<SHA256>.authenticationCode(for: Array("\(number):\(seconds)".utf8), using: key)
    let hex = code.prefix(10).map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    return "\(number):\(seconds):\(hex)"
  }
}
