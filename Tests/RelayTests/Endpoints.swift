import Foundation
import TestSupport
import Testing

/// One row of the table of everything that a client can ask.
struct Endpoint: Sendable, CustomTestStringConvertible {
  enum Access: Sendable {
    /// Ignores credentials.
    case open
    /// Takes the credentials that it is to create.
    case created
    /// Asks for a device's.
    case device
  }

  let method: String
  /// Without a trailing slash.
  let path: String
  /// A body that is accepted; nil where none is read.
  let json: String?
  let access: Access
  /// The answer to a right request.
  let expectedStatus: Int

  var testDescription: String { "\(method) \(path)" }

  /// Every endpoint, asked by `caller`; each may be asked again and again, in any order. The upload and download of
  /// attachments, which are no JSON and have URLs of their own, are not among them.
  static func all(of relay: RelayProcess, caller: TestDevice) async throws -> [Endpoint] {
    let other = try await relay.register()
    try await relay.waitUntilOblivious(as: other)
    try await eventually("every contact has its output") {
      try await relay.send("GET", "/v1/directory/oblivious/registered", as: other).status == 200
    }
    try await relay.upload([], as: other)
    #expect(try await relay.send("PUT", "/v2/keys", json: keysV2, as: caller).status == 200)
    let sent = bundle(message(), timestamp: receivedTime)
    #expect(try await relay.send("PUT", "/v1/messages/\(caller.number)", json: sent, as: other).status == 200)
    return registration + account + keys(of: other) + messages(to: other)
      + (try directory(other)) + attachmentsAndDevices
  }

  private static let registration = [
    Endpoint("GET", "/v1/accounts/dev/code/\(TestDevice.freshNumber())", access: .open),
    // No code is pending: 403 after everything else was found right.
    Endpoint("PUT", "/v1/accounts/code/123456", attributes, access: .created, answers: 403),
    Endpoint("PUT", "/v1/acccounts/code/123456", attributes, access: .created, answers: 403),
    // This relay takes and makes no number tokens.
    Endpoint("PUT", "/v1/accounts/token/1:2:3", attributes, access: .created, answers: 403),
    Endpoint("GET", "/v1/accounts/token", answers: 404),
    Endpoint("POST", "/v1/accounts/voice/twiml/123-456", access: .open),
  ]

  private static let account = [
    Endpoint("PUT", "/v1/accounts/gcm", #"{"gcmRegistrationId":"id"}"#), Endpoint("DELETE", "/v1/accounts/gcm"),
    Endpoint("PUT", "/v1/accounts/apn", #"{"apnRegistrationId":"id"}"#), Endpoint("DELETE", "/v1/accounts/apn"),
    Endpoint("PUT", "/v1/accounts/webpush", subscription), Endpoint("DELETE", "/v1/accounts/webpush"),
    // This relay wakes no browsers.
    Endpoint("GET", "/v1/accounts/webpush", answers: 404),
    Endpoint("DELETE", "/v1/accounts/wsc"), Endpoint("PUT", "/v1/accounts/wsc"),
    Endpoint("PUT", "/v1/accounts/attributes", attributes),
    Endpoint("PUT", "/v1/accounts/pin", #"{"pin":"1234"}"#), Endpoint("DELETE", "/v1/accounts/pin"),
  ]

  private static func keys(of other: TestDevice) -> [Endpoint] {
    [
      Endpoint("PUT", "/v1/keys", keysV1), Endpoint("GET", "/v1/keys"),
      Endpoint("GET", "/v1/keys/\(other.number)"), Endpoint("GET", "/v1/keys/\(other.number)/*"),
      Endpoint("PUT", "/v2/keys", keysV2), Endpoint("GET", "/v2/keys"), Endpoint("GET", "/v2/keys/\(other.number)/1"),
      Endpoint("PUT", "/v2/keys/signed", signedKey), Endpoint("GET", "/v2/keys/signed"),
    ]
  }

  private static func messages(to other: TestDevice) -> [Endpoint] {
    let old = #"{"messages":[{"type":1,"destination":"\#(other.number)","body":"Zm9v"}]}"#
    return [
      Endpoint("PUT", "/v1/messages/\(other.number)", bundle(message())), Endpoint("POST", "/v1/messages", old),
      Endpoint("GET", "/v1/messages"), Endpoint("DELETE", "/v1/messages/\(other.number)/1"),
      Endpoint("PUT", "/v1/receipt/\(other.number)/\(receivedTime)"),
    ]
  }

  private static func directory(_ other: TestDevice) throws -> [Endpoint] {
    let token = try TestTokens.urlSafe(other.number)
    return [
      Endpoint("PUT", "/v1/directory/tokens", #"{"contacts":["\#(token)"]}"#),
      Endpoint("PUT", "/v1/directory/changes", #"{"contacts":["\#(token)"],"cursor":"1-2"}"#),
      Endpoint("GET", "/v1/directory/\(token)"),
      Endpoint("PUT", "/v1/directory/oblivious/evaluations", #"{"elements":[]}"#),
      Endpoint("GET", "/v1/directory/oblivious/registered"),
    ]
  }

  private static let attachmentsAndDevices = [
    Endpoint("GET", "/v1/attachments"), Endpoint("GET", "/v1/attachments/4611686018427387904"),
    Endpoint("GET", "/v1/devices"), Endpoint("DELETE", "/v1/devices/77"),
    Endpoint("GET", "/v1/devices/provisioning_code"), Endpoint("GET", "/v1/devices/provisioning/code"),
    // The code is another: 403 after everything else was found right.
    Endpoint("PUT", "/v1/devices/000000", attributes, access: .created, answers: 403),
  ]

  private static let receivedTime: Int64 = 77
  /// The subscription of RFC 8291, 5.
  private static let subscription =
    #"{"endpoint":"https://push.example.net/x","auth":"BTBZMqHH6r4Tts7J_aSIgg","p256dh":"#
    + #""BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"}"#
  private static let attributes = #"{"signalingKey":"c2ln","fetchesMessages":true}"#
  /// An identity key and what it signed: the same in docs/openapi.yaml.
  private static let identityKey = "BUcB0ISIRR9UWkCftYrj5YWBykCsP38RRpjNcd6sc8oB"
  private static let signedKey =
    #"{"keyId":5,"publicKey":"BUo4B9Bk0HcYHMBwmJ52iR0g3KVVlUjcLHfBpQJziCs4","signature":"#
    + #""MzkX5iZrsxw8l/42zOX7CTBbLLuIHHT9mjSeSkjb50CKvxov0mYBZEHDLyYg1Ga82yd8k/qjq3LkPlRhE2UWhg"}"#
  private static let keysV1 =
    #"{"lastResortKey":{"keyId":1,"publicKey":"a","identityKey":"\#(identityKey)"},"keys":[]}"#
  private static let keysV2 =
    #"{"identityKey":"\#(identityKey)","preKeys":[],"lastResortKey":{"keyId":1,"publicKey":"a"},"#
    + #""signedPreKey":\#(signedKey)}"#

  private init(
    _ method: String, _ path: String, _ json: String? = nil, access: Access = .device, answers expectedStatus: Int = 200
  ) {
    self.method = method
    self.path = path
    self.json = json
    self.access = access
    self.expectedStatus = expectedStatus
  }
}
