import Foundation
import TestSupport
import Testing

/// One row of the table of everything that a client can ask.
struct Endpoint: Sendable, CustomTestStringConvertible {
  let method: String
  /// Without a trailing slash.
  let path: String
  /// A body that is accepted; nil where none is read.
  let json: String?
  let isAuthenticated: Bool

  var testDescription: String { "\(method) \(path)" }

  /// Every endpoint, asked by `caller` about `other`. Each is answered with 200, but for the confirmation of a code.
  static func all(caller: TestDevice, other: TestDevice) throws -> [Endpoint] {
    let token = try TestTokens.urlSafe(other.number)
    let open = [
      Endpoint("GET", "/v1/accounts/dev/code/\(TestDevice.freshNumber())", isAuthenticated: false),
      // No code is pending: 403 after everything else was found right.
      Endpoint("PUT", "/v1/accounts/code/123456", #"{"signalingKey":"c2ln"}"#, isAuthenticated: false),
      Endpoint("PUT", "/v1/acccounts/code/123456", #"{"signalingKey":"c2ln"}"#, isAuthenticated: false),
    ]
    return open + [
      Endpoint("PUT", "/v1/keys", keys), Endpoint("GET", "/v1/keys"),
      Endpoint("GET", "/v1/keys/\(other.number)"), Endpoint("GET", "/v1/keys/\(other.number)/*"),
      Endpoint("PUT", "/v1/messages/\(other.number)", bundle(message())), Endpoint("GET", "/v1/messages"),
      Endpoint("DELETE", "/v1/messages/\(other.number)/1"),
      Endpoint("PUT", "/v1/directory/tokens", #"{"contacts":["\#(token)"]}"#),
      Endpoint("GET", "/v1/directory/\(token)"),
    ]
  }

  private static let keys = #"{"lastResortKey":{"keyId":1,"publicKey":"a","identityKey":"b"},"keys":[]}"#

  private init(_ method: String, _ path: String, _ json: String? = nil, isAuthenticated: Bool = true) {
    self.method = method
    self.path = path
    self.json = json
    self.isAuthenticated = isAuthenticated
  }

  var isConfirmation: Bool { !isAuthenticated && json != nil }
  /// What a right request is answered with.
  var expectedStatus: Int { isConfirmation ? 403 : 200 }
}
