// Apple's service, as far as it checks what it is sent.

package import Crypto
import Foundation
package import RelayCore
import Synchronization

/// Verifies each request as Apple does, and remembers it. A request that fails a check is answered as Apple would,
/// and noted in `faults`.
package final class FakeAPNs: Sendable {
  fileprivate struct State {
    var keys: [String: P256.Signing.PublicKey] = [:]
    /// The token of each key that came last.
    var last: [String: TestToken] = [:]
    var tokens: [TestToken] = []
    var faults: [String] = []
    var now: @Sendable () -> Timestamp
  }

  fileprivate final class Checks: Sendable {
    private let state: Mutex<State>
    let wantsTokens: Bool

    init(wantsTokens: Bool) {
      self.wantsTokens = wantsTokens
      state = Mutex(State(now: { Timestamp(millis: Int64(Date().timeIntervalSince1970 * 1000)) }))
    }

    fileprivate func withLock<Value: Sendable>(_ body: @Sendable (inout sending State) -> Value) -> Value {
      state.withLock { body(&$0) }
    }
  }

  package let service: FakeService
  private let checks: Checks

  /// - Parameter key: verifies the tokens of `PushFiles.keyID`; nil asks for a certificate in their place.
  package init(_ files: PushFiles, key: P256.Signing.PublicKey?) async throws {
    let checks = Checks(wantsTokens: key != nil)
    if let key { checks.withLock { $0.keys[PushFiles.keyID] = key } }
    self.checks = checks
    service = try await FakeService(
      files, speaksHTTP2: true, clients: key == nil ? files.apple : nil, check: { checks.fault(of: $0) })
  }

  package var url: String { service.url }
  package var requests: [FakeRequest] { service.requests }
  /// The faults, in order.
  package var faults: [String] { checks.withLock { $0.faults } }
  /// The different tokens that came, in order.
  package var tokens: [TestToken] { checks.withLock { $0.tokens } }

  /// From now on tokens of `key` are taken too.
  package func trust(_ key: P256.Signing.PublicKey, as keyID: String = PushFiles.keyID) {
    checks.withLock { $0.keys[keyID] = key }
  }
  /// The time by which tokens age.
  package func tell(now: @escaping @Sendable () -> Timestamp) { checks.withLock { $0.now = now } }
  package func answer(_ status: Int, reason: String, timestamp: Int64? = nil, headers: [String: String] = [:]) {
    let time = timestamp.map { #","timestamp":\#($0)"# } ?? ""
    service.answer(.answer(status, #"{"reason":"\#(reason)"\#(time)}"#, headers: headers))
  }
  package func close() async throws { try await service.close() }
}

extension FakeAPNs.Checks {
  /// How long Apple takes a token, and how often a new one (its "Establishing a token-based connection").
  private static let ageMax: Int64 = 60 * 60
  private static let renewalMin: Int64 = 20 * 60

  fileprivate func fault(of request: FakeRequest) -> FakeAnswer? {
    guard let (status, reason, note) = check(request) else { return nil }
    withLock { $0.faults.append(note) }
    return .answer(status, #"{"reason":"\#(reason)"}"#)
  }

  private func check(_ request: FakeRequest) -> (Int, String, String)? {
    guard request.method == "POST" else { return (405, "MethodNotAllowed", "method \(request.method)") }
    guard request.path.hasPrefix("/3/device/") else { return (404, "BadPath", "path") }
    guard request.path.dropFirst("/3/device/".count).utf8.allSatisfy({ UInt8(ascii: "0")...UInt8(ascii: "f") ~= $0 })
    else { return (400, "BadDeviceToken", "the device token is not hexadecimal") }
    guard UUID(uuidString: request.headers["apns-id"] ?? "") != nil else { return (400, "BadMessageId", "apns-id") }
    guard request.headers["apns-topic"] != nil else { return (400, "MissingTopic", "apns-topic") }
    guard ["5", "10"].contains(request.headers["apns-priority"]) else { return (400, "BadPriority", "apns-priority") }
    guard !request.body.isEmpty else { return (400, "PayloadEmpty", "no payload") }
    let payloadMax = request.headers["apns-push-type"] == "voip" ? 5120 : 4096
    guard request.body.count <= payloadMax else { return (413, "PayloadTooLarge", "\(request.body.count) bytes") }
    guard wantsTokens else {
      return request.headers["authorization"] == nil ? nil : (403, "Forbidden", "a token beside a certificate")
    }
    return checkToken(request.headers["authorization"])
  }

  private func checkToken(_ authorization: String?) -> (Int, String, String)? {
    guard let authorization, authorization.hasPrefix("bearer ") else {
      return (403, "MissingProviderToken", "no token")
    }
    // A text that is no token fails as one.
    guard let token = try? TestToken(String(authorization.dropFirst("bearer ".count))) else {
      return (403, "InvalidProviderToken", "unreadable token")
    }
    return withLock { state in
      let now = state.now().millis / 1000
      guard let keyID = token.header["kid"], let key = state.keys[keyID], token.isSigned(by: key) else {
        return (403, "InvalidProviderToken", "signature")
      }
      guard token.texts["iss"] == PushFiles.teamID, let issued = token.numbers["iat"], issued <= now + 60 else {
        return (403, "InvalidProviderToken", "claims")
      }
      guard token.numbers.count == 1, token.texts.count == 1 else {
        return (403, "InvalidProviderToken", "more claims")
      }
      guard now - issued <= Self.ageMax else { return (403, "ExpiredProviderToken", "\(now - issued) seconds old") }
      if let last = state.last[keyID], last != token, last.isSigned(by: key) {
        guard issued - (last.numbers["iat"] ?? 0) >= Self.renewalMin else {
          return (429, "TooManyProviderTokenUpdates", "a new token too soon")
        }
      }
      if state.last[keyID] != token { state.tokens.append(token) }
      state.last[keyID] = token
      return nil
    }
  }
}
