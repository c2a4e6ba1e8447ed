import Foundation
import RelayClient
import TestSupport
import Testing

/// One device of somebody who uses one of the clients: speaks to one relay, as that client does.
struct Person: Sendable {
  let client: RealClient
  let relay: RelayProcess
  let number: String
  let device: Int
  let password: String
  let registrationID: Int
  let identity: IdentityKeys

  private static let signalingKey = "AwoRGB8mLTQ7QklQV15lbHN6gYiPlp2kq7K5wMfO1dzj6vH4/wYNFBsiKTA3PkVMU1phaA=="

  private init(
    _ client: RealClient, at relay: RelayProcess, _ number: String, device: Int, registrationID: Int,
    identity: IdentityKeys
  ) {
    self.client = client
    self.relay = relay
    self.number = number
    self.device = device
    self.registrationID = registrationID
    self.identity = identity
    // Letters that the clients write in their own ways.
    password = "pZNr/OTTP3xwdVKQC7+\(UUID().uuidString.prefix(4))"
  }

  /// First start: verifies the number and uploads keys. A number that has an account is installed anew.
  static func register(
    _ client: RealClient, at relay: RelayProcess, _ number: String = TestDevice.freshNumber(), registrationID: Int
  ) async throws -> Person {
    let person = Person(
      client, at: relay, number, device: 1, registrationID: registrationID, identity: try IdentityKeys())
    let code = try await relay.code(for: number)
    let body = """
      {"signalingKey": "\(signalingKey)", "registrationId": \(registrationID), "fetchesMessages": true,
      "supportsSms": false}
      """
    let answer = try await relay.send(
      "PUT", "/v1/accounts/code/\(code)", json: body, headers: client.headers(user: number, password: person.password))
    #expect([200, 204].contains(answer.status), "verification: \(answer.status) \(answer.text)")
    try await person.uploadKeys()
    return person
  }

  /// Links another device to the account of this one: the new device waits at an address, which the other reads from
  /// its screen and sends the code to.
  func link(registrationID: Int) async throws -> Person {
    let waiting = try await RelayClient(url: relay.url).awaitProvisioning()
    let drawn = try await ask("GET", "/v1/devices/provisioning/code").object["verificationCode"] as? String
    let body64 = Data(try #require(drawn).utf8).base64EncodedString()
    let sent = try await ask("PUT", "/v1/provisioning/\(waiting.address)", #"{"body": "\#(body64)"}"#)
    #expect([200, 204].contains(sent.status), "provisioning: \(sent.status) \(sent.text)")
    let code = String(decoding: try #require(try await waiting.message()), as: UTF8.self)
    await waiting.close()
    let proof = Person(
      client, at: relay, number, device: 0, registrationID: registrationID, identity: identity)
    let body = """
      {"signalingKey": "\(Self.signalingKey)", "registrationId": \(registrationID), "fetchesMessages": true,
      "supportsSms": false}
      """
    let answer = try await relay.send(
      "PUT", "/v1/devices/\(code)", json: body,
      headers: client.headers(user: number, password: proof.password))
    let id = try #require(answer.object["deviceId"] as? Int, "linking: \(answer.status) \(answer.text)")
    let linked = Person(proof, device: id)
    try await linked.uploadKeys()
    return linked
  }

  private init(_ proof: Person, device: Int) {
    (client, relay, number, password) = (proof.client, proof.relay, proof.number, proof.password)
    (registrationID, identity, self.device) = (proof.registrationID, proof.identity, device)
  }

  /// One request with the client's own headers.
  func ask(_ method: String, _ path: String, _ json: String? = nil) async throws -> Answer {
    try await relay.send(
      method, path, json: json,
      headers: client.headers(user: client.user(number, device: device), password: password))
  }

  private func uploadKeys() async throws {
    let key = { (id: Int) in #"{"keyId": \#(id), "publicKey": "\#(try IdentityKeys().publicKey)"}"# }
    let signed = try IdentityKeys().publicKey
    // Browsers number from 0, the signed one as well.
    let body = """
      {
        "preKeys": [\(try (0..<20).map(key).joined(separator: ", "))],
        "lastResortKey": \(try key(16_777_215)),
        "signedPreKey": {"keyId": 0, "publicKey": "\(signed)", "signature": "\(try identity.signature(of: signed))"},
        "identityKey": "\(identity.publicKey)"
      }
      """
    let answer = try await ask("PUT", client.keysPath, body)
    #expect([200, 204].contains(answer.status), "keys: \(answer.status) \(answer.text)")
    #expect(try await ask("GET", client.keysPath).object["count"] as? Int == 20)
  }

  /// `?relay=NAME`, where the client names relays and there is one.
  func query(_ relay: String?) -> String { client.namesRelays ? relay.map { "?relay=\($0)" } ?? "" : "" }
}

/// The deliveries to one device over its WebSocket: takes everything, and says 200 OK to it.
final class Inbox: Sendable {
  let session: LiveSession
  private let taken: Taken
  private let reading: Task<Void, Never>

  private actor Taken {
    private(set) var messages: [IncomingMessage] = []
    func add(_ message: IncomingMessage) { messages.append(message) }
  }

  init(of person: Person) async throws {
    let number = try #require(PhoneNumber(person.number))
    let credentials = Credentials(Correspondent(number, deviceID: person.device), password: person.password)
    let client = try RelayClient(url: person.relay.url, credentials: credentials)
    let session = try await client.connect(
      signalingKey: try SignalingKey(
        "AwoRGB8mLTQ7QklQV15lbHN6gYiPlp2kq7K5wMfO1dzj6vH4/wYNFBsiKTA3PkVMU1phaA=="))
    let taken = Taken()
    self.session = session
    self.taken = taken
    reading = Task {
      do {
        for try await delivery in session.deliveries {
          let message = try delivery.message
          await taken.add(message)
          try await delivery.acknowledge()
        }
      } catch {
        // The connection has ended: whoever waits for a message is told that it did not come.
      }
    }
  }

  /// Waits for the one message of `type` with that time. - Returns: its text, of whichever field holds it.
  @discardableResult
  func expect(_ type: Int, at time: Int64, from sender: Person, relay: String?) async throws -> String {
    let message = try await eventually(
      "a delivery of type \(type) from \(sender.client.rawValue)", within: .seconds(40)
    ) {
      await taken.messages.first { $0.type == type && $0.timestamp == time && $0.source.number.e164 == sender.number }
    }
    #expect(message.relay == relay && message.source.deviceID == sender.device)
    let same = await taken.messages.count { $0 == message }
    #expect(same == 1, "delivered \(same) times")
    return String(decoding: message.body.isEmpty ? message.content : message.body, as: UTF8.self)
  }

  /// Waits for `count` messages of `sender`. - Returns: their times, as they came.
  func times(of count: Int, from sender: Person) async throws -> [Int64] {
    try await eventually("\(count) deliveries", within: .seconds(40)) {
      let times = await taken.messages.filter { $0.type != 5 && $0.source.number.e164 == sender.number }.map(
        \.timestamp)
      return times.count >= count ? times : nil
    }
  }

  func close() async {
    await session.close()
    await reading.value
  }
}
