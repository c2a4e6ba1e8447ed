// The stage of the plays: one operator, or two that are peers. Real processes on embedded stores.

import ChildProcesses
import Foundation
import TestSupport
import Testing

/// One operator, or two: `near` has the one who begins, `far` the one who is written to.
struct Stage: Sendable {
  enum Kind: String, CaseIterable, Sendable, CustomTestStringConvertible {
    case oneOperator = "one operator"
    case twoOperators = "two operators"
    var testDescription: String { rawValue }
  }

  let kind: Kind
  let near: RelayProcess
  let far: RelayProcess
  let alpha: RelayOperator

  /// The name by which each side calls the other; nil if there is but one.
  var farName: String? { kind == .twoOperators ? "beta" : nil }
  var nearName: String? { kind == .twoOperators ? "alpha" : nil }

  /// Limits that no play runs into.
  static let settings = Dictionary(
    uniqueKeysWithValues: [
      "SMS_DESTINATION", "VERIFY_NUMBER", "PREKEYS", "PREKEYS_TARGET", "MESSAGES", "ALLOCATE_DEVICE", "VERIFY_DEVICE",
      "RECEIPTS", "ATTACHMENTS",
    ].map { ("RELAY_LIMITS_\($0)_SIZE", "100000") }
  ).merging(usualLimits) { $1 }
  static let usualLimits = ["RELAY_FEDERATION_DIRECTORY_INTERVAL": "0.2"]

  static func with(
    _ kind: Kind, settings: [String: String] = settings, _ body: @Sendable (Stage) async throws -> Void
  ) async throws {
    try await RelayOperator.with("alpha", settings: settings) { alpha in
      guard kind == .twoOperators else {
        return try await serving([try await alpha.serve()]) { relays in
          try await body(Stage(kind: kind, near: relays[0], far: relays[0], alpha: alpha))
        }
      }
      try await RelayOperator.with("beta", settings: settings) { beta in
        try await serving([try await start(alpha), try await start(beta)]) { relays in
          try await peer(alpha, with: beta)
          try await body(Stage(kind: kind, near: relays[0], far: relays[1], alpha: alpha))
        }
      }
    }
  }

  /// Serves clients and peers.
  static func start(_ site: RelayOperator) async throws -> RelayProcess {
    try await site.relay("ca", "init")
    try await site.relay("ca", "issue")
    return try await serve(site)
  }

  static func serve(_ site: RelayOperator) async throws -> RelayProcess {
    try await site.serve(["RELAY_FEDERATION_PORT": "\(site.federationPort)"])
  }

  static func peer(_ one: RelayOperator, with other: RelayOperator) async throws {
    guard let word = try await one.relay("peer", "invite").split(separator: "\n").last else {
      throw TestFailure("no invitation")
    }
    try await other.relay("peer", "accept", String(word))
  }

  /// Runs `body`, and ends `relays` then.
  static func serving(_ relays: [RelayProcess], _ body: ([RelayProcess]) async throws -> Void) async throws {
    do {
      try await body(relays)
    } catch {
      for relay in relays { await relay.kill9() }
      throw error
    }
    for relay in relays { await relay.terminate() }
  }

  /// Gets or puts a blob at a URL that a relay gave: without credentials, and with a type both ways.
  func exchange(
    _ method: String, _ location: String, _ text: String? = nil, headers: [(String, String)] = []
  ) async throws -> Answer {
    guard let relay = [near, far].first(where: { location.hasPrefix($0.url + "/") }) else {
      throw TestFailure("a blob's URL leads elsewhere")
    }
    return try await relay.send(
      method, String(location.dropFirst(relay.url.count)), json: text,
      headers: [("Content-Type", "application/octet-stream")] + headers)
  }
}
