// Google's service and its exchange of assertions for access tokens.

package import CryptoExtras
import Foundation
package import RelayCore
import Synchronization

/// Two services: `service` takes messages, `exchange` gives tokens. Both verify what they are sent; what fails is
/// answered as Google would, and noted in `faults`.
package final class FakeFCM: Sendable {
  fileprivate struct State {
    var tokens: [String: Timestamp] = [:]
    var issued = 0
    var faults: [String] = []
    var now: @Sendable () -> Timestamp = { Timestamp(millis: Int64(Date().timeIntervalSince1970 * 1000)) }
  }

  fileprivate final class Checks: Sendable {
    private let state = Mutex(State())
    let key: _RSA.Signing.PublicKey

    init(key: _RSA.Signing.PublicKey) { self.key = key }

    fileprivate func withLock<Value: Sendable>(_ body: @Sendable (inout sending State) -> Value) -> Value {
      state.withLock { body(&$0) }
    }
  }

  package let service: FakeService
  package let exchange: FakeService
  private let checks: Checks

  /// - Parameter key: verifies the service account's assertions.
  package init(_ files: PushFiles, key: _RSA.Signing.PublicKey) async throws {
    let checks = Checks(key: key)
    self.checks = checks
    service = try await FakeService(files, check: { checks.fault(ofMessage: $0) })
    exchange = try await FakeService(
      files, usual: { _ in checks.token() }, check: { checks.fault(ofExchange: $0) })
    service.answerAlways(.answer(200, #"{"name":"projects/\#(PushFiles.project)/messages/0:1"}"#))
  }

  package var url: String { service.url }
  package var tokenURL: String { "\(exchange.url)/token" }
  /// Messages.
  package var requests: [FakeRequest] { service.requests }
  package var faults: [String] { checks.withLock { $0.faults } }
  package var issuedCount: Int { checks.withLock { $0.issued } }

  /// No token given out so far is taken any more.
  package func withdrawTokens() { checks.withLock { $0.tokens = [:] } }
  package func tell(now: @escaping @Sendable () -> Timestamp) { checks.withLock { $0.now = now } }
  /// - Parameters:
  ///   - code: of the detail `FcmError`.
  ///   - field: of the detail `BadRequest`.
  package func answer(
    _ status: Int, _ word: String, code: String? = nil, field: String? = nil, headers: [String: String] = [:]
  ) {
    service.answer(.answer(status, Self.fault(status, word, code: code, field: field), headers: headers))
  }
  package func close() async throws {
    try await service.close()
    try await exchange.close()
  }

  fileprivate static func fault(_ status: Int, _ word: String, code: String? = nil, field: String? = nil) -> String {
    var details: [String] = []
    if let code {
      details.append(#"{"@type":"type.googleapis.com/google.firebase.fcm.v1.FcmError","errorCode":"\#(code)"}"#)
    }
    if let field {
      let violations = #"[{"field":"\#(field)","description":"x"}]"#
      details.append(#"{"@type":"type.googleapis.com/google.rpc.BadRequest","fieldViolations":\#(violations)}"#)
    }
    let list = details.joined(separator: ",")
    return #"{"error":{"code":\#(status),"message":"text","status":"\#(word)","details":[\#(list)]}}"#
  }
}

extension FakeFCM.Checks {
  fileprivate func fault(ofMessage request: FakeRequest) -> FakeAnswer? {
    let fault: (Int, String, String)? = withLock { state in
      guard request.method == "POST", request.path == "/v1/projects/\(PushFiles.project)/messages:send" else {
        return (404, "NOT_FOUND", "path \(request.path)")
      }
      guard let bearer = request.headers["authorization"], bearer.hasPrefix("Bearer "),
        let end = state.tokens[String(bearer.dropFirst("Bearer ".count))], state.now() < end
      else { return (401, "UNAUTHENTICATED", "access token") }
      guard request.headers["content-type"] == "application/json",
        let message = request.json["message"] as? [String: Any],
        message["token"] is String
      else { return (400, "INVALID_ARGUMENT", "body") }
      let data = message["data"] as? [String: Any] ?? [:]
      guard data.values.allSatisfy({ $0 is String }) else { return (400, "INVALID_ARGUMENT", "data of another type") }
      return nil
    }
    guard let (status, word, note) = fault else { return nil }
    withLock { $0.faults.append(note) }
    return .answer(status, FakeFCM.fault(status, word))
  }

  /// The answer to a request in which all is right.
  fileprivate func token() -> FakeAnswer {
    withLock { state in
      state.issued += 1
      let text = "access-token-\(state.issued)"
      state.tokens[text] = state.now().adding(.seconds(3600))
      return .answer(200, #"{"access_token":"\#(text)","expires_in":3600,"token_type":"Bearer"}"#)
    }
  }

  fileprivate func fault(ofExchange request: FakeRequest) -> FakeAnswer? {
    guard let note = wrong(request) else { return nil }
    withLock { $0.faults.append(note) }
    return .answer(400, #"{"error":"invalid_grant"}"#)
  }

  private func wrong(_ request: FakeRequest) -> String? {
    guard request.method == "POST", request.path == "/token" else { return "path \(request.path)" }
    guard request.headers["content-type"] == "application/x-www-form-urlencoded" else { return "content type" }
    var form: [String: String] = [:]
    for pair in request.text.split(separator: "&") {
      let parts = pair.split(separator: "=", maxSplits: 1)
      if parts.count == 2 { form[String(parts[0])] = String(parts[1]).removingPercentEncoding }
    }
    guard form["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer" else { return "grant_type" }
    // A text that is no token fails as one.
    guard let text = form["assertion"], let token = try? TestToken(text), token.isSigned(by: key) else {
      return "signature"
    }
    guard token.header["kid"] == PushFiles.accountKeyID, token.header["typ"] == "JWT" else { return "header" }
    guard token.texts["iss"] == PushFiles.account, token.texts["aud"] == "https://oauth2.googleapis.com/token",
      token.texts["scope"] == "https://www.googleapis.com/auth/firebase.messaging"
    else { return "claims" }
    let now = withLock { $0.now() }.millis / 1000
    guard let issued = token.numbers["iat"], let end = token.numbers["exp"], abs(issued - now) <= 60,
      end - issued == 3600
    else { return "times" }
    return nil
  }
}
