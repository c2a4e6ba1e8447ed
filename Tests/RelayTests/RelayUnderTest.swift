// The relay that the tests of a suite talk to.

import ChildProcesses
import Foundation
import RelayCore
import TestSupport
import Testing

/// A running relay on embedded stores, and the operator behind it.
struct RelayUnderTest: Sendable {
  let site: RelayOperator
  let relay: RelayProcess

  @TaskLocal static var current: RelayUnderTest?

  /// Limits that no test of something else runs into; contact queries are plenty by default.
  static let unlimited = Dictionary(
    uniqueKeysWithValues: LimiterName.allCases.filter { $0.meaning != nil && $0 != .contactQueries }.map { limiter in
      ("RELAY_LIMITS_\(limiter.rawValue.uppercased().replacing("-", with: "_"))_SIZE", "1000000")
    })
}

/// Gives a suite one relay process of its own for as long as its tests run.
struct OwnRelay: SuiteTrait, TestScoping {
  let settings: [String: String]

  func provideScope(
    for test: Test, testCase: Test.Case?, performing function: @concurrent @Sendable () async throws -> Void
  ) async throws {
    try await RelayOperator.with(settings: settings) { site in
      let relay = try await site.serve()
      do {
        try await RelayUnderTest.$current.withValue(RelayUnderTest(site: site, relay: relay)) { try await function() }
      } catch {
        await relay.kill9()
        throw error
      }
      #expect(await relay.terminate() == .code(0), "\(relay.log().suffix(2000))")
    }
  }
}

extension Trait where Self == OwnRelay {
  /// A relay with limits that do not get in the way.
  static var ownRelay: Self { OwnRelay(settings: RelayUnderTest.unlimited) }
  /// A relay with exactly these settings.
  static func ownRelay(_ settings: [String: String]) -> Self { OwnRelay(settings: settings) }
}

/// The relay of the suite that asks. - Throws: when the suite has none.
func suiteRelay() throws -> RelayUnderTest { try #require(RelayUnderTest.current, "the suite lacks `.ownRelay`") }

/// The fields of a message as `GET /v1/messages` shows it.
struct Shown: Equatable {
  var type: Int?
  var source: String?
  var sourceDevice: Int?
  var relay: String?
  var timestamp: Int64?
  var message: String?
  var content: String?

  init(_ object: [String: Any]) {
    type = object["type"] as? Int
    source = object["source"] as? String
    sourceDevice = object["sourceDevice"] as? Int
    relay = object["relay"] as? String
    timestamp = (object["timestamp"] as? NSNumber)?.int64Value
    message = object["message"] as? String
    content = object["content"] as? String
  }
}
