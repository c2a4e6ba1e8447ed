// Clients that come from wherever they like, and the codes that reach the holders of numbers.

import Foundation
import RelayCore
import TestSupport

extension Victim {
  /// Clients behind a trusted proxy, which are charged by their addresses, and no limit that the test does not set.
  static func guarded(_ limits: [String: String] = [:]) -> [String: String] {
    let settings = ["RELAY_DEVELOPMENT_ENABLED": "false", "RELAY_CLIENT_TRUSTED_PROXIES": "127.0.0.0/8"]
    let named = limits.map { ("RELAY_LIMITS_" + $0.key, $0.value) }
    return unlimited.merging(settings) { $1 }.merging(named) { $1 }
  }

  /// Runs `body` with further processes of the operator: one where they share their stores, none where there is only
  /// one.
  func withOthers(_ kind: StoreKind, _ body: ([RelayProcess]) async throws -> Void) async throws {
    guard kind == .servers else { return try await body([]) }
    let ports = try Loopback.freePorts(1)
    let other = try await site.serve(["RELAY_FEDERATION_PORT": "\(ports[0])"])
    do {
      try await body([other])
    } catch {
      await other.kill9()
      throw TestFailure("\(error); the other process's log: \(other.log().suffix(2000))")
    }
    await other.terminate()
  }
}

/// A caller that speaks from one address.
struct Caller: Sendable {
  let address: String

  /// An address of IPv4 that no other caller has.
  static func stranger(_ index: Int) -> Caller { Caller(address: "198.51.\(100 + index / 200).\(1 + index % 200)") }

  func send(
    _ method: String, _ path: String, json: String? = nil, as device: TestDevice? = nil, to relay: RelayProcess
  ) async throws -> Answer {
    try await relay.send(method, path, json: json, as: device, headers: [("X-Forwarded-For", address)])
  }

  /// Asks for a code for `number`, as anybody may. - Returns: what its holder is sent, six digits; here, by the log.
  func askForCode(_ number: String, at relay: RelayProcess) async throws -> String {
    let before = Self.codes(relay).count
    let answer = try await send("GET", "/v1/accounts/sms/code/\(number)", to: relay)
    guard answer.status == 200 else { throw TestFailure("no code: \(answer.status) \(answer.text)") }
    return try await eventually("the code is sent") { Self.codes(relay).dropFirst(before).last }
  }

  /// Tries `code` for the number of `device`.
  func confirm(_ code: String, as device: TestDevice, pin: String? = nil, at relay: RelayProcess) async throws -> Answer
  {
    try await send(
      "PUT", "/v1/accounts/code/\(code)", json: Self.attributes(pin: pin), as: device, to: relay)
  }

  /// Registers `number` as its holder does.
  func register(_ number: String, pin: String? = nil, at relay: RelayProcess) async throws -> TestDevice {
    let device = TestDevice(number: number, password: UUID().uuidString)
    let answer = try await confirm(
      try await askForCode(number, at: relay), as: device, pin: pin, at: relay)
    guard answer.status == 200 else { throw TestFailure("not registered: \(answer.status) \(answer.text)") }
    return device
  }

  static func attributes(pin: String? = nil) -> String {
    #"{"signalingKey":"c2ln","fetchesMessages":true\#(pin.map { #","pin":"\#($0)""# } ?? "")}"#
  }

  private static func codes(_ relay: RelayProcess) -> [String] {
    relay.log().matches(of: #/verification code (\d{3})-(\d{3})/#).map { String($0.output.1 + $0.output.2) }
  }
}

/// A code that is not `code`.
func wrong(_ code: String) -> String { code == "123456" ? "654321" : "123456" }
