import Foundation
import RelayClient
import RelayCore
import TestSupport

/// The providers that a relay of a test pushes to, and its settings for them.
struct WakingSite: Sendable {
  enum Place: Sendable {
    case google, apple
  }

  let files: PushFiles
  let fcm: FakeFCM
  let apns: FakeAPNs

  /// Runs `body` with both providers.
  static func with(_ body: (WakingSite) async throws -> Void) async throws {
    let files = try PushFiles()
    let fcm = try await FakeFCM(files, key: try files.makeServiceAccount())
    let apns = try await FakeAPNs(files, key: try files.makeAPNsKey())
    do {
      try await body(WakingSite(files: files, fcm: fcm, apns: apns))
    } catch {
      try await fcm.close()
      try await apns.close()
      throw error
    }
    try await fcm.close()
    try await apns.close()
  }

  /// A device that was woken is left alone for an hour: what is pushed more than once, is pushed for a reason.
  func settings(_ places: [Place] = [.google, .apple], _ more: [String: String] = [:]) -> [String: String] {
    var all = [
      "RELAY_PUSH_ENDPOINTS_APNS": apns.url, "RELAY_PUSH_ENDPOINTS_FCM": fcm.url,
      "RELAY_PUSH_ENDPOINTS_FCM_OAUTH": fcm.tokenURL, "RELAY_PUSH_ENDPOINTS_TRUST": files.trust,
      "RELAY_PUSH_PAUSE_SECONDS": "3600",
      "RELAY_LIMITS_SMS_DESTINATION_SIZE": "1000", "RELAY_LIMITS_VERIFY_NUMBER_SIZE": "1000",
      "RELAY_LIMITS_MESSAGES_SIZE": "1000000",
    ]
    if places.contains(.google) { all["RELAY_PUSH_FCM_SERVICE_ACCOUNT_FILE"] = files.serviceAccount }
    if places.contains(.apple) {
      all["RELAY_PUSH_APNS_KEY_FILE"] = files.apnsKey
      all["RELAY_PUSH_APNS_KEY_ID"] = PushFiles.keyID
      all["RELAY_PUSH_APNS_TEAM_ID"] = PushFiles.teamID
      all["RELAY_PUSH_APNS_TOPIC"] = PushFiles.topic
    }
    return all.merging(more) { $1 }
  }

  /// Messages that FCM was sent for the device.
  func pushes(toGoogle token: String) -> [[String: Any]] {
    fcm.requests.compactMap { $0.json["message"] as? [String: Any] }.filter { $0["token"] as? String == token }
  }
  func pushes(toApple token: String) -> [FakeRequest] {
    apns.requests.filter { $0.path == "/3/device/\(token)" }
  }
}

/// A device that has registered, with a signaling key that can be used.
struct WokenDevice: Sendable {
  let account: TestDevice
  let client: RelayClient
  let key: SignalingKey
  let attributes: DeviceAttributes

  /// Registers a fresh number.
  init(at relay: RelayProcess) async throws {
    let text = TestDevice.freshNumber()
    guard let number = PhoneNumber(text) else { throw TestFailure("no number") }
    let credentials = Credentials.random(for: number)
    attributes = DeviceAttributes.random()
    client = try RelayClient(url: relay.url).with(credentials)
    guard let code = try await client.requestCode(for: number, by: .development) else { throw TestFailure("no code") }
    try await client.confirm(code: code, attributes: attributes)
    key = try SignalingKey(attributes.signalingKey)
    account = TestDevice(
      number: text, password: credentials.password, registrationID: attributes.registrationID)
  }

  /// As the command line names it.
  var name: String { "\(account.number).1" }
  var address: DeviceAddress {
    get throws {
      guard let number = AccountNumber(e164: account.number) else { throw TestFailure("no number") }
      return DeviceAddress(number, .master)
    }
  }

  func register(gcm token: String, at relay: RelayProcess) async throws {
    try await put("/v1/accounts/gcm/", #"{"gcmRegistrationId":"\#(token)","webSocketChannel":true}"#, at: relay)
  }
  func register(apn token: String, voip: String? = nil, at relay: RelayProcess) async throws {
    let voip = voip.map { #","voipRegistrationId":"\#($0)""# } ?? ""
    try await put("/v1/accounts/apn/", #"{"apnRegistrationId":"\#(token)"\#(voip)}"#, at: relay)
  }

  private func put(_ path: String, _ json: String, at relay: RelayProcess) async throws {
    let answer = try await relay.send("PUT", path, json: json, as: account)
    guard answer.status == 204 || answer.status == 200 else { throw TestFailure("\(path): \(answer.status)") }
  }

  /// Sends `recipient` a message by `relay`. - Returns: the answer's status.
  @discardableResult
  func send(_ body: String = "Zm9v", to recipient: WokenDevice, at relay: RelayProcess, timestamp: Int64? = nil)
    async throws -> Int
  {
    try await relay.send(
      "PUT", "/v1/messages/\(recipient.account.number)", json: bundle(message(body), timestamp: timestamp),
      as: account
    ).status
  }

  /// A random id as Apple gives them out.
  static func appleToken() -> String {
    (0..<32).map { _ in
      let text = String(UInt8.random(in: 0...255), radix: 16)
      return text.count == 1 ? "0" + text : text
    }.joined()
  }
}
