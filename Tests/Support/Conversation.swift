// A test's words to a relay, byte for byte, for cases in which the client library would be too polite.

package import AsyncHTTPClient
import Foundation
import NIOCore
import NIOHTTP1
import Synchronization

/// One client for all tests: a port that nobody listens on is an error at once, not after many tries.
package enum TestHTTP {
  package static let client: HTTPClient = {
    var configuration = HTTPClient.Configuration(redirectConfiguration: .disallow)
    configuration.connectionPool.retryConnectionEstablishment = false
    configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = 512
    return HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
  }()
}

/// A whole answer.
package struct Answer: Sendable {
  package let status: Int
  /// Names in lower case; of repeated fields the last.
  package let headers: [String: String]
  package let body: [UInt8]

  package var text: String { String(decoding: body, as: UTF8.self) }

  /// The body as JSON objects; empty when it is none.
  package var object: [String: Any] {
    (try? JSONSerialization.jsonObject(with: Data(body))) as? [String: Any] ?? [:]  // Tests compare what is in it.
  }

  /// The objects of one array of the body.
  package func list(_ key: String) -> [[String: Any]] { object[key] as? [[String: Any]] ?? [] }
}

/// A device of an account: what it proves itself with.
package struct TestDevice: Sendable {
  package let number: String
  package let password: String
  package let device: Int
  package let registrationID: Int

  package init(number: String, password: String, device: Int = 1, registrationID: Int = 0) {
    self.number = number
    self.password = password
    self.device = device
    self.registrationID = registrationID
  }

  package var authorization: String { Self.basic("\(user):\(password)") }
  /// As the oldest clients: device 1 goes by its number alone.
  package var user: String { device == 1 ? number : "\(number).\(device)" }

  package static func basic(_ text: String) -> String { "Basic " + Data(text.utf8).base64EncodedString() }

  /// A number that no other test of this process has.
  package static func freshNumber() -> String {
    "+1555\(1_000_000 + numbers.add(1, ordering: .relaxed).newValue)"
  }
  private static let numbers = Atomic<Int>(0)
}

extension RelayProcess {
  /// Sends one request and reads the whole answer.
  /// - Parameters:
  ///   - path: as it stands in the request line, percent-encoded or not.
  ///   - json: the body; declared as `application/json` unless `headers` say otherwise.
  package func send(
    _ method: String, _ path: String, json: String? = nil, as device: TestDevice? = nil,
    headers: [(String, String)] = []
  ) async throws -> Answer {
    try await Self.send(method, url + path, json: json, as: device, headers: headers)
  }

  /// Asks the operator's listener.
  package func ask(_ path: String) async throws -> Answer { try await Self.send("GET", operatorURL + path) }

  private static func send(
    _ method: String, _ url: String, json: String? = nil, as device: TestDevice? = nil,
    headers: [(String, String)] = []
  ) async throws -> Answer {
    var request = HTTPClientRequest(url: url)
    request.method = .RAW(value: method)
    if let device { request.headers.add(name: "Authorization", value: device.authorization) }
    if let json {
      request.body = .bytes(ByteBuffer(string: json))
      if !headers.contains(where: { $0.0 == "Content-Type" }) {
        request.headers.add(name: "Content-Type", value: "application/json")
      }
    }
    for (name, value) in headers where !value.isEmpty { request.headers.add(name: name, value: value) }
    let response = try await TestHTTP.client.execute(request, timeout: .seconds(60))
    let body = try await response.body.collect(upTo: 64 << 20)
    var fields: [String: String] = [:]
    for field in response.headers { fields[field.name.lowercased()] = field.value }
    return Answer(status: Int(response.status.code), headers: fields, body: Array(body.readableBytesView))
  }

  /// Asks for a code for `number`. - Returns: six digits.
  package func code(for number: String) async throws -> String {
    let answer = try await send("GET", "/v1/accounts/dev/code/\(number)")
    guard answer.status == 200 else { throw TestFailure("no code: \(answer.status) \(answer.text)") }
    return answer.text.filter { $0 != "-" }
  }

  /// Registers `number`, anew if it is registered.
  package func register(
    _ number: String = TestDevice.freshNumber(), registrationID: Int = 111, attributes: String = "",
    password: String = "password-\(UUID().uuidString)"
  ) async throws -> TestDevice {
    let code = try await code(for: number)
    let device = TestDevice(
      number: number, password: password, registrationID: registrationID)
    let body =
      #"{"signalingKey":"c2lnbmFsaW5n","registrationId":\#(registrationID),"fetchesMessages":true\#(attributes)}"#
    let answer = try await send("PUT", "/v1/accounts/code/\(code)", json: body, as: device)
    guard answer.status == 200 else { throw TestFailure("not registered: \(answer.status) \(answer.text)") }
    return device
  }

  /// Uploads one-time keys with `ids` and a last resort, whose public keys are `PREFIX-ID` and `PREFIX-last`.
  package func upload(_ ids: [Int], lastResort: Int = 16_777_215, prefix: String = "key", as device: TestDevice)
    async throws
  {
    let key = { (id: Int, text: String) in #"{"keyId":\#(id),"publicKey":"\#(text)","identityKey":"identity"}"# }
    let keys = ids.map { key($0, "\(prefix)-\($0)") }.joined(separator: ",")
    let body = #"{"lastResortKey":\#(key(lastResort, "\(prefix)-last")),"keys":[\#(keys)]}"#
    let answer = try await send("PUT", "/v1/keys", json: body, as: device)
    guard answer.status == 200 else { throw TestFailure("no keys uploaded: \(answer.status) \(answer.text)") }
  }

  /// The first page of the device's mailbox.
  package func mailbox(of device: TestDevice) async throws -> [[String: Any]] {
    try await send("GET", "/v1/messages", as: device).list("messages")
  }
}

/// One message of a bundle as JSON.
package func message(
  _ body: String = "Zm9v", type: Int = 1, device: Int = 1, registrationID: Int = 0
) -> String {
  #"{"type":\#(type),"destinationDeviceId":\#(device),"destinationRegistrationId":\#(registrationID),"body":"\#(body)"}"#
}

/// A bundle of messages as JSON.
package func bundle(_ messages: String..., timestamp: Int64? = nil) -> String {
  let time = timestamp.map { #","timestamp":\#($0)"# } ?? ""
  return #"{"messages":[\#(messages.joined(separator: ","))]\#(time)}"#
}
