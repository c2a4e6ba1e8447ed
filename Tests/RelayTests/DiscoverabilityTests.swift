import TestSupport
import TestTags
import Testing

/// Accounts that do not want to be found by their number.
@Suite(.tags(.processes), .ownRelay) struct DiscoverabilityTests {
  let relay: RelayProcess
  let caller: TestDevice

  init() async throws {
    relay = try suiteRelay().relay
    caller = try await relay.register()
  }

  private func isFound(_ device: TestDevice) async throws -> Bool {
    let token = try TestTokens.token(of: device.number)
    let list = try await relay.send(
      "PUT", "/v1/directory/tokens", json: #"{"contacts":["\#(token)"]}"#, as: caller
    ).list("contacts")
    let single = try await relay.send("GET", "/v1/directory/\(try TestTokens.urlSafe(device.number))", as: caller)
    #expect(single.status == (list.isEmpty ? 404 : 200))
    return !list.isEmpty
  }

  private func canBeWrittenTo(_ device: TestDevice) async throws -> Bool {
    let path = "/v1/messages/\(device.number)"
    return try await relay.send("PUT", path, json: bundle(message()), as: caller).status == 200
  }

  private func say(_ property: String, as device: TestDevice) async throws {
    let json = #"{"signalingKey":"c2ln","fetchesMessages":true\#(property)}"#
    #expect(try await relay.send("PUT", "/v1/accounts/attributes", json: json, as: device).status == 200)
  }

  @Test func `a hidden account is not found, gets messages and keys, and comes back by saying so`() async throws {
    let device = try await relay.register()
    try await relay.upload([1], as: device)
    #expect(try await isFound(device))
    try await say(#","discoverableByPhoneNumber":false"#, as: device)
    #expect(try await isFound(device) == false)
    #expect(try await canBeWrittenTo(device))
    #expect(try await relay.send("GET", "/v1/keys/\(device.number)", as: caller).status == 200)
    // A client that does not say it leaves it: older clients, and other requests.
    for silence in ["", #","discoverableByPhoneNumber":null"#] {
      try await say(silence, as: device)
      #expect(try await isFound(device) == false, "\(silence)")
    }
    #expect(try await relay.send("PUT", "/v1/accounts/wsc", as: device).status == 200)
    #expect(try await isFound(device) == false)
    try await say(#","discoverableByPhoneNumber":"true""#, as: device)
    #expect(try await isFound(device))
  }

  @Test func `a new installation may say it, and leaves it otherwise`() async throws {
    let hidden = try await relay.register(attributes: #","discoverableByPhoneNumber":false"#)
    #expect(try await isFound(hidden) == false)
    #expect(try await canBeWrittenTo(hidden))
    let anew = try await relay.register(hidden.number)
    #expect(try await isFound(anew) == false)
    let open = try await relay.register(hidden.number, attributes: #","discoverableByPhoneNumber":true"#)
    #expect(try await isFound(open))
    let still = try await relay.register(hidden.number)
    #expect(try await isFound(still))
  }

  @Test func `a value that is neither true nor false is refused`() async throws {
    let device = try await relay.register()
    for value in ["1", "[]", #""yes""#] {
      let json = #"{"signalingKey":"c2ln","fetchesMessages":true,"discoverableByPhoneNumber":\#(value)}"#
      #expect(try await relay.send("PUT", "/v1/accounts/attributes", json: json, as: device).status == 415, "\(value)")
    }
    #expect(try await isFound(device))
  }
}

/// The accounts as peers find them.
@Suite(.tags(.processes)) struct DiscoverabilityAtPeersTests {
  private static let settings = RelayUnderTest.unlimited.merging(["RELAY_FEDERATION_DIRECTORY_INTERVAL": "0.2"]) { $1 }

  private static func isFound(_ device: TestDevice, by caller: TestDevice, at relay: RelayProcess) async throws -> Bool
  {
    let path = "/v1/directory/\(try TestTokens.urlSafe(device.number))"
    let answer = try await relay.send("GET", path, as: caller)
    #expect(answer.status == 404 || answer.object["relay"] as? String == "alpha", "\(answer.text)")
    return answer.status == 200
  }

  private static func waitUntil(
    _ device: TestDevice, isFound expected: Bool, by caller: TestDevice, at relay: RelayProcess
  ) async throws {
    try await eventually("a contact is found: \(expected)", every: .milliseconds(100)) {
      try await isFound(device, by: caller, at: relay) == expected
    }
  }

  private static func say(_ isDiscoverable: Bool, as device: TestDevice, at relay: RelayProcess) async throws {
    let json = #"{"signalingKey":"c2ln","fetchesMessages":true,"discoverableByPhoneNumber":\#(isDiscoverable)}"#
    #expect(try await relay.send("PUT", "/v1/accounts/attributes", json: json, as: device).status == 200)
  }

  @Test func `neither a copy of the listing nor a question at look-up time shows them`() async throws {
    try await PeeredOperator.withTwo(settings: Self.settings) { alpha, beta in
      let bob = try await alpha.relay.register()
      let alice = try await beta.relay.register()
      try await Self.waitUntil(bob, isFound: true, by: alice, at: beta.relay)
      try await Self.say(false, as: bob, at: alpha.relay)
      try await Self.waitUntil(bob, isFound: false, by: alice, at: beta.relay)
      // The account is there all the same.
      let body = #"{"relay":"alpha","messages":[\#(message(registrationID: 0))]}"#
      #expect(try await beta.relay.send("PUT", "/v1/messages/\(bob.number)", json: body, as: alice).status == 200)

      try await beta.site.relay("peer", "set", "alpha", "--contacts", "query")
      let carol = try await alpha.relay.register()
      let dave = try await alpha.relay.register(attributes: #","discoverableByPhoneNumber":false"#)
      try await Self.waitUntil(carol, isFound: true, by: alice, at: beta.relay)
      for hidden in [bob, dave] { #expect(try await Self.isFound(hidden, by: alice, at: beta.relay) == false) }

      try await Self.say(true, as: bob, at: alpha.relay)
      try await beta.site.relay("peer", "set", "alpha", "--contacts", "copy")
      try await Self.waitUntil(bob, isFound: true, by: alice, at: beta.relay)
      #expect(try await Self.isFound(dave, by: alice, at: beta.relay) == false)
    }
  }
}
